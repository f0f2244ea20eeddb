"""State of host sessions that the next hook needs: memories given, tools used, last turns."""

from typing import NamedTuple

import msgspec

from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import DAY

MOST_SESSIONS = 500
KEPT = 30 * DAY
MOST_GIVEN = 2000
"""Memories given per session; after that it gets no more, so none is given twice."""
MOST_TOOLS = 64
"""Tool calls recorded since the last answer; further ones are dropped."""


class Kept(NamedTuple):
    turns: int = 0
    """Number of captured turns."""
    given: tuple[str, ...] = ()
    tools: tuple[dict[str, str], ...] = ()
    said: tuple[str, ...] = ()
    """Digests of the last turns, one per role."""

    @property
    def full(self) -> bool:
        return len(self.given) >= MOST_GIVEN


FRESH = Kept()


def get(session: Session, id: str) -> Kept:
    row = session.row("hook_session_get", id=id)
    if row is None:
        return FRESH
    turns, given, tools, said = row
    return Kept(turns, *(tuple(msgspec.json.decode(text)) for text in (given, tools, said)))


def put(session: Session, id: str, kept: Kept, now: int) -> None:
    """Save a session and prune old ones."""
    lists = {"given": kept.given[:MOST_GIVEN], "tools": kept.tools[:MOST_TOOLS], "said": kept.said}
    texts = {name: msgspec.json.encode(value).decode() for name, value in lists.items()}
    session.do("hook_session_put", id=id, now=now, turns=kept.turns, **texts)
    session.do("hook_session_prune", before=now - KEPT, most=MOST_SESSIONS)


def drop(session: Session, id: str) -> None:
    session.do("hook_session_drop", id=id)
