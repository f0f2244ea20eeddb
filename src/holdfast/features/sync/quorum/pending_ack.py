"""A change of this store that others should have, and what each of them said of it."""

from typing import Literal, NamedTuple

from holdfast.features.sync.quorum.store import Unreplicated

Reason = Literal["timeout", "unreachable", "rejected"]


class Missed(NamedTuple):
    """Why a peer does not have a change."""

    reason: Reason
    what: str


REASONS = ("timeout", "unreachable", "rejected")
"""The first that any peer has is told: that one may be different another time."""
SILENT = Missed("timeout", "did not answer in time")


class Promise:
    """A change of this store, and who else has it."""

    def __init__(self, change: Unreplicated) -> None:
        self.change = change
        self.kept_by: dict[str, str] = {}
        """The node behind each peer that has it."""
        self.missed: dict[str, Missed] = {}
        """Why a peer does not have it, by its last word."""

    @property
    def got(self) -> int:
        """This store counts: what is promised is durable here. A node counts once, whatever it is called."""
        return 1 + len({*self.kept_by.values()})
