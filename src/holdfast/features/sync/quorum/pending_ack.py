"""The acknowledgements of one local change."""

from typing import Literal, NamedTuple

from holdfast.features.sync.quorum.store import UnackedChange
from holdfast.kernel.storage.port import Session

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
