"""Approve or reject pending requests."""

from msgspec import json
from msgspec.structs import replace

from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import find_namespaces
from holdfast.features.namespaces.resolve_rules import resolve_rules
from holdfast.features.reflections import approvals_store
from holdfast.features.reflections.approvals_store import PendingRequest
from holdfast.features.reflections.service import (
    Reflection,
    ReflectionPlan,
    ReflectionRequest,
    plan_reflection,
    write_reflection,
)
from holdfast.kernel.context import Caller, Context
from holdfast.kernel.errors import Conflict, Forbidden, NotFound
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate
from holdfast.kernel.registry.stages import StageEffects
from holdfast.kernel.storage.port import Session


def approve_pending(ctx: Context, id: str) -> tuple[PendingRequest, Reflection]:
    """Run a pending request as its requester, under the current rules; the journal records the approver."""
    with ctx.transaction() as write:
        pending = _get_pending(ctx, write.session, id)
        _check_not_requester(ctx, write, pending)
        request = decode_request(pending)
        requester = _requester_context(ctx, pending, request)
        reflected = write_reflection(requester, write, _plan_request(ctx, requester, write, request))
        return _write_decision(ctx, write, pending, "approved", None), reflected


def reject_pending(ctx: Context, id: str, reason: str | None = None) -> PendingRequest:
    """Reject a pending request; the requester can withdraw it this way."""
    if reason is not None:
        validate.label("reason", reason)
    with ctx.transaction() as write:
        return _write_decision(ctx, write, _get_pending(ctx, write.session, id), "rejected", reason)


def decode_request(pending: PendingRequest) -> ReflectionRequest:
    return json.decode(pending.request, type=ReflectionRequest)


def approval_parts(ctx: Context, id: str) -> StageEffects:
    """Describe for lifecycle hooks what an approval does: it creates the requested reflection."""
    with ctx.reading() as session:
        pending = _get_pending(ctx, session, id)
        request = decode_request(pending)
        places = find_namespaces(ctx, session, list(request.source_ids))
    arguments = {"title": request.title, "content": request.content, "tags": list(request.tags)}
    return StageEffects().add("reflect", [pending.namespace, *places], arguments)


def _get_pending(ctx: Context, session: Session, id: str) -> PendingRequest:
    pending = approvals_store.get_pending(session, ctx.caller, id)
    if pending.status != "pending":
        raise Conflict(f"The pending action {id} is already {pending.status}.", id=id)
    return pending


def _check_not_requester(ctx: Context, write: Transaction, pending: PendingRequest) -> None:
    allowed = resolve_rules(write.session, pending.namespace).self_approval
    if pending.agent == ctx.caller.agent and not allowed:
        raise Forbidden(
            f"You requested this yourself: another agent must approve it, or set self_approval in the policy of "
            f"{pending.namespace!r}."
        )


def _requester_context(ctx: Context, pending: PendingRequest, request: ReflectionRequest) -> Context:
    """Build a context for the requester, with the namespaces it had when it asked."""
    caller = Caller(agent=pending.agent, right="write", namespaces=request.reach, source=ctx.caller.source)
    return ctx.for_caller(caller, ctx.progress)


def _plan_request(ctx: Context, requester: Context, write: Transaction, request: ReflectionRequest) -> ReflectionPlan:
    """Plan the request again. Errors do not reveal sources that the approver may not see."""
    try:
        return plan_reflection(requester, write, request)
    except NotFound as error:
        visible = memories.by_ids(write.session, ctx.caller, request.source_ids, write.now, view="any")
        if error.details.get("id") in visible:
            raise
    raise NotFound(
        "A source of this reflection that you may not see is gone: reject the request and have it submitted again."
    )


def _write_decision(
    ctx: Context, write: Transaction, pending: PendingRequest, status: approvals_store.Status, reason: str | None
) -> PendingRequest:
    """Record the decision and erase the requested content."""
    request = replace(decode_request(pending), content="", metadata={}, tags=())
    decided = pending._replace(
        request=json.encode(request).decode(),
        status=status,
        decided_by=ctx.caller.agent,
        decided_at=write.now,
        reason=reason,
    )
    approvals_store.write_decision(write.session, decided)
    return decided
