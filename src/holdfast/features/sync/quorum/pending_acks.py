"""Local changes with too few acknowledgements: their table, and the answers of the peers."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from holdfast.kernel.journal.journal import Position
from holdfast.kernel.records.change import ChangeId
from holdfast.kernel.storage.port import Session

MAX_SEQ = (1 << 63) - 1


class UnackedChange(NamedTuple):
    seq: int
    name: ChangeId
    kind: str
    record: str
    since: int


def mark_pending(session: Session, places: Sequence[Position], origin: str, now: int) -> None:
    """Mark the own changes among new journal entries as pending."""
    session.do("pending_ack_add", first=places[0].seq, last=places[-1].seq, origin=origin, now=now)


def list_pending(session: Session, first: int = 0, last: int = MAX_SEQ) -> list[UnackedChange]:
    rows = session.rows("pending_ack_list", first=first, last=last)
    return [
        UnackedChange(seq, ChangeId(origin, n), kind, record, since) for seq, origin, n, kind, record, since in rows
    ]


def clear_pending(session: Session, seqs: Sequence[int]) -> None:
    session.do("pending_ack_drop", seqs=list(seqs))


Reason = Literal["timeout", "unreachable", "rejected"]


class NackReason(NamedTuple):
    """Why a peer does not have a change yet."""

    reason: Reason
    what: str


REASONS = ("timeout", "unreachable", "rejected")
"""In order of reporting: a timeout may succeed next time, a rejection does not."""
NO_ANSWER = NackReason("timeout", "did not answer in time")


class PendingAck:
    """A change of this store and the peers that have it."""

    def __init__(self, change: UnackedChange) -> None:
        self.change = change
        self.acked_by: dict[str, str] = {}
        """The node of each peer that has it."""
        self.nacks: dict[str, NackReason] = {}
        """Why each other peer does not have it, as of its last answer."""

    @property
    def ack_count(self) -> int:
        """Count the stores that have the change: this one, and each node once, even under several names."""
        return 1 + len({*self.acked_by.values()})


def count_pending(session: Session) -> tuple[int, int | None]:
    """Count the pending changes; also return the time of the oldest."""
    row = session.row("pending_ack_count")
    assert row is not None
    return row[0], row[1]
