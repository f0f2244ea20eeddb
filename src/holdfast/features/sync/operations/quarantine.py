"""Quarantine: changes of other stores that were rejected."""

from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import astuple

from holdfast.features.sync.quarantine import service as quarantine_service
from holdfast.features.sync.quarantine.store import QuarantinedChange, QuarantinedChangeDetails
from holdfast.kernel.context import Context
from holdfast.kernel.registry.fields import Limit, Skip
from holdfast.kernel.registry.operation import Effect, Example, Request, operation

QuarantineId = Annotated[
    str, Meta(min_length=1, max_length=128, description="Id of the rejected change.", extra={"argument": True})
]
MAX_IDS = 1000


class Quarantine(Request, frozen=True):
    limit: Limit = 50
    offset: Skip = 0


class QuarantinePage(Struct, frozen=True, kw_only=True):
    quarantined: list[QuarantinedChange]
    count: int
    total: int


@operation(
    Effect.READ,
    "GET /api/v1/quarantine",
    cli=("sync", "quarantine"),
    aliases=("quarantine list", "sync quarantine list"),
    admin=True,
    human="holdfast.features.sync.render:render_quarantine",
    examples=(Example({}), Example({"limit": 0}, error="VALIDATION_FAILED")),
)
def quarantine(ctx: Context, request: Quarantine) -> QuarantinePage:
    """List rejected changes of other stores with their reasons, newest first."""
    changes, total = quarantine_service.list_quarantined(ctx, limit=request.limit, skip=request.offset)
    return QuarantinePage(quarantined=changes, count=len(changes), total=total)


class QuarantineShow(Request, frozen=True):
    id: QuarantineId


@operation(
    Effect.READ,
    "GET /api/v1/quarantine/{id}",
    cli=("sync", "quarantine", "show"),
    aliases=("quarantine show",),
    admin=True,
    human="holdfast.features.sync.render:render_quarantined_change",
    examples=(Example({"id": "no-such-change"}, error="NOT_FOUND"), Example({"id": "b8d35f02"}, prepared=True)),
)
def quarantine_show(ctx: Context, request: QuarantineShow) -> QuarantinedChangeDetails:
    """Show a rejected change and its content."""
    return QuarantinedChangeDetails(*astuple(quarantine_service.get_quarantined(ctx, request.id)))


class QuarantineRetry(Request, frozen=True):
    ids: Annotated[
        list[str], Meta(max_length=MAX_IDS, description="Ids of the changes [default: all].", extra={"argument": True})
    ] = []
    trust_source: Annotated[bool, Meta(description="Keep the owners of new memories; otherwise you own them.")] = False


class RetryView(Struct, frozen=True, kw_only=True):
    id: str
    kind: str
    record: str
    outcome: Literal["applied", "rejected"]
    reason: str | None = None
    detail: str | None = None


class QuarantineRetryResult(Struct, frozen=True, kw_only=True):
    applied: int
    rejected: int
    outcomes: list[RetryView]


@operation(
    Effect.WRITE,
    "POST /api/v1/quarantine/retry",
    cli=("sync", "quarantine", "retry"),
    aliases=("quarantine retry",),
    admin=True,
    human="holdfast.features.sync.render:render_quarantine_retry",
    examples=(
        Example({}),
        Example({"ids": ["no-such-change"]}, error="NOT_FOUND"),
        Example({"ids": ["b8d35f02"]}, prepared=True),
    ),
)
def quarantine_retry(ctx: Context, request: QuarantineRetry) -> QuarantineRetryResult:
    """Retry changes in quarantine as if they had just arrived.

    A change that is rejected again stays in quarantine with its reason.
    """
    retried = quarantine_service.retry_quarantined(ctx, request.ids, trust_source=request.trust_source)
    outcomes = [
        RetryView(
            id=change.id,
            kind=change.kind,
            record=change.record,
            outcome="rejected" if rejected else "applied",
            reason=rejected.reason if rejected else None,
            detail=rejected.detail if rejected else None,
        )
        for change, rejected in retried
    ]
    applied = sum(one.outcome == "applied" for one in outcomes)
    return QuarantineRetryResult(applied=applied, rejected=len(outcomes) - applied, outcomes=outcomes)


class QuarantineDrop(Request, frozen=True):
    ids: Annotated[
        list[str], Meta(min_length=1, max_length=MAX_IDS, description="Ids of the changes.", extra={"argument": True})
    ]


class QuarantineDropResult(Struct, frozen=True, kw_only=True):
    dropped: list[QuarantinedChange]
    count: int


@operation(
    Effect.DESTROY,
    "POST /api/v1/quarantine/drop",
    cli=("sync", "quarantine", "drop"),
    aliases=("quarantine drop",),
    admin=True,
    irreversible=True,
    human="holdfast.features.sync.render:render_quarantine_drop",
    examples=(
        Example({"ids": ["no-such-change"]}, error="NOT_FOUND"),
        Example({"ids": []}, error="VALIDATION_FAILED"),
        Example({"ids": ["b8d35f02"]}, prepared=True),
    ),
)
def quarantine_drop(ctx: Context, request: QuarantineDrop) -> QuarantineDropResult:
    """Delete changes from quarantine and reject them in the future.

    They are rejected whoever sends them again. A different change with the same origin and number is accepted.
    """
    dropped = quarantine_service.drop_quarantined(ctx, request.ids)
    return QuarantineDropResult(dropped=dropped, count=len(dropped))
