"""Operations: namespace policies and pending approvals."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from holdfast.features.memories import store as memories
from holdfast.features.memories.views import known, text
from holdfast.features.namespaces import approvals as approve
from holdfast.features.namespaces import approvals_store as waiting
from holdfast.features.namespaces import policy
from holdfast.features.namespaces import policy_store as policies
from holdfast.features.namespaces.model import DEEPEST, RULES, Rules, SecretsRule, TextsRule
from holdfast.kernel.context import Hold
from holdfast.kernel.registry.fields import Limit, Namespace
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.registry.stages import Parts
from holdfast.kernel.storage.port import Session

Place = Annotated[Namespace, Meta(description="Namespace, or * for all.", extra={"argument": True})]
Depth = Annotated[int, Meta(ge=0, le=DEEPEST)]


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
        Annotated[Depth, Meta(description=f"Deeper reflections need approval; {DEEPEST}: none do.")] | None
    ) = None
    self_approval: Annotated[bool, Meta(description="Let requesters approve their own requests.")] | None = None
    invalidation_hops: (
        Annotated[int, Meta(ge=1, le=64, description="Distance up to which dependents are flagged stale.")] | None
    ) = None
    skill_promotion_min_depth: (
        Annotated[int, Meta(ge=1, le=DEEPEST, description="Minimum depth of a reflection promoted to a skill.")] | None
    ) = None
    secrets: (
        Annotated[SecretsRule, Meta(description="Secrets in stored text: allow, flag, redact or refuse.")] | None
    ) = None
    interaction_text: (
        Annotated[TextsRule, Meta(description="Text of recorded interactions: keep, hash or omit.")] | None
    ) = None
    inherit: Annotated[list[str], Meta(max_length=10, description="Rules to unset, so that they are inherited.")] = []


class PolicyFound(Struct, frozen=True, kw_only=True):
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
    family="governance",
    admin=True,
    cli=("policy", "set"),
    examples=(
        Example({"namespace": "team", "max_reflection_depth": 2}),
        Example({"namespace": "*", "require_approval_above_depth": 1, "self_approval": True}),
        Example({"namespace": "team", "secrets": "redact"}),
        Example({"namespace": "team", "max_reflection_depth": 33}, error="VALIDATION_FAILED"),
        Example({"namespace": "team"}, error="VALIDATION_FAILED"),
    ),
)
def policy_set(hold: Hold, request: PolicySet) -> PolicyFound:
    """Set rules for a namespace and all below; others stay."""
    rules = {name: getattr(request, name) for name in RULES}
    policy.set_policy(hold, request.namespace, rules, tuple(request.inherit))
    return _found(hold, request.namespace)


class PolicyGet(Request, frozen=True):
    namespace: Place


@operation(
    Effect.READ,
    "GET /api/v1/namespaces/{namespace}/policy",
    family="governance",
    cli=("policy", "get"),
    examples=(Example({"namespace": "team/project"}), Example({"namespace": "no blanks"}, error="VALIDATION_FAILED")),
)
def policy_get(hold: Hold, request: PolicyGet) -> PolicyFound:
    """Show the effective rules of a namespace and where they are set."""
    return _found(hold, request.namespace)


class PolicyClear(Request, frozen=True):
    namespace: Place


class PolicyCleared(Struct, frozen=True, kw_only=True):
    cleared: bool
    namespace: str


@operation(
    Effect.WRITE,
    "DELETE /api/v1/namespaces/{namespace}/policy",
    family="governance",
    admin=True,
    cli=("policy", "clear"),
    examples=(Example({"namespace": "team"}), Example({"namespace": "no blanks"}, error="VALIDATION_FAILED")),
)
def policy_clear(hold: Hold, request: PolicyClear) -> PolicyCleared:
    """Remove the policy of a namespace; inherited rules apply."""
    return PolicyCleared(cleared=policy.clear_policy(hold, request.namespace), namespace=request.namespace)


def _found(hold: Hold, namespace: str) -> PolicyFound:
    place = policy.place_of(namespace)
    with hold.reading() as session:
        deciding = policies.deciding(session, place)
        rules = policies.resolved(session, place)
    return PolicyFound(
        namespace=place,
        own=next((one.rules for one in deciding if one.id == place), {}),
        rules=_rules(rules),
        decided_in={name: one.id for one in deciding for name in one.rules},
    )


def _rules(rules: Rules) -> PolicyRules:
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
    requested_at: str
    status: str
    decided_by: str | UnsetType = UNSET
    decided_at: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class PendingFound(Struct, frozen=True, kw_only=True):
    count: int
    pending: list[PendingAction]


@operation(
    Effect.READ,
    "GET /api/v1/pending",
    family="governance",
    cli=("pending", "list"),
    examples=(
        Example({}),
        Example({"status": "pending", "limit": 10}),
        Example({"status": "lost"}, error="VALIDATION_FAILED"),
    ),
)
def pending_list(hold: Hold, request: PendingList) -> PendingFound:
    """List pending and decided requests, newest first."""
    with hold.reading() as session:
        found = waiting.listed(session, hold.caller, request.status, limit=request.limit)
        views = [_action(hold, session, one) for one in found]
    return PendingFound(count=len(views), pending=views)


def _action(hold: Hold, session: Session, one: waiting.Waiting) -> PendingAction:
    request = approve.asked_of(one)
    visible = memories.by_ids(session, hold.caller, request.source_ids, hold.now(), view="any")
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
        requested_at=str(text(one.asked_at)),
        status=one.status,
        decided_by=known(one.decided_by),
        decided_at=text(one.decided_at),
        reason=known(one.reason),
    )


class PendingApprove(Request, frozen=True):
    id: PendingId


class Approved(Struct, frozen=True, kw_only=True):
    approved: bool
    id: str
    decided_by: str
    executed: bool
    memory_id: str


def _approved(hold: Hold, request: PendingApprove) -> Parts:
    return approve.parts_of_approving(hold, request.id)


@operation(
    Effect.WRITE,
    "POST /api/v1/pending/{id}/approve",
    family="governance",
    stages=("reflect",),
    parts=_approved,
    cli=("pending", "approve"),
    examples=(Example({"id": "no-such-action"}, error="NOT_FOUND"),),
)
def pending_approve(hold: Hold, request: PendingApprove) -> Approved:
    """Approve a pending request; it runs at once, as its requester."""
    decided, reflected = approve.approve(hold, request.id)
    return Approved(
        approved=True, id=decided.id, decided_by=hold.caller.agent, executed=True, memory_id=reflected.memory.id
    )


class PendingReject(Request, frozen=True):
    id: PendingId
    reason: Annotated[str, Meta(min_length=1, max_length=512, description="Why, in one line.")] | None = None


class RejectedAction(Struct, frozen=True, kw_only=True):
    rejected: bool
    id: str
    decided_by: str


@operation(
    Effect.WRITE,
    "POST /api/v1/pending/{id}/reject",
    family="governance",
    cli=("pending", "reject"),
    examples=(Example({"id": "no-such-action"}, error="NOT_FOUND"),),
)
def pending_reject(hold: Hold, request: PendingReject) -> RejectedAction:
    """Reject a pending request, or withdraw your own."""
    decided = approve.reject(hold, request.id, request.reason)
    return RejectedAction(rejected=True, id=decided.id, decided_by=hold.caller.agent)
