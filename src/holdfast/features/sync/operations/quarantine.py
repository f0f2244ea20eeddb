"""Quarantine: changes of other stores that were rejected."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.memories.views import known
from holdfast.features.sync.quarantine import service as aside
from holdfast.features.sync.quarantine.service import Retried
from holdfast.features.sync.quarantine.store import Quarantined
from holdfast.kernel.context import Hold
from holdfast.kernel.registry.fields import Limit, Skip
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.timestamps import to_text

QuarantinedId = Annotated[str, Meta(min_length=1, max_length=128, extra={"argument": True})]
MOST_AT_ONCE = 1000


class QuarantinedView(Struct, frozen=True, kw_only=True):
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
    made_at: str
    """When it was made, by its own account."""
    kept_at: str
    tried_at: str
    tries: int
    peer_name: str | UnsetType = UNSET
    """The name of that node as a peer."""
    memory_id: str | UnsetType = UNSET
    """The memory it is about."""


def quarantined_view(held: "Quarantined", senders: Mapping[str, str]) -> QuarantinedView:
    change = held.change
    return QuarantinedView(
        id=held.id,
        reason=held.reason,
        detail=held.detail,
        kind=change.kind,
        record=change.record,
        action=change.op,
        origin=change.origin,
        number=change.n,
        peer=held.peer,
        peer_name=known(senders.get(held.peer)),
        actor=change.actor,
        made_at=to_text((change.at >> 16) * 1000),
        kept_at=to_text(held.kept_at),
        tried_at=to_text(held.tried_at),
        tries=held.tries,
        memory_id=known(change.about),
    )


class Quarantine(Request, frozen=True):
    limit: Limit = 50
    offset: Skip = 0


class QuarantinePage(Struct, frozen=True, kw_only=True):
    quarantined: list[QuarantinedView]
    count: int
    total: int


@operation(
    Effect.READ,
    "GET /api/v1/quarantine",
    family="power",
    admin=True,
    cli=("quarantine", "list"),
    human="holdfast.features.sync.quarantine.render:render_quarantine",
    examples=(Example({}), Example({"limit": 0}, error="VALIDATION_FAILED")),
)
def quarantine(hold: Hold, request: Quarantine) -> QuarantinePage:
    """List rejected changes of other stores with their reasons, newest first."""
    held, total = aside.listed(hold, limit=request.limit, skip=request.offset)
    names = aside.senders(hold)
    return QuarantinePage(quarantined=[quarantined_view(one, names) for one in held], count=len(held), total=total)


class QuarantineShow(Request, frozen=True):
    id: QuarantinedId


class QuarantinedWhole(QuarantinedView, frozen=True, kw_only=True):
    """A rejected change with its content."""

    says: str | UnsetType = UNSET
    """The record or edit as sent, unless a purge erased it."""


@operation(
    Effect.READ,
    "GET /api/v1/quarantine/{id}",
    family="power",
    admin=True,
    cli=("quarantine", "show"),
    human="holdfast.features.sync.quarantine.render:render_quarantined_change",
    examples=(Example({"id": "no-such-change"}, error="NOT_FOUND"),),
)
def quarantine_show(hold: Hold, request: QuarantineShow) -> QuarantinedWhole:
    """Show a rejected change and its content."""
    held = aside.show(hold, request.id)
    view = quarantined_view(held, aside.senders(hold))
    fields = {name: getattr(view, name) for name in view.__struct_fields__}
    return QuarantinedWhole(**fields, says=known(held.change.words))


class QuarantineRetry(Request, frozen=True):
    ids: Annotated[
        list[str],
        Meta(max_length=MOST_AT_ONCE, description="Ids of the changes [default: all].", extra={"argument": True}),
    ] = []
    trust_source: Annotated[bool, Meta(description="Keep the owners of new memories; otherwise you own them.")] = False


class RetriedView(Struct, frozen=True, kw_only=True):
    id: str
    kind: str
    record: str
    outcome: Literal["applied", "rejected"]
    reason: str | UnsetType = UNSET
    detail: str | UnsetType = UNSET


class QuarantineRetried(Struct, frozen=True, kw_only=True):
    applied: int
    rejected: int
    outcomes: list[RetriedView]


@operation(
    Effect.WRITE,
    "POST /api/v1/quarantine/retry",
    family="power",
    admin=True,
    cli=("quarantine", "retry"),
    human="holdfast.features.sync.quarantine.render:render_quarantine_retry",
    examples=(Example({}), Example({"ids": ["no-such-change"]}, error="NOT_FOUND")),
)
def quarantine_retry(hold: Hold, request: QuarantineRetry) -> QuarantineRetried:
    """Retry changes in quarantine as if they had just arrived.

    A change that is rejected again stays in quarantine with its reason.
    """
    outcomes = [_retried(one) for one in aside.retry(hold, request.ids, trust_source=request.trust_source)]
    applied = sum(one.outcome == "applied" for one in outcomes)
    return QuarantineRetried(applied=applied, rejected=len(outcomes) - applied, outcomes=outcomes)


def _retried(one: "Retried") -> RetriedView:
    about = {"id": one.held.id, "kind": one.held.change.kind, "record": one.held.change.record}
    if one.still is None:
        return RetriedView(**about, outcome="applied")
    return RetriedView(**about, outcome="rejected", reason=one.still.reason, detail=one.still.detail)


class QuarantineDrop(Request, frozen=True):
    ids: Annotated[
        list[str],
        Meta(min_length=1, max_length=MOST_AT_ONCE, description="Ids of the changes.", extra={"argument": True}),
    ]


class QuarantineDropped(Struct, frozen=True, kw_only=True):
    dropped: list[QuarantinedView]
    count: int


@operation(
    Effect.DESTROY,
    "POST /api/v1/quarantine/drop",
    family="power",
    admin=True,
    irreversible=True,
    cli=("quarantine", "drop"),
    human="holdfast.features.sync.quarantine.render:render_quarantine_drop",
    examples=(Example({"ids": ["no-such-change"]}, error="NOT_FOUND"), Example({"ids": []}, error="VALIDATION_FAILED")),
)
def quarantine_drop(hold: Hold, request: QuarantineDrop) -> QuarantineDropped:
    """Delete changes from quarantine and reject them in the future.

    They are rejected whoever sends them again. A different change with the same origin and number is accepted.
    """
    names = aside.senders(hold)
    held = [quarantined_view(one, names) for one in aside.drop(hold, request.ids)]
    return QuarantineDropped(dropped=held, count=len(held))
