"""Operations that derive from memories: tags, query expansion, contradictions, atoms, personas. Models are optional."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.curation import contradictions, personas, split_memory, suggest_tags
from holdfast.features.curation.contradictions import ContradictionResult
from holdfast.features.curation.personas import Persona
from holdfast.features.curation.split_memory import AtomiseResult
from holdfast.features.curation.suggest_tags import AutoTagResult
from holdfast.features.llm.assist import MethodInfo, method_fields
from holdfast.features.memories import read_memories as memories
from holdfast.features.recall import expand_query as query_expander
from holdfast.features.reflections.list_stale import StaleView, stale_view
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid
from holdfast.kernel.registry.fields import Actor, Content, Namespace, Title
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.registry.stages import StageEffects
from holdfast.kernel.text.content_scan import find_injections
from holdfast.kernel.timestamps import TimeText, format_time

MemoryRef = Annotated[str, Meta(min_length=1, max_length=128, description="Memory id, or a unique prefix of one.")]
AtomSize = Annotated[int, Meta(ge=50, le=1000, description="Maximum tokens per atom.")]
Version = Annotated[int, Meta(ge=1, le=(1 << 53) - 1, description="Fail unless the memory has this version.")]
EntityId = Annotated[
    str, Meta(min_length=1, max_length=512, description="Entity id, or any of its names.", extra={"argument": True})
]


class AutoTag(Request, frozen=True):
    id: Annotated[MemoryRef, Meta(extra={"argument": True})] | None = None
    title: Title | None = None
    content: Annotated[Content, Meta(description="Text to tag instead of a memory; needs a title.")] | None = None
    namespace: Annotated[Namespace, Meta(description="Namespace whose tags are preferred for the text.")] | None = None
    apply: Annotated[bool, Meta(description="Add the tags to the memory.")] = False
    expected_version: Version | None = None
    agent_id: Actor | None = None


def _list_auto_tag_parts(ctx: Context, request: AutoTag) -> StageEffects:
    if not request.apply or request.id is None:
        return StageEffects()
    with ctx.reading() as session:
        memory = memories.resolve(session, ctx.caller, request.id, ctx.now())
    return StageEffects().add("store", [memory.namespace])


@operation(
    Effect.WRITE,
    "POST /api/v1/auto_tag",
    cli=("curate", "tag"),
    aliases=("auto-tag",),
    stages=("store",),
    parts=_list_auto_tag_parts,
    asks=True,
    examples=(
        Example({"title": "Connection pool", "content": "The connection pool is shared by all workers."}),
        Example({"id": "no-such-memory"}, error="NOT_FOUND"),
        Example({"title": "Without a text"}, error="VALIDATION_FAILED"),
        Example({"id": "1f3a9c20"}, prepared=True),
        Example({"id": "1f3a9c20", "apply": True}, prepared=True),
    ),
)
def auto_tag(ctx: Context, request: AutoTag) -> AutoTagResult:
    """Suggest tags for a memory or text; `--apply` adds them."""
    has_text = request.title is not None and request.content is not None
    if (request.id is None) is not has_text or (request.id is not None and request.title is not None):
        raise Invalid("Give either an id, or a title and content.", fields=["id", "title", "content"])
    if request.id is not None:
        return suggest_tags.tag_memory(ctx, request.id, apply=request.apply, expected_version=request.expected_version)
    assert request.title is not None
    assert request.content is not None
    if request.apply:
        raise Invalid("apply needs the id of a memory", fields=["apply"])
    return suggest_tags.suggest_text_tags(ctx, request.title, request.content, request.namespace or ctx.namespace)


class ExpandQuery(Request, frozen=True):
    query: Annotated[
        str,
        Meta(min_length=1, max_length=4096, description="Query to expand.", extra={"argument": True, "role": "words"}),
    ]
    namespace: Namespace | None = None
    limit: Annotated[int, Meta(ge=1, le=50, description="Maximum number of terms.")] = 8


class ExpandQueryResult(MethodInfo, frozen=True, kw_only=True):
    original: str
    expanded_terms: list[str]


@operation(
    Effect.READ,
    "POST /api/v1/expand_query",
    cli=("recalls", "expand-query"),
    aliases=("expand-query",),
    asks=True,
    examples=(
        Example({"query": "walking agents"}),
        Example({"query": "?!"}, error="VALIDATION_FAILED"),
        Example({"query": "deploy failures"}, prepared=True),
    ),
)
def expand_query(ctx: Context, request: ExpandQuery) -> ExpandQueryResult:
    """Expand a query with related names, tags, words and word forms."""
    found = query_expander.expand_query(ctx, request.query, request.namespace, limit=request.limit)
    return ExpandQueryResult(original=request.query, expanded_terms=found.terms, **method_fields(found.method))


class DetectContradiction(Request, frozen=True):
    id_a: Annotated[MemoryRef, Meta(extra={"argument": True})]
    id_b: Annotated[MemoryRef, Meta(extra={"argument": True})]


@operation(
    Effect.READ,
    "POST /api/v1/detect_contradiction",
    cli=("curate", "contradiction"),
    aliases=("detect-contradiction",),
    asks=True,
    examples=(
        Example({"id_a": "no-such-memory", "id_b": "nor-this-one"}, error="NOT_FOUND"),
        Example({"id_a": "only-one"}, error="VALIDATION_FAILED"),
        Example({"id_a": "1f3a9c20", "id_b": "c05d6e93"}, prepared=True),
    ),
)
def detect_contradiction(ctx: Context, request: DetectContradiction) -> ContradictionResult:
    """Check whether two memories contradict each other, with the sentences."""
    return contradictions.detect_contradictions(ctx, request.id_a, request.id_b)


class Atomise(Request, frozen=True):
    memory_id: Annotated[MemoryRef, Meta(extra={"argument": True})]
    max_atom_tokens: AtomSize = 200
    force: Annotated[bool, Meta(description="Split again a memory that was split before.")] = False
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/atomise",
    cli=("curate", "split"),
    aliases=("atomise",),
    stage="store",
    asks=True,
    examples=(
        Example({"memory_id": "no-such-memory"}, error="NOT_FOUND"),
        Example({"memory_id": "one", "max_atom_tokens": 49}, error="VALIDATION_FAILED"),
        Example({"memory_id": "c05d6e93"}, prepared=True),
        Example({"memory_id": "c05d6e93", "max_atom_tokens": 60}, prepared=True),
    ),
)
def atomise(ctx: Context, request: Atomise) -> AtomiseResult:
    """Split a long memory into atoms at sentence ends and archive it.

    Each atom is a verbatim piece with its source span, and inherits tags, tier and priority. One transaction.
    """
    return split_memory.split_memory(ctx, request.memory_id, max_tokens=request.max_atom_tokens, force=request.force)


class PersonaRequest(Request, frozen=True):
    entity_id: EntityId
    namespace: Annotated[Namespace, Meta(description="The persona made from this namespace only.")] | None = None


class PersonaView(MethodInfo, frozen=True, kw_only=True):
    id: str
    entity_id: str
    namespace: str
    title: str
    content: str
    version: int
    source_ids: list[str]
    created_at: TimeText
    stale: StaleView | UnsetType = UNSET
    """Set if a source changed or was deleted: generate the persona again."""
    untrusted: list[str] | UnsetType = UNSET
    """Signs of prompt injection in the text."""


class PersonaResult(Struct, frozen=True, kw_only=True):
    persona: PersonaView | None


@operation(
    Effect.READ,
    "GET /api/v1/persona",
    cli=("graph", "entity", "persona"),
    aliases=("persona",),
    examples=(
        Example({"entity_id": "Ada"}),
        Example({"entity_id": "Ada", "namespace": "no blanks"}, error="VALIDATION_FAILED"),
        Example({"entity_id": "d41b7e06"}, prepared=True),
    ),
)
def persona(ctx: Context, request: PersonaRequest) -> PersonaResult:
    """Show the persona of an entity, and whether it is stale."""
    found = personas.find_persona(ctx, request.entity_id, request.namespace)
    return PersonaResult(persona=_build_persona_view(found) if found else None)


class PersonaGenerate(Request, frozen=True):
    entity_id: EntityId
    namespace: Annotated[Namespace, Meta(description="Use only memories of this namespace (default: all).")] | None = (
        None
    )
    agent_id: Actor | None = None


class PersonaGenerateResult(MethodInfo, frozen=True, kw_only=True):
    persona: PersonaView
    regenerated: bool
    """False if no source changed."""
    namespace_scope: str | None


@operation(
    Effect.WRITE,
    "POST /api/v1/persona",
    cli=("graph", "entity", "generate-persona"),
    aliases=("persona-generate",),
    stage="store",
    asks=True,
    examples=(
        Example({"entity_id": "Nobody at all"}, error="NOT_FOUND"),
        Example({"entity_id": ""}, error="VALIDATION_FAILED"),
        Example({"entity_id": "d41b7e06"}, prepared=True),
    ),
)
def persona_generate(ctx: Context, request: PersonaGenerate) -> PersonaGenerateResult:
    """Generate the persona of an entity from up to 20 memories, with footnotes.

    The previous version is archived. If no source changed, nothing is written.
    """
    result = personas.generate_persona(ctx, request.entity_id, request.namespace)
    return PersonaGenerateResult(
        persona=_build_persona_view(result.persona),
        regenerated=result.is_new,
        namespace_scope=request.namespace,
        **method_fields(result.persona.how),
    )


def _build_persona_view(made: Persona) -> PersonaView:
    memory = made.memory
    return PersonaView(
        id=memory.id,
        entity_id=made.entity,
        namespace=memory.namespace,
        title=memory.title,
        content=memory.content,
        version=made.version,
        source_ids=made.sources,
        created_at=str(format_time(memory.created_at)),
        stale=stale_view(made.stale),
        untrusted=list(find_injections(f"{memory.title}\n{memory.content}")) or UNSET,
        **method_fields(made.how),
    )
