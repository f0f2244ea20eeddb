"""State of host sessions that the next hook needs: memories given, tools used, last turns."""

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.storage.local_table import LocalTable
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import DAY

MAX_SESSIONS = 500
RETENTION = 30 * DAY
MAX_GIVEN = 2000
"""Memories given per session; after that it gets no more, so none is given twice."""
MAX_TOOLS = 64
"""Tool calls recorded since the last answer; further ones are dropped."""


class HookSession(Struct, frozen=True, kw_only=True):
    id: str
    seen_at: int = 0
    turns: int = 0
    """Number of captured turns."""
    given_ids: tuple[str, ...] = ()
    tools: tuple[dict[str, str], ...] = ()
    turn_digests: tuple[str, ...] = ()
    """Digests of the last turns, one per role."""

    @property
    def is_full(self) -> bool:
        return len(self.given_ids) >= MAX_GIVEN


HOOK_SESSIONS = LocalTable(HookSession, "hook_session")


def get_session(session: Session, id: str) -> HookSession:
    """Return a session, or a new one."""
    return HOOK_SESSIONS.get(session, id) or HookSession(id=id)


def put_session(session: Session, state: HookSession, now: int) -> None:
    """Save a session and prune old ones."""
    given, tools = state.given_ids[:MAX_GIVEN], state.tools[:MAX_TOOLS]
    HOOK_SESSIONS.put(session, replace(state, seen_at=now, given_ids=given, tools=tools))
    session.do("hook_session_prune", before=now - RETENTION, most=MAX_SESSIONS)
