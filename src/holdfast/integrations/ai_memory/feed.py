"""The journal as memories in order of their last change, and the last state each peer sent."""

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.features.memories import read_memories as memories
from holdfast.integrations.ai_memory.cursor import Cursor
from holdfast.kernel.context import Caller
from holdfast.kernel.journal import journal
from holdfast.kernel.storage.port import Session

SCAN_SIZE = 500


class LastChange(NamedTuple):
    """The last change of a memory."""

    seq: int
    recorded_at: int
    id: str
    """The representative of its title group."""
    by: str | None
    """The peer that sent this state, if nothing has changed since."""


class PeerState(NamedTuple):
    """The version stored for a peer's state, and the peer's time of it."""

    version: int
    updated_at: int


def resume_seq(session: Session, since: Cursor) -> int:
    """Return where to resume: the cursor's position if this journal has it, else the time, rather too early."""
    if since.seq is not None and since.seq <= journal.get_head(session).seq:
        row = session.row("ai_memory_kept_at", seq=since.seq)
        if row is None or row[0] == since.at:
            return since.seq
    row = session.row("ai_memory_seq_before", at=since.at)
    assert row is not None
    return int(row[0])


def list_changes(session: Session, caller: Caller, after: int) -> Iterator[list[LastChange]]:
    """Yield the last changes after a position that are visible to the caller, in order, in batches."""
    parts, params = memories.visibility_clauses(caller)
    asked = ("ai_memory_changes", *parts, "ai_memory_changes.page")
    while rows := session.select(asked, params | {"after": after, "limit": SCAN_SIZE}):
        yield [
            LastChange(seq, recorded_at, visible_as or id, by if version == said else None)
            for seq, recorded_at, id, visible_as, version, by, said in rows
        ]
        after = rows[-1][0]


def get_peer_state(session: Session, memory: str) -> PeerState | None:
    row = session.row("ai_memory_state_get", memory=memory)
    return PeerState(*row) if row else None


def put_peer_state(session: Session, memory: str, peer: str, said: PeerState) -> None:
    session.do("ai_memory_state_put", memory=memory, peer=peer, version=said.version, updated_at=said.updated_at)
