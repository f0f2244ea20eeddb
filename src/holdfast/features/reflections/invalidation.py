"""What stands on something that fell, and what became of it: a notice to its owner, never a change of it.

A memory falls when it goes away, when what it says ends, or when another takes its place. Whatever reflects on it or
was derived from it, directly or through others, then has an invalidation, the same one on every node.
"""

from typing import Literal, NamedTuple, get_args

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel import ids
from holdfast.kernel.journal.kinds import Kind, register
from holdfast.kernel.records.field_versions import Shape
from holdfast.kernel.records.link import Link, Relation
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.tombstone import PURGED

Cause = Literal["superseded", "deleted", "archived", "expired", "invalidated", "changed"]
Status = Literal["open", "acknowledged", "resolved", "dismissed"]
STATUSES: tuple[Status, ...] = get_args(Status)
GROUNDS: tuple[Relation, ...] = ("reflects_on", "derives_from", "derived_from")
"""Relations by which a memory stands on another."""
MAKING: tuple[Relation, ...] = ("derives_from", "derived_from")
"""Those of them by which one is made of another and can take its place."""
UNSETTLED: tuple[Status, ...] = ("open", "acknowledged")
"""While it is one of these, the dependent is stale."""
RESTORED = "restored"
"""Why the machine resolves one: what fell is back."""


class Invalidation(Struct, frozen=True):
    """A memory that stands on one that fell."""

    id: str
    invalidated: str
    """What fell."""
    invalidating: str
    """What took its place; the fallen memory itself if nothing did."""
    dependent: str
    hop: int
    """How far the dependent stands from what fell: 1 is directly on it."""
    cause: Cause
    status: Status
    reason: str | None
    """Why it was settled."""
    resolver: str | None
    """Who acknowledged, resolved or dismissed it last."""
    created_at: int
    updated_at: int
    origin: str
    version: int
    state: Literal["live", "deleted"] = "live"


def erase_reason(invalidation: Invalidation) -> Invalidation:
    """An invalidation without the reason that somebody gave."""
    return replace(invalidation, reason=PURGED, state="deleted")


INVALIDATION = register(
    Kind(
        "invalidation",
        Invalidation,
        Shape(registers=("status", "cause", "state"), quiet=("hop", "reason", "resolver")),
        lambda invalidation: invalidation.dependent,
        lambda row: Invalidation(*row),
        erase_reason,
        lambda invalidation: (("memory", invalidation.dependent),),
    )
)


def id_of(invalidated: str, invalidating: str, dependent: str) -> str:
    """The same invalidation is the same record on every node."""
    return ids.derived(invalidated, invalidating, dependent)


class Standing(NamedTuple):
    """What of a memory decides whether others can stand on it."""

    id: str
    namespace: str
    state: str
    valid_until: int | None
    updated_at: int
    lives_until: int

    def away(self, now: int) -> Cause | None:
        """Why it is not there any more, if so."""
        if self.state != "live":
            return "deleted" if self.state == "deleted" else "archived"
        if self.valid_until is not None and self.valid_until <= now:
            return "invalidated" if self.valid_until <= self.updated_at else "expired"
        return "expired" if self.lives_until <= now else None

    def over_since(self, now: int) -> int:
        """When its time was over, if it is by now."""
        return min(self.lives_until, now if self.valid_until is None else self.valid_until)


class ChangeSet:
    """What fell and what came back in one transaction; what follows from it is found out at its end."""

    def __init__(self) -> None:
        self.gone: set[str] = set()
        self.back: set[str] = set()
        self.changed: set[str] = set()
        """By a peer, under those who stand on it."""
        self.superseded: set[tuple[str, str]] = set()
        """What fell, and what took its place."""
        self.cut: set[tuple[str, str]] = set()
        """What is not stood on any more, and who stood on it."""
        self.made: set[tuple[str, str]] = set()
        """What was made into something else, and into what."""
        self.grounded: set[tuple[str, str]] = set()
        """What is newly stood on, and who stands on it."""
        self.arrived: set[str] = set()
        """Memories that came in fallen: what was made of them elsewhere took their place."""
        self.settled: set[str] = set()
        """Invalidations that were written in it: what they say is the last word."""

    def __bool__(self) -> bool:
        return bool(self.gone or self.back or self.changed or self.superseded or self.cut or self.grounded)

    def memory(self, before: Memory | None, after: Memory, now: int, *, over: bool = False) -> None:
        """A memory was written, and its time may be over by that; otherwise that is left to those who collect."""
        there = not over and _there(after, now)
        if before is None:
            self.arrived.update([] if there else [after.id])
        elif not there:
            if _there(before, now):
                self.gone.add(after.id)
        elif not _there(before, now) or _outlived(before, now):
            self.back.add(after.id)

    def link(self, before: Link | None, after: Link, now: int) -> None:
        """A link was made or changed."""
        if after.relation == "supersedes":
            self._supersession(before, after, now)
        elif after.relation in GROUNDS:
            self._ground(before, after, now)

    def _supersession(self, before: Link | None, link: Link, now: int) -> None:
        """One that came to hold by itself since it was last written may not have been told yet."""
        was = before is not None and _replaces(before, before.updated_at)
        if _replaces(link, now):
            if not was:
                self.superseded.add((link.target, link.source))
        elif before is not None and (was or _replaces(before, now)):
            self.superseded.discard((link.target, link.source))
            self.back.add(link.target)

    def _ground(self, before: Link | None, link: Link, now: int) -> None:
        """One that ended by itself since it was last written may not have been told yet."""
        known, held = before is not None, before is not None and _holds(before, now)
        if not _holds(link, now):
            if link.state == "live" and before is not None and _holds(before, before.updated_at):
                self.cut.add((link.target, link.source))
            return
        if held:
            return
        self.grounded.add((link.target, link.source))
        if known:
            self.back.add(link.target)
        elif link.relation in MAKING:
            self.made.add((link.target, link.source))


def _there(memory: Memory, now: int) -> bool:
    return memory.state == "live" and (memory.valid_until is None or memory.valid_until > now)


def _outlived(memory: Memory, now: int) -> bool:
    return memory.expires_at is not None and memory.expires_at <= now


def _replaces(link: Link, now: int) -> bool:
    """Whether a link that supersedes does so at a moment: it may begin later."""
    return _holds(link, now) and link.valid_from <= now


def _holds(link: Link, now: int) -> bool:
    return link.state == "live" and (link.valid_until is None or link.valid_until > now)
