"""Conflicts: list concurrent edits of two stores and resolve them."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.sync import conflicts as conflict_service
from holdfast.features.sync.conflicts import ConflictDetails, get_resolve_parts
from holdfast.kernel.context import Context
from holdfast.kernel.records.merge import Resolution
from holdfast.kernel.registry.fields import Actor, Limit, Skip
from holdfast.kernel.registry.operation import Effect, Example, Request, operation, value_or_unset
from holdfast.kernel.registry.stages import StageEffects


class ConflictPage(Struct, frozen=True, kw_only=True):
    conflicts: list[ConflictDetails]
    count: int
    total: int


class Conflicts(Request, frozen=True):
    limit: Limit = 50
    offset: Skip = 0


@operation(
    Effect.READ,
    "GET /api/v1/conflicts",
    cli=("sync", "conflicts"),
    aliases=("conflicts list", "sync conflicts list"),
    human="holdfast.features.sync.render:render_conflicts",
    examples=(Example({}), Example({"limit": 0}, error="VALIDATION_FAILED")),
)
def conflicts(ctx: Context, request: Conflicts) -> ConflictPage:
    """List conflicts between concurrent edits, newest first."""
    with ctx.reading() as session:
        found, total = conflict_service.list_conflicts(ctx, session, limit=request.limit, skip=request.offset)
    return ConflictPage(conflicts=found, count=len(found), total=total)


ConflictId = Annotated[
    str, Meta(min_length=1, max_length=128, description="Id of the conflict.", extra={"argument": True})
]


class ConflictShow(Request, frozen=True):
    id: ConflictId


@operation(
    Effect.READ,
    "GET /api/v1/conflicts/{id}",
    cli=("sync", "conflicts", "show"),
    aliases=("conflicts show",),
    human="holdfast.features.sync.render:render_conflict",
    examples=(Example({"id": "no-such-conflict"}, error="NOT_FOUND"), Example({"id": "6ae170b8"}, prepared=True)),
)
def conflicts_show(ctx: Context, request: ConflictShow) -> ConflictDetails:
    """Show both values of a conflict."""
    with ctx.reading() as session:
        return conflict_service.get_conflict(ctx, session, request.id)


class ConflictResolve(Request, frozen=True):
    id: ConflictId
    keep: Annotated[
        Resolution,
        Meta(description="shown or other, mine or theirs, both (as two memories), or edited (with `value`)."),
    ]
    value: Annotated[str, Meta(description="The text that replaces both, with keep edited.")] | None = None
    agent_id: Actor | None = None


class ConflictResolveResult(Struct, frozen=True, kw_only=True):
    id: str
    memory_id: str
    field: str
    kept: str
    other_id: str | UnsetType = UNSET
    """The memory that now holds the other value, if both were kept."""


def _parts(ctx: Context, request: ConflictResolve) -> StageEffects:
    return get_resolve_parts(ctx, request.id, request.keep, request.value)


@operation(
    Effect.WRITE,
    "POST /api/v1/conflicts/{id}/resolve",
    cli=("sync", "conflicts", "resolve"),
    aliases=("conflicts resolve",),
    stages=("store", "delete", "link"),
    parts=_parts,
    human="holdfast.features.sync.render:render_conflict_resolution",
    examples=(
        Example({"id": "no-such-conflict", "keep": "shown"}, error="NOT_FOUND"),
        Example({"id": "no-such-conflict", "keep": "neither"}, error="VALIDATION_FAILED"),
        Example({"id": "no-such-conflict", "keep": "mine", "value": "Mine, edited."}, error="VALIDATION_FAILED"),
        Example({"id": "6ae170b8", "keep": "mine"}, prepared=True),
        Example({"id": "6ae170b8", "keep": "edited", "value": "We deploy on Wednesdays."}, prepared=True),
    ),
)
def conflicts_resolve(ctx: Context, request: ConflictResolve) -> ConflictResolveResult:
    """Resolve a conflict; the resolution is replicated to all peers."""
    conflict, other = conflict_service.resolve_conflict(ctx, request.id, request.keep, request.value)
    return ConflictResolveResult(
        id=conflict.id, memory_id=conflict.about, field=conflict.cell, kept=request.keep, other_id=value_or_unset(other)
    )
