"""State of host sessions that the next hook needs: memories given, tools used, last turns."""

from typing import NamedTuple

import msgspec

from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import DAY

MAX_SESSIONS = 500
RETENTION = 30 * DAY
MAX_GIVEN = 2000
"""Memories given per session; after that it gets no more, so none is given twice."""
MAX_TOOLS = 64
"""Tool calls recorded since the last answer; further ones are dropped."""


class HookSession(NamedTuple):
    turns: int = 0
    """Number of captured turns."""
    given_ids: tuple[str, ...] = ()
    tools: tuple[dict[str, str], ...] = ()
    turn_digests: tuple[str, ...] = ()
    """Digests of the last turns, one per role."""

    @property
    def is_full(self) -> bool:
        return len(self.given_ids) >= MAX_GIVEN


NEW_SESSION = HookSession()


def get_session(session: Session, id: str) -> HookSession:
    row = session.row("hook_session_get", id=id)
    if row is None:
        return NEW_SESSION
    turns, given_ids, tools, turn_digests = row
    return HookSession(turns, *(tuple(msgspec.json.decode(text)) for text in (given_ids, tools, turn_digests)))


def put_session(session: Session, id: str, state: HookSession, now: int) -> None:
    """Save a session and prune old ones."""
    lists = {
        "given_ids": state.given_ids[:MAX_GIVEN],
        "tools": state.tools[:MAX_TOOLS],
        "turn_digests": state.turn_digests,
    }
    texts = {name: msgspec.json.encode(value).decode() for name, value in lists.items()}
    session.do("hook_session_put", id=id, now=now, turns=state.turns, **texts)
    session.do("hook_session_prune", before=now - RETENTION, most=MAX_SESSIONS)


def drop_session(session: Session, id: str) -> None:
    session.do("hook_session_drop", id=id)
