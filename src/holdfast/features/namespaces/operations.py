"""Operations: list namespaces, show the tree; their standards and policies."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from holdfast.features.memories.operations.lifecycle import NamespaceCount
from holdfast.features.namespaces import service as namespace_service
from holdfast.features.namespaces.model import MAX_DEPTH, RULES, Rules, SecretsRule, TextsRule
from holdfast.features.namespaces.resolve_rules import list_policies, merge_rules
from holdfast.kernel.context import Context
from holdfast.kernel.records.taxonomy import Branch
from holdfast.kernel.registry.fields import Namespace
from holdfast.kernel.registry.operation import Effect, EmptyRequest, Example, Request, operation, value_or_unset

Place = Annotated[Namespace, Meta(description="Namespace, or * for all.")]
PolicyPlace = Annotated[Place, Meta(extra={"argument": True})]
Depth = Annotated[int, Meta(ge=0, le=MAX_DEPTH)]


class NamespacesResult(Struct, frozen=True, kw_only=True):
    namespaces: list[NamespaceCount]


@operation(
    Effect.READ,
    "GET /api/v1/namespaces",
    cli=("namespace", "list"),
    aliases=("namespaces",),
    columns=("namespace", "count"),
    examples=(Example({}),),
)
def namespaces(ctx: Context, request: EmptyRequest) -> NamespacesResult:
    """List namespaces with their memory counts."""
    with ctx.reading() as session:
        found = namespace_service.list_namespaces(ctx, session)
    return NamespacesResult(namespaces=[NamespaceCount(*one) for one in found])


class GetTaxonomy(Request, frozen=True):
    namespace_prefix: (
        Annotated[Namespace, Meta(description="Only this namespace and below.", extra={"argument": True})] | None
    ) = None
    depth: Annotated[int, Meta(ge=0, le=8, description="Number of levels below the prefix.")] = 8
    limit: Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of namespaces, largest first.")] = 1000


class TaxonomyResult(Struct, frozen=True, kw_only=True):
    tree: Branch
    total_count: int
    truncated: bool


@operation(
    Effect.READ,
    "GET /api/v1/taxonomy",
    cli=("namespace", "tree"),
    aliases=("taxonomy", "get-taxonomy"),
    human="holdfast.features.namespaces.render:render_taxonomy",
    examples=(Example({}), Example({"depth": 9}, error="VALIDATION_FAILED")),
)
def get_taxonomy(ctx: Context, request: GetTaxonomy) -> TaxonomyResult:
    """Show namespaces as a tree with memory counts."""
    with ctx.reading() as session:
        tree, truncated = namespace_service.build_taxonomy(
            ctx, session, request.namespace_prefix, depth=request.depth, limit=request.limit
        )
    return TaxonomyResult(tree=tree, total_count=tree.subtree_count, truncated=truncated)


class NamespaceSetStandard(Request, frozen=True):
    namespace: Place
    id: Annotated[str, Meta(min_length=1, max_length=128, description="Memory that states how the namespace works.")]
    parent: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=512,
                description="Namespace whose standard also applies here.",
                extra={"role": "namespace"},
            ),
        ]
        | None
    ) = None


class SetStandardResult(Struct, frozen=True, kw_only=True):
    set: bool
    namespace: str
    standard_id: str
    parent: str | UnsetType = UNSET


@operation(
    Effect.WRITE,
    "POST /api/v1/namespaces/{namespace}/standard",
    cli=("namespace", "set-standard"),
    status=201,
    examples=(
        Example({"namespace": "team", "id": "no-such-memory"}, error="NOT_FOUND"),
        Example({"namespace": "shop", "id": "1f3a9c20"}, prepared=True),
    ),
)
def namespace_set_standard(ctx: Context, request: NamespaceSetStandard) -> SetStandardResult:
    """Set the standard of a namespace: a memory shown in every session there."""
    standard, memory = namespace_service.set_standard(ctx, request.namespace, request.id, request.parent)
    return SetStandardResult(
        set=True, namespace=standard.id, standard_id=memory.id, parent=value_or_unset(standard.parent)
    )


class NamespaceGetStandard(Request, frozen=True):
    namespace: Place
    inherit: Annotated[bool, Meta(description="Include inherited standards.")] = False


class StandardView(Struct, frozen=True, kw_only=True):
    namespace: str
    standard_id: str
    title: str
    content: str
    priority: int
    parent: str | UnsetType = UNSET


class GetStandardResult(Struct, frozen=True, kw_only=True):
    """One standard, or with `inherit` all that apply."""

    namespace: str
    standard_id: str | None | UnsetType = UNSET
    title: str | UnsetType = UNSET
    content: str | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    parent: str | UnsetType = UNSET
    chain: list[str] | UnsetType = UNSET
    standards: list[StandardView] | UnsetType = UNSET
    count: int | UnsetType = UNSET


@operation(
    Effect.READ,
    "GET /api/v1/namespaces/{namespace}/standard",
    cli=("namespace", "get-standard"),
    examples=(
        Example({"namespace": "team"}),
        Example({"namespace": "team/project", "inherit": True}),
        Example({"namespace": "no blanks"}, error="VALIDATION_FAILED"),
        Example({"namespace": "shop/web", "inherit": True}, prepared=True),
    ),
)
def namespace_get_standard(ctx: Context, request: NamespaceGetStandard) -> GetStandardResult:
    """Show the standard of a namespace, or all that apply to it."""
    with ctx.reading() as session:
        if not request.inherit:
            own = namespace_service.get_standard(ctx, session, request.namespace)
            seen = standard_view(own)
            return (
                GetStandardResult(**asdict(seen))
                if seen
                else GetStandardResult(namespace=own.namespace, standard_id=None)
            )
        chain = namespace_service.get_standard_chain(ctx, session, request.namespace)
    found = [view for one in chain if (view := standard_view(one))]
    return GetStandardResult(
        namespace=chain[-1].namespace, chain=[one.namespace for one in chain], standards=found, count=len(found)
    )


def standard_view(shown: namespace_service.NamespaceStandard) -> StandardView | None:
    """Build the view of a standard; None if there is none to show."""
    if shown.memory is None:
        return None
    return StandardView(
        namespace=shown.namespace,
        standard_id=shown.memory.id,
        title=shown.memory.title,
        content=shown.memory.content,
        priority=shown.memory.priority,
        parent=value_or_unset(shown.parent),
    )


class NamespaceClearStandard(Request, frozen=True):
    namespace: Place


class ClearResult(Struct, frozen=True, kw_only=True):
    cleared: bool
    namespace: str


@operation(
    Effect.WRITE,
    "DELETE /api/v1/namespaces/{namespace}/standard",
    cli=("namespace", "clear-standard"),
    examples=(Example({"namespace": "team"}), Example({"namespace": "no blanks"}, error="VALIDATION_FAILED")),
)
def namespace_clear_standard(ctx: Context, request: NamespaceClearStandard) -> ClearResult:
    """Remove the standard of a namespace; the memory stays."""
    cleared = namespace_service.clear_standard(ctx, request.namespace)
    return ClearResult(cleared=cleared, namespace=request.namespace)


class PolicySet(Request, frozen=True):
    namespace: PolicyPlace
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
    rules: Rules
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
    namespace_service.set_policy(ctx, request.namespace, rules, tuple(request.inherit))
    return _policy_view(ctx, request.namespace)


class PolicyGet(Request, frozen=True):
    namespace: PolicyPlace


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
    namespace: PolicyPlace


@operation(
    Effect.WRITE,
    "DELETE /api/v1/namespaces/{namespace}/policy",
    cli=("namespace", "policy", "clear"),
    aliases=("policy clear",),
    admin=True,
    examples=(Example({"namespace": "team"}), Example({"namespace": "no blanks"}, error="VALIDATION_FAILED")),
)
def policy_clear(ctx: Context, request: PolicyClear) -> ClearResult:
    """Remove the policy of a namespace; inherited rules apply."""
    cleared = namespace_service.clear_policy(ctx, request.namespace)
    return ClearResult(cleared=cleared, namespace=request.namespace)


def _policy_view(ctx: Context, namespace: str) -> PolicyView:
    place = namespace_service.normalize_namespace(namespace)
    with ctx.reading() as session:
        policies = list_policies(session, place)
    return PolicyView(
        namespace=place,
        own=next((one.rules for one in policies if one.id == place), {}),
        rules=merge_rules([one.rules for one in policies]),
        decided_in={name: one.id for one in policies for name in one.rules},
    )
