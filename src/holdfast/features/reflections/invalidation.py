"""Invalidations: notices that a source of a memory changed. Dependents are flagged, never modified.

A memory is invalidated when it is deleted, archived, expired, superseded or changed by a peer. Every direct or indirect
dependent (by reflection or derivation) then gets an invalidation, with the same id on every node.
"""

from typing import Literal, NamedTuple, get_args

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.journal.kinds import Kind, register_kind
from holdfast.kernel.records.field_versions import MergeSchema
from holdfast.kernel.records.link import Link, Relation
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.tombstone import PURGED
from holdfast.kernel.timestamps import derive_id

Cause = Literal["superseded", "deleted", "archived", "expired", "invalidated", "changed"]
Status = Literal["open", "acknowledged", "resolved", "dismissed"]
STATUSES: tuple[Status, ...] = get_args(Status)
SOURCE_RELATIONS: tuple[Relation, ...] = ("reflects_on", "derives_from", "derived_from")
"""Relations from a memory to its sources."""
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


class ChangeSet:
    """Changes of one transaction that affect dependents; evaluated when it ends."""

    def __init__(self) -> None:
        self.unavailable: set[str] = set()
        self.restored: set[str] = set()
        self.changed: set[str] = set()
        """Sources changed by a peer."""
        self.superseded: set[tuple[str, str]] = set()
        """Pairs of source and replacement."""
        self.ended_links: set[tuple[str, str]] = set()
        """Ended source links: pairs of source and dependent."""
        self.derivations: set[tuple[str, str]] = set()
        """New derivations: pairs of source and derived memory."""
        self.new_links: set[tuple[str, str]] = set()
        """New source links: pairs of source and dependent."""
        self.arrived_unavailable: set[str] = set()
        """Memories that arrived unavailable: memories derived from them elsewhere replace them."""
        self.written_notices: set[str] = set()
        """Invalidations written in this transaction: they are not overwritten."""

    def __bool__(self) -> bool:
        return bool(
            self.unavailable or self.restored or self.changed or self.superseded or self.ended_links or self.new_links
        )

    def add_memory(self, before: Memory | None, after: Memory, now: int, *, expired: bool = False) -> None:
        """Record a written memory. `over`: its expiry counts now; otherwise garbage collection reports it."""
        there = not expired and _is_available(after, now)
        if before is None:
            self.arrived_unavailable.update([] if there else [after.id])
        elif not there:
            if _is_available(before, now):
                self.unavailable.add(after.id)
        elif not _is_available(before, now) or _is_past_expiry(before, now):
            self.restored.add(after.id)

    def add_link(self, before: Link | None, after: Link, now: int) -> None:
        """Record a created or changed link."""
        if after.relation == "supersedes":
            self._add_supersession(before, after, now)
        elif after.relation in SOURCE_RELATIONS:
            self._add_source_link(before, after, now)

    def _add_supersession(self, before: Link | None, link: Link, now: int) -> None:
        """A link whose start passed since it was last written may not have been reported yet."""
        was = before is not None and _supersedes_at(before, before.updated_at)
        if _supersedes_at(link, now):
            if not was:
                self.superseded.add((link.target, link.source))
        elif before is not None and (was or _supersedes_at(before, now)):
            self.superseded.discard((link.target, link.source))
            self.restored.add(link.target)

    def _add_source_link(self, before: Link | None, link: Link, now: int) -> None:
        """A link whose end passed since it was last written may not have been reported yet."""
        known, held = before is not None, before is not None and _is_valid_at(before, now)
        if not _is_valid_at(link, now):
            if link.state == "live" and before is not None and _is_valid_at(before, before.updated_at):
                self.ended_links.add((link.target, link.source))
            return
        if held:
            return
        self.new_links.add((link.target, link.source))
        if known:
            self.restored.add(link.target)
        elif link.relation in DERIVATION_RELATIONS:
            self.derivations.add((link.target, link.source))


def _is_available(memory: Memory, now: int) -> bool:
    return memory.state == "live" and (memory.valid_until is None or memory.valid_until > now)


def _is_past_expiry(memory: Memory, now: int) -> bool:
    return memory.expires_at is not None and memory.expires_at <= now


def _supersedes_at(link: Link, now: int) -> bool:
    """Whether a supersedes link is in force: it may start later."""
    return _is_valid_at(link, now) and link.valid_from <= now


def _is_valid_at(link: Link, now: int) -> bool:
    return link.state == "live" and (link.valid_until is None or link.valid_until > now)
