"""Quarantine: changes of other stores that were rejected."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.sync.quarantine import service as quarantine_service
from holdfast.features.sync.quarantine.service import RetryOutcome
from holdfast.features.sync.quarantine.store import QuarantinedChange
from holdfast.kernel.context import Context
from holdfast.kernel.registry.fields import Limit, Skip
from holdfast.kernel.registry.operation import Effect, Example, Request, operation, value_or_unset
from holdfast.kernel.timestamps import TimeText, format_timestamp

QuarantineId = Annotated[
    str, Meta(min_length=1, max_length=128, description="Id of the rejected change.", extra={"argument": True})
]
MAX_IDS = 1000


class QuarantinedChangeView(Struct, frozen=True, kw_only=True):
    """A rejected change of another store."""

    id: str
    reason: str
    detail: str
    kind: str
    record: str
    action: str
    origin: str
    """The replica that made it, by its own account."""
    number: int
    peer: str
    """The node that sent it."""
    actor: str
    made_at: TimeText
    """When it was made, by its own account."""
    kept_at: TimeText
    tried_at: TimeText
    tries: int
    peer_name: str | UnsetType = UNSET
    """The name of that node as a peer."""
    memory_id: str | UnsetType = UNSET
    """The memory it is about."""


def quarantined_change_view(quarantined: "QuarantinedChange", senders: Mapping[str, str]) -> QuarantinedChangeView:
    change = quarantined.change
    return QuarantinedChangeView(
        id=quarantined.id,
        reason=quarantined.reason,
        detail=quarantined.detail,
        kind=change.kind,
        record=change.record,
        action=change.op,
        origin=change.origin,
        number=change.n,
        peer=quarantined.peer,
        peer_name=value_or_unset(senders.get(quarantined.peer)),
        actor=change.actor,
        made_at=format_timestamp((change.at >> 16) * 1000),
        kept_at=format_timestamp(quarantined.recorded_at),
        tried_at=format_timestamp(quarantined.tried_at),
        tries=quarantined.tries,
        memory_id=value_or_unset(change.about),
    )


class Quarantine(Request, frozen=True):
    limit: Limit = 50
    offset: Skip = 0


class QuarantinePage(Struct, frozen=True, kw_only=True):
    quarantined: list[QuarantinedChangeView]
    count: int
    total: int


@operation(
    Effect.READ,
    "GET /api/v1/quarantine",
    cli=("sync", "quarantine"),
    aliases=("quarantine list", "sync quarantine list"),
    admin=True,
    human="holdfast.features.sync.quarantine.render:render_quarantine",
    examples=(Example({}), Example({"limit": 0}, error="VALIDATION_FAILED")),
)
def quarantine(ctx: Context, request: Quarantine) -> QuarantinePage:
    """List rejected changes of other stores with their reasons, newest first."""
    changes, total = quarantine_service.list_quarantined(ctx, limit=request.limit, skip=request.offset)
    names = quarantine_service.get_sender_names(ctx)
    return QuarantinePage(
        quarantined=[quarantined_change_view(one, names) for one in changes], count=len(changes), total=total
    )


class QuarantineShow(Request, frozen=True):
    id: QuarantineId


class QuarantinedChangeDetails(QuarantinedChangeView, frozen=True, kw_only=True):
    """A rejected change with its content."""

    says: str | UnsetType = UNSET
    """The record or edit as sent, unless a purge erased it."""


@operation(
    Effect.READ,
    "GET /api/v1/quarantine/{id}",
    cli=("sync", "quarantine", "show"),
    aliases=("quarantine show",),
    admin=True,
    human="holdfast.features.sync.quarantine.render:render_quarantined_change",
    examples=(Example({"id": "no-such-change"}, error="NOT_FOUND"), Example({"id": "b8d35f02"}, prepared=True)),
)
def quarantine_show(ctx: Context, request: QuarantineShow) -> QuarantinedChangeDetails:
    """Show a rejected change and its content."""
    change = quarantine_service.get_quarantined(ctx, request.id)
    view = quarantined_change_view(change, quarantine_service.get_sender_names(ctx))
    fields = {name: getattr(view, name) for name in view.__struct_fields__}
    return QuarantinedChangeDetails(**fields, says=value_or_unset(change.change.content))


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
    reason: str | UnsetType = UNSET
    detail: str | UnsetType = UNSET


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
    human="holdfast.features.sync.quarantine.render:render_quarantine_retry",
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
    outcomes = [
        _retry_view(one)
        for one in quarantine_service.retry_quarantined(ctx, request.ids, trust_source=request.trust_source)
    ]
    applied = sum(one.outcome == "applied" for one in outcomes)
    return QuarantineRetryResult(applied=applied, rejected=len(outcomes) - applied, outcomes=outcomes)


def _retry_view(one: "RetryOutcome") -> RetryView:
    about = {"id": one.change.id, "kind": one.change.change.kind, "record": one.change.change.record}
    if one.still_quarantined is None:
        return RetryView(**about, outcome="applied")
    return RetryView(
        **about, outcome="rejected", reason=one.still_quarantined.reason, detail=one.still_quarantined.detail
    )


class QuarantineDrop(Request, frozen=True):
    ids: Annotated[
        list[str], Meta(min_length=1, max_length=MAX_IDS, description="Ids of the changes.", extra={"argument": True})
    ]


class QuarantineDropResult(Struct, frozen=True, kw_only=True):
    dropped: list[QuarantinedChangeView]
    count: int


@operation(
    Effect.DESTROY,
    "POST /api/v1/quarantine/drop",
    cli=("sync", "quarantine", "drop"),
    aliases=("quarantine drop",),
    admin=True,
    irreversible=True,
    human="holdfast.features.sync.quarantine.render:render_quarantine_drop",
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
    names = quarantine_service.get_sender_names(ctx)
    views = [quarantined_change_view(one, names) for one in quarantine_service.drop_quarantined(ctx, request.ids)]
    return QuarantineDropResult(dropped=views, count=len(views))
