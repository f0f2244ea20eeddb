"""Invalidations: notices that a source of a memory changed. Dependents are flagged, never modified.

A memory is invalidated when it is deleted, archived, expired, superseded or changed by a peer. Every direct or indirect
dependent (by reflection or derivation) then gets an invalidation, with the same id on every node.
"""

from typing import Literal, NamedTuple, get_args

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.journal.kinds import Kind, register_kind
from holdfast.kernel.records.field_versions import MergeSchema
from holdfast.kernel.records.link import Relation
from holdfast.kernel.records.tombstone import PURGED
from holdfast.kernel.timestamps import derive_id

Cause = Literal["superseded", "deleted", "archived", "expired", "invalidated", "changed"]
Status = Literal["open", "acknowledged", "resolved", "dismissed"]
STATUSES: tuple[Status, ...] = get_args(Status)
DERIVATION_RELATIONS: tuple[Relation, ...] = ("derives_from", "derived_from")
"""Those by which the dependent can replace its source."""
PENDING_STATUSES: tuple[Status, ...] = ("open", "acknowledged")
"""With one of these, the dependent is stale."""
RESTORED_REASON = "restored"
"""The reason given when a notice is resolved automatically: the source is back."""


class Invalidation(Struct, frozen=True):
    """A notice that a source of a memory was invalidated."""

    id: str
    invalidated: str
    """The invalidated source."""
    invalidating: str
    """Its replacement; the source itself if there is none."""
    dependent: str
    hop: int
    """Distance from the source: 1 is a direct dependent."""
    cause: Cause
    status: Status
    reason: str | None
    """Why it was acknowledged, resolved or dismissed."""
    resolver: str | None
    """Who changed its status last."""
    created_at: int
    updated_at: int
    origin: str
    version: int
    state: Literal["live", "deleted"] = "live"


def erase_reason(invalidation: Invalidation) -> Invalidation:
    """Erase the reason of an invalidation."""
    return replace(invalidation, reason=PURGED, state="deleted")


INVALIDATION = register_kind(
    Kind(
        "invalidation",
        Invalidation,
        MergeSchema(conflict_fields=("status", "cause", "state"), lww_fields=("hop", "reason", "resolver")),
        lambda invalidation: invalidation.dependent,
        lambda row: Invalidation(*row),
        erase_reason,
        lambda invalidation: (("memory", invalidation.dependent),),
    )
)


def invalidation_id(invalidated: str, invalidating: str, dependent: str) -> str:
    """Derive the id, the same on every node."""
    return derive_id(invalidated, invalidating, dependent)


class SourceStatus(NamedTuple):
    """The fields of a memory that decide whether it is available as a source."""

    id: str
    namespace: str
    state: str
    valid_until: int | None
    updated_at: int
    lives_until: int

    def unavailable_because(self, now: int) -> Cause | None:
        """Why the memory is unavailable; None if it is available."""
        if self.state != "live":
            return "deleted" if self.state == "deleted" else "archived"
        if self.valid_until is not None and self.valid_until <= now:
            return "invalidated" if self.valid_until <= self.updated_at else "expired"
        return "expired" if self.lives_until <= now else None

    def expired_at(self, now: int) -> int:
        """When the memory expired, if it has."""
        return min(self.lives_until, now if self.valid_until is None else self.valid_until)
