"""The acknowledgements of one local change."""

from typing import Literal, NamedTuple

from holdfast.features.sync.quorum.store import Unreplicated

Reason = Literal["timeout", "unreachable", "rejected"]


class Missed(NamedTuple):
    """Why a peer does not have a change yet."""

    reason: Reason
    what: str


REASONS = ("timeout", "unreachable", "rejected")
"""In order of reporting: a timeout may succeed next time, a rejection does not."""
SILENT = Missed("timeout", "did not answer in time")


class Promise:
    """A change of this store and the peers that have it."""

    def __init__(self, change: Unreplicated) -> None:
        self.change = change
        self.kept_by: dict[str, str] = {}
        """The node of each peer that has it."""
        self.missed: dict[str, Missed] = {}
        """Why each other peer does not have it, as of its last answer."""

    @property
    def got(self) -> int:
        """Count the stores that have the change: this one, and each node once, even under several names."""
        return 1 + len({*self.kept_by.values()})
