"""Changes after a cursor, for ai-memory peers."""

from typing import Any, NamedTuple

from holdfast.features.memories import read_memories as memories
from holdfast.features.sync.peers import store as peers
from holdfast.features.transfer import record_rows
from holdfast.integrations.ai_memory import feed
from holdfast.integrations.ai_memory.cursor import format_cursor, parse_cursor
from holdfast.integrations.ai_memory.feed import LastChange
from holdfast.kernel.context import Caller, Context
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.namespace_patterns import FULL_SCOPE, PeerScope
from holdfast.kernel.storage.port import Session

Row = dict[str, Any]


class MemoryState(NamedTuple):
    """The current state of a memory, and the row to send."""

    state: str
    row: Row


class ChangePage:
    """A page of changes; of a memory that is not live, only its state."""

    def __init__(self) -> None:
        self.memories: list[Row] = []
        self.deletions: list[Row] = []
        self.archives: list[Row] = []
        self.next: str | None = None
        """Where to continue; None if nothing was read."""
        self.more = False
        self._seen_ids: set[str] = set()

    def add(self, last: LastChange, now: MemoryState | None, *, echo: bool) -> None:
        """Add a change. Skip expired memories, which expire everywhere, and echoes of what the peer sent."""
        self.next = format_cursor(last.recorded_at, last.seq)
        if now is None or echo or last.id in self._seen_ids:
            return
        self._seen_ids.add(last.id)
        match now.state:
            case "live":
                self.memories.append({**now.row, "updated_at": self.next})
            case "deleted":
                self.deletions.append({**now.row, "deleted_at": self.next})
            case "archived":
                self.archives.append({**now.row, "archived_at": self.next})


def read_changes(ctx: Context, text: str | None, *, limit: int, peer: str | None) -> ChangePage:
    """Read changed memories in order of their last change here, so later changes never precede a cursor.

    Only memories count towards the limit, so a peer that continues after the last one always advances.
    """
    behind = ChangePage()
    asker = None if peer is None else sender_name(ctx.caller, peer)
    with ctx.reading() as session:
        scope = peer_scope(ctx, session)
        after = feed.resume_seq(session, parse_cursor(text)) if text else 0
        for some in feed.list_changes(session, ctx.caller, after):
            shown = _visible_states(ctx, session, some, scope)
            for last in some:
                if len(behind.memories) >= limit:
                    behind.more = True
                    return behind
                behind.add(last, shown.get(last.id), echo=asker is not None and last.by == asker)
    return behind


def peer_scope(ctx: Context, session: Session) -> PeerScope:
    """Return the namespaces exchanged with the caller: its peer filter, or everything if it is not a peer."""
    peer = peers.find_by_name(session, ctx.caller.peer) if ctx.caller.peer is not None else None
    return peer.scope if peer else FULL_SCOPE


def sender_name(caller: Caller, peer: str) -> str:
    """Return the sender's name qualified by the caller, so a caller cannot pose as another's peer."""
    return f"{caller.agent} {peer}"


def _visible_states(ctx: Context, session: Session, some: list[LastChange], scope: PeerScope) -> dict[str, MemoryState]:
    """Return the current states of the memories that the caller may see."""
    ids = list(dict.fromkeys(last.id for last in some))
    kept = memories.by_ids(session, ctx.caller, ids, ctx.now(), "any")
    live = memories.by_ids(session, ctx.caller, ids, ctx.now())
    uses = memories.read_access_counts(session, list(live))
    return {
        id: MemoryState("live", record_rows.memory_row(live[id], uses.get(id, (0, 0))))
        if id in live
        else _removed_state(memory)
        for id, memory in kept.items()
        if scope.can_send(memory.namespace)
    }


def _removed_state(memory: Memory) -> MemoryState:
    said = {"id": memory.id, "namespace": memory.namespace, "agent_id": memory.agent}
    return MemoryState("expired" if memory.state == "live" else memory.state, said)
