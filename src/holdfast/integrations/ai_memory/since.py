"""Changes after a cursor, for ai-memory peers."""

from typing import Any, NamedTuple

from holdfast.features.memories import store as memories
from holdfast.features.sync.peers import store as peers
from holdfast.features.transfer import schema_v1 as envelope
from holdfast.integrations.ai_memory import feed as told
from holdfast.integrations.ai_memory.cursor import read, written
from holdfast.integrations.ai_memory.feed import Last
from holdfast.kernel.caller import Caller
from holdfast.kernel.context import Hold
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.namespace_patterns import ALL, Scope
from holdfast.kernel.storage.port import Session

Row = dict[str, Any]


class Now(NamedTuple):
    """The current state of a memory, and the row to send."""

    state: str
    row: Row


class Behind:
    """A page of changes; of a memory that is not live, only its state."""

    def __init__(self) -> None:
        self.memories: list[Row] = []
        self.deletions: list[Row] = []
        self.archives: list[Row] = []
        self.next: str | None = None
        """Where to continue; None if nothing was read."""
        self.more = False
        self._told: set[str] = set()

    def add(self, last: Last, now: Now | None, *, echo: bool) -> None:
        """Add a change. Skip expired memories, which expire everywhere, and echoes of what the peer sent."""
        self.next = written(last.kept_at, last.seq)
        if now is None or echo or last.id in self._told:
            return
        self._told.add(last.id)
        match now.state:
            case "live":
                self.memories.append({**now.row, "updated_at": self.next})
            case "deleted":
                self.deletions.append({**now.row, "deleted_at": self.next})
            case "archived":
                self.archives.append({**now.row, "archived_at": self.next})


def since(hold: Hold, text: str | None, *, limit: int, peer: str | None) -> Behind:
    """Read changed memories in order of their last change here, so later changes never precede a cursor.

    Only memories count towards the limit, so a peer that continues after the last one always advances.
    """
    behind = Behind()
    asker = None if peer is None else sender_of(hold.caller, peer)
    with hold.reading() as session:
        scope = scope_of(hold, session)
        after = told.place_of(session, read(text)) if text else 0
        for some in told.behind(session, hold.caller, after):
            shown = _shown(hold, session, some, scope)
            for last in some:
                if len(behind.memories) >= limit:
                    behind.more = True
                    return behind
                behind.add(last, shown.get(last.id), echo=asker is not None and last.by == asker)
    return behind


def scope_of(hold: Hold, session: Session) -> Scope:
    """Return the namespaces exchanged with the caller: its peer filter, or everything if it is not a peer."""
    peer = peers.by_name(session, hold.caller.peer) if hold.caller.peer is not None else None
    return peer.scope if peer else ALL


def sender_of(caller: Caller, peer: str) -> str:
    """Return the sender's name qualified by the caller, so a caller cannot pose as another's peer."""
    return f"{caller.agent} {peer}"


def _shown(hold: Hold, session: Session, some: list[Last], scope: Scope) -> dict[str, Now]:
    """Return the current states of the memories that the caller may see."""
    ids = list(dict.fromkeys(last.id for last in some))
    kept = memories.by_ids(session, hold.caller, ids, hold.now(), "any")
    live = memories.by_ids(session, hold.caller, ids, hold.now())
    uses = memories.uses(session, list(live))
    return {
        id: Now("live", envelope.memory_row(live[id], uses.get(id, (0, 0)))) if id in live else _gone(memory)
        for id, memory in kept.items()
        if scope.tells(memory.namespace)
    }


def _gone(memory: Memory) -> Now:
    said = {"id": memory.id, "namespace": memory.namespace, "agent_id": memory.agent}
    return Now("expired" if memory.state == "live" else memory.state, said)
