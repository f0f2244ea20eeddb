"""Operations: namespace policies and pending approvals."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from holdfast.features.memories import store as memories
from holdfast.features.namespaces import approvals, approvals_store, policy, policy_store
from holdfast.features.namespaces.model import MAX_DEPTH, RULES, Rules, SecretsRule, TextsRule
from holdfast.kernel.context import Context
from holdfast.kernel.registry.fields import Limit, Namespace
from holdfast.kernel.registry.operation import Effect, Example, Request, operation, value_or_unset
from holdfast.kernel.registry.stages import StageEffects
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import TimeText, format_time

Place = Annotated[Namespace, Meta(description="Namespace, or * for all.", extra={"argument": True})]
Depth = Annotated[int, Meta(ge=0, le=MAX_DEPTH)]


class PolicyRules(Struct, frozen=True, kw_only=True):
    """The effective rules of a namespace."""

    max_reflection_depth: int
    require_approval_above_depth: int | None
    self_approval: bool
    invalidation_hops: int
    skill_promotion_min_depth: int
    secrets: str
    interaction_text: str


class PolicySet(Request, frozen=True):
    namespace: Place
    max_reflection_depth: (
        Annotated[Depth, Meta(description="Maximum depth of reflections; 0: none allowed.")] | None
    ) = None
    require_approval_above_depth: (
        Annotated[Depth, Meta(description=f"Deeper reflections need approval; {MAX_DEPTH}: none do.")] | None
    ) = None
    self_approval: Annotated[bool, Meta(description="Let requesters approve their own requests.")] | None = None
    invalidation_hops: (
        Annotated[int, Meta(ge=1, le=64, description="Distance up to which dependents are flagged stale.")] | None
    ) = None
    skill_promotion_min_depth: (
        Annotated[int, Meta(ge=1, le=MAX_DEPTH, description="Minimum depth of a reflection promoted to a skill.")]
        | None
    ) = None
    secrets: (
        Annotated[SecretsRule, Meta(description="Secrets in stored text: allow, flag, redact or refuse.")] | None
    ) = None
    interaction_text: (
        Annotated[TextsRule, Meta(description="Text of recorded interactions: keep, hash or omit.")] | None
    ) = None
    inherit: Annotated[list[str], Meta(max_length=10, description="Rules to unset, so that they are inherited.")] = []


class PolicyView(Struct, frozen=True, kw_only=True):
    namespace: str
    own: dict[str, Any]
    """Rules set here."""
    rules: PolicyRules
    """Effective rules, inherited ones included."""
    decided_in: dict[str, str]
    """The namespace that sets each rule."""


@operation(
    Effect.WRITE,
    "PUT /api/v1/namespaces/{namespace}/policy",
    cli=("namespace", "policy", "set"),
    aliases=("policy set",),
    admin=True,
    examples=(
        Example({"namespace": "team", "max_reflection_depth": 2}),
        Example({"namespace": "*", "require_approval_above_depth": 1, "self_approval": True}),
        Example({"namespace": "team", "secrets": "redact"}),
        Example({"namespace": "team", "max_reflection_depth": 33}, error="VALIDATION_FAILED"),
        Example({"namespace": "team"}, error="VALIDATION_FAILED"),
    ),
)
def policy_set(ctx: Context, request: PolicySet) -> PolicyView:
    """Set rules for a namespace and all below; others stay."""
    rules = {name: getattr(request, name) for name in RULES}
    policy.set_policy(ctx, request.namespace, rules, tuple(request.inherit))
    return _policy_view(ctx, request.namespace)


class PolicyGet(Request, frozen=True):
    namespace: Place


@operation(
    Effect.READ,
    "GET /api/v1/namespaces/{namespace}/policy",
    cli=("namespace", "policy", "get"),
    aliases=("policy get",),
    examples=(Example({"namespace": "team/project"}), Example({"namespace": "no blanks"}, error="VALIDATION_FAILED")),
)
def policy_get(ctx: Context, request: PolicyGet) -> PolicyView:
    """Show the effective rules of a namespace and where they are set."""
    return _policy_view(ctx, request.namespace)


class PolicyClear(Request, frozen=True):
    namespace: Place


class ClearPolicyResult(Struct, frozen=True, kw_only=True):
    cleared: bool
    namespace: str


@operation(
    Effect.WRITE,
    "DELETE /api/v1/namespaces/{namespace}/policy",
    cli=("namespace", "policy", "clear"),
    aliases=("policy clear",),
    admin=True,
    examples=(Example({"namespace": "team"}), Example({"namespace": "no blanks"}, error="VALIDATION_FAILED")),
)
def policy_clear(ctx: Context, request: PolicyClear) -> ClearPolicyResult:
    """Remove the policy of a namespace; inherited rules apply."""
    return ClearPolicyResult(cleared=policy.clear_policy(ctx, request.namespace), namespace=request.namespace)


def _policy_view(ctx: Context, namespace: str) -> PolicyView:
    place = policy.normalize_namespace(namespace)
    with ctx.reading() as session:
        deciding = policy_store.list_policies(session, place)
        rules = policy_store.resolve_rules(session, place)
    return PolicyView(
        namespace=place,
        own=next((one.rules for one in deciding if one.id == place), {}),
        rules=_rules_view(rules),
        decided_in={name: one.id for one in deciding for name in one.rules},
    )


def _rules_view(rules: Rules) -> PolicyRules:
    return PolicyRules(**asdict(rules))


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
