"""What a session of an agent's host was given and told, as far as the next hook must know it."""

from typing import NamedTuple

import msgspec

from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import DAY

MOST_SESSIONS = 500
KEPT = 30 * DAY
MOST_GIVEN = 2000
"""Memories that one session is given; after that it is given no more, so that none is given twice."""
MOST_TOOLS = 64
"""Of the uses of tools since the last answer; those beyond are let go."""


class Kept(NamedTuple):
    turns: int = 0
    """How many turns were captured."""
    given: tuple[str, ...] = ()
    tools: tuple[dict[str, str], ...] = ()
    said: tuple[str, ...] = ()
    """Digests of what was said last, one for each who speaks."""

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
    """Keep what is known of a session, and let go of those that nobody goes on with."""
    told = {"given": kept.given[:MOST_GIVEN], "tools": kept.tools[:MOST_TOOLS], "said": kept.said}
    texts = {name: msgspec.json.encode(value).decode() for name, value in told.items()}
    session.do("hook_session_put", id=id, now=now, turns=kept.turns, **texts)
    session.do("hook_session_prune", before=now - KEPT, most=MOST_SESSIONS)


def drop(session: Session, id: str) -> None:
    session.do("hook_session_drop", id=id)
