"""Operations: namespace policies."""

from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import asdict

from holdfast.features.namespaces import policy
from holdfast.features.namespaces.model import MAX_DEPTH, RULES, Rules, SecretsRule, TextsRule
from holdfast.features.namespaces.resolve_rules import list_policies, resolve_rules
from holdfast.kernel.context import Context
from holdfast.kernel.registry.fields import Namespace
from holdfast.kernel.registry.operation import Effect, Example, Request, operation

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
        deciding = list_policies(session, place)
        rules = resolve_rules(session, place)
    return PolicyView(
        namespace=place,
        own=next((one.rules for one in deciding if one.id == place), {}),
        rules=_rules_view(rules),
        decided_in={name: one.id for one in deciding for name in one.rules},
    )


def _rules_view(rules: Rules) -> PolicyRules:
    return PolicyRules(**asdict(rules))
