"""Operations: requests that wait for approval."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.memories import read_memories as memories
from holdfast.features.reflections import approvals, approvals_store
from holdfast.kernel.context import Context
from holdfast.kernel.registry.fields import Limit
from holdfast.kernel.registry.operation import Effect, Example, Request, operation, value_or_unset
from holdfast.kernel.registry.stages import StageEffects
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import TimeText, format_time

PendingId = Annotated[
    str, Meta(min_length=1, max_length=128, description="Id of the pending action.", extra={"argument": True})
]


class PendingList(Request, frozen=True):
    status: Annotated[Literal["pending", "approved", "rejected"], Meta(description="Only with this status.")] | None = (
        None
    )
    limit: Limit = 100


class PendingAction(Struct, frozen=True, kw_only=True):
    id: str
    action_type: str
    namespace: str
    payload: dict[str, Any]
    """The request; sources that the caller may not see are only counted."""
    requested_by: str
    requested_at: TimeText
    status: str
    decided_by: str | UnsetType = UNSET
    decided_at: TimeText | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class PendingPage(Struct, frozen=True, kw_only=True):
    count: int
    pending: list[PendingAction]


@operation(
    Effect.READ,
    "GET /api/v1/pending",
    topic="namespaces",
    cli=("namespace", "pending"),
    aliases=("pending list",),
    examples=(
        Example({}),
        Example({"status": "pending", "limit": 10}),
        Example({"status": "lost"}, error="VALIDATION_FAILED"),
    ),
)
def pending_list(ctx: Context, request: PendingList) -> PendingPage:
    """List pending and decided requests, newest first."""
    with ctx.reading() as session:
        found = approvals_store.list_pending(session, ctx.caller, request.status, limit=request.limit)
        views = [_pending_view(ctx, session, one) for one in found]
    return PendingPage(count=len(views), pending=views)


def _pending_view(ctx: Context, session: Session, one: approvals_store.PendingRequest) -> PendingAction:
    request = approvals.decode_request(one)
    visible = memories.by_ids(session, ctx.caller, request.source_ids, ctx.now(), view="any")
    payload = {
        "title": request.title,
        "content": request.content,
        "tier": request.tier,
        "tags": list(request.tags),
        "priority": request.priority,
        "confidence": request.confidence,
        "source_ids": [id for id in request.source_ids if id in visible],
        "hidden_sources": sum(id not in visible for id in request.source_ids),
    }
    return PendingAction(
        id=one.id,
        action_type=one.operation,
        namespace=one.namespace,
        payload=payload,
        requested_by=one.agent,
        requested_at=str(format_time(one.asked_at)),
        status=one.status,
        decided_by=value_or_unset(one.decided_by),
        decided_at=format_time(one.decided_at),
        reason=value_or_unset(one.reason),
    )


class PendingApprove(Request, frozen=True):
    id: PendingId


class ApproveResult(Struct, frozen=True, kw_only=True):
    approved: bool
    id: str
    decided_by: str
    executed: bool
    memory_id: str


def _approval_parts(ctx: Context, request: PendingApprove) -> StageEffects:
    return approvals.approval_parts(ctx, request.id)


@operation(
    Effect.WRITE,
    "POST /api/v1/pending/{id}/approve",
    topic="namespaces",
    cli=("namespace", "approve"),
    aliases=("pending approve",),
    stages=("reflect",),
    parts=_approval_parts,
    examples=(Example({"id": "no-such-action"}, error="NOT_FOUND"), Example({"id": "3fc8a154"}, prepared=True)),
)
def pending_approve(ctx: Context, request: PendingApprove) -> ApproveResult:
    """Approve a pending request; it runs at once, as its requester."""
    decided, reflected = approvals.approve_pending(ctx, request.id)
    return ApproveResult(
        approved=True, id=decided.id, decided_by=ctx.caller.agent, executed=True, memory_id=reflected.memory.id
    )


class PendingReject(Request, frozen=True):
    id: PendingId
    reason: Annotated[str, Meta(min_length=1, max_length=512, description="Why, in one line.")] | None = None


class RejectResult(Struct, frozen=True, kw_only=True):
    rejected: bool
    id: str
    decided_by: str


@operation(
    Effect.WRITE,
    "POST /api/v1/pending/{id}/reject",
    topic="namespaces",
    cli=("namespace", "reject"),
    aliases=("pending reject",),
    examples=(
        Example({"id": "no-such-action"}, error="NOT_FOUND"),
        Example({"id": "3fc8a154", "reason": "Too deep."}, prepared=True),
    ),
)
def pending_reject(ctx: Context, request: PendingReject) -> RejectResult:
    """Reject a pending request, or withdraw your own."""
    decided = approvals.reject_pending(ctx, request.id, request.reason)
    return RejectResult(rejected=True, id=decided.id, decided_by=ctx.caller.agent)
