"""Conflicts: list concurrent edits of two stores and resolve them."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.memories.views import known
from holdfast.features.sync import conflicts as settling
from holdfast.features.sync.conflict_store import Side
from holdfast.features.sync.conflicts import Shown, parts_of_resolving
from holdfast.kernel.context import Hold
from holdfast.kernel.records.merge import Keep
from holdfast.kernel.registry.fields import Actor, Limit, Skip
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.registry.stages import Parts
from holdfast.kernel.timestamps import to_text


class SideView(Struct, frozen=True, kw_only=True):
    value: Any
    memory_id: str
    origin: str
    at: str
    actor: str | UnsetType = UNSET


class ConflictView(Struct, frozen=True, kw_only=True):
    """Two concurrent values of a field: one is shown, the other is kept."""

    id: str
    kind: str
    memory_id: str
    namespace: str
    title: str
    field: str
    shown: SideView
    other: SideView
    found_at: str
    mine: Literal["shown", "other"] | UnsetType = UNSET
    """The value that this store wrote, if it wrote exactly one."""


class ConflictPage(Struct, frozen=True, kw_only=True):
    conflicts: list[ConflictView]
    count: int
    total: int


def conflict_view(one: "Shown") -> ConflictView:
    return ConflictView(
        id=one.conflict.id,
        kind=one.conflict.kind,
        memory_id=one.conflict.about,
        namespace=one.conflict.namespace,
        title=one.conflict.title,
        field=one.conflict.cell,
        shown=_side(one.sides.shown),
        other=_side(one.sides.lost),
        found_at=to_text(one.conflict.found_at),
        mine=known(one.mine),
    )


def _side(side: "Side") -> SideView:
    return SideView(
        value=side.value,
        memory_id=side.record,
        origin=side.stamp.origin,
        at=to_text((side.stamp.time >> 16) * 1000),
        actor=known(side.actor),
    )


class Conflicts(Request, frozen=True):
    limit: Limit = 50
    offset: Skip = 0


@operation(
    Effect.READ,
    "GET /api/v1/conflicts",
    family="power",
    cli=("conflicts", "list"),
    human="holdfast.features.sync.render:render_conflicts",
    examples=(Example({}), Example({"limit": 0}, error="VALIDATION_FAILED")),
)
def conflicts(hold: Hold, request: Conflicts) -> ConflictPage:
    """List conflicts between concurrent edits, newest first."""
    with hold.reading() as session:
        found, total = settling.browse(hold, session, limit=request.limit, skip=request.offset)
    return ConflictPage(conflicts=[conflict_view(one) for one in found], count=len(found), total=total)


ConflictId = Annotated[str, Meta(min_length=1, max_length=128, extra={"argument": True})]


class ConflictShow(Request, frozen=True):
    id: ConflictId


@operation(
    Effect.READ,
    "GET /api/v1/conflicts/{id}",
    family="power",
    cli=("conflicts", "show"),
    human="holdfast.features.sync.render:render_conflict",
    examples=(Example({"id": "no-such-conflict"}, error="NOT_FOUND"),),
)
def conflicts_show(hold: Hold, request: ConflictShow) -> ConflictView:
    """Show both values of a conflict."""
    with hold.reading() as session:
        return conflict_view(settling.show(hold, session, request.id))


class ConflictResolve(Request, frozen=True):
    id: ConflictId
    keep: Annotated[
        Keep, Meta(description="shown or other, mine or theirs, both (as two memories), or edited (with `value`).")
    ]
    value: Annotated[str, Meta(description="The text that replaces both, with keep edited.")] | None = None
    agent_id: Actor | None = None


class ConflictResolved(Struct, frozen=True, kw_only=True):
    id: str
    memory_id: str
    field: str
    kept: str
    other_id: str | UnsetType = UNSET
    """The memory that now holds the other value, if both were kept."""


def _parts(hold: Hold, request: ConflictResolve) -> Parts:
    return parts_of_resolving(hold, request.id, request.keep, request.value)


@operation(
    Effect.WRITE,
    "POST /api/v1/conflicts/{id}/resolve",
    family="power",
    stages=("store", "delete", "link"),
    parts=_parts,
    cli=("conflicts", "resolve"),
    human="holdfast.features.sync.render:render_conflict_resolution",
    examples=(
        Example({"id": "no-such-conflict", "keep": "shown"}, error="NOT_FOUND"),
        Example({"id": "no-such-conflict", "keep": "neither"}, error="VALIDATION_FAILED"),
        Example({"id": "no-such-conflict", "keep": "mine", "value": "Mine, edited."}, error="VALIDATION_FAILED"),
    ),
)
def conflicts_resolve(hold: Hold, request: ConflictResolve) -> ConflictResolved:
    """Resolve a conflict; the resolution is replicated to all peers."""
    conflict, other = settling.resolve(hold, request.id, request.keep, request.value)
    return ConflictResolved(
        id=conflict.id, memory_id=conflict.about, field=conflict.cell, kept=request.keep, other_id=known(other)
    )
