"""What follows from memories: labels, wider questions, contradictions, atoms, personas. No model is needed."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.curation import atomise as cutting
from holdfast.features.curation import auto_tag as tagging
from holdfast.features.curation import contradict
from holdfast.features.curation import persona as knowing
from holdfast.features.curation.persona import Persona as Made
from holdfast.features.llm.assist import How, Method
from holdfast.features.memories import store as memories
from holdfast.features.memories.views import StaleView, stale_view, text
from holdfast.features.recall import expand_query as widening
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Invalid
from holdfast.kernel.registry.fields import Actor, Content, Namespace, Title
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.registry.stages import Parts
from holdfast.kernel.text.prompt_injection import suspicions

Which = Annotated[str, Meta(min_length=1, max_length=128, description="Id, or an unambiguous beginning of one.")]
Size = Annotated[int, Meta(ge=50, le=1000, description="At most so many tokens in each.")]
Version = Annotated[int, Meta(ge=1, le=(1 << 53) - 1, description="Refuse unless it is at this version.")]
EntityId = Annotated[
    str,
    Meta(min_length=1, max_length=512, description="An entity's id, or any of its names.", extra={"argument": True}),
]


class Reasoned(Struct, frozen=True, kw_only=True):
    """How an answer came about."""

    method: Method
    model: str | UnsetType = UNSET
    """Which model answered."""
    reason: str | UnsetType = UNSET
    """Why a model that is set did not help."""


def reasoned(how: How) -> dict[str, Any]:
    """The fields of `Reasoned`."""
    known = {"model": how.model, "reason": how.reason}
    return {"method": how.method, **{name: value for name, value in known.items() if value is not None}}


class AutoTag(Request, frozen=True):
    id: Annotated[Which, Meta(extra={"argument": True})] | None = None
    title: Title | None = None
    content: Annotated[Content, Meta(description="A text that is not kept, with its title.")] | None = None
    namespace: Annotated[Namespace, Meta(description="Whose labels are preferred for such a text.")] | None = None
    apply: Annotated[bool, Meta(description="Add them to the memory.")] = False
    expected_version: Version | None = None
    agent_id: Actor | None = None


class AutoTagged(Reasoned, frozen=True, kw_only=True):
    id: str | UnsetType = UNSET
    new_tags: list[str]
    """What suits the text and it does not have yet, the best first."""
    all_tags: list[str]
    applied: bool
    version: int | UnsetType = UNSET


def _tagged(hold: Hold, request: AutoTag) -> Parts:
    if not request.apply or request.id is None:
        return Parts()
    with hold.reading() as session:
        memory = memories.resolve(session, hold.caller, request.id, hold.now())
    return Parts().add("store", [memory.namespace])


@operation(
    Effect.WRITE,
    "POST /api/v1/auto_tag",
    family="power",
    stages=("store",),
    parts=_tagged,
    asks=True,
    examples=(
        Example({"title": "Connection pool", "content": "The connection pool is shared by all workers."}),
        Example({"id": "no-such-memory"}, error="NOT_FOUND"),
        Example({"title": "Without a text"}, error="VALIDATION_FAILED"),
    ),
)
def auto_tag(hold: Hold, request: AutoTag) -> AutoTagged:
    """Suggest labels for a memory or a text, those that its namespace has first; add them only if asked."""
    given = request.title is not None and request.content is not None
    if (request.id is None) is not given or (request.id is not None and request.title is not None):
        raise Invalid("Name a memory by its id, or give a title and content.", fields=["id", "title", "content"])
    if request.id is not None:
        done = tagging.auto_tag(hold, request.id, apply=request.apply, expected_version=request.expected_version)
    else:
        assert request.title is not None
        assert request.content is not None
        if request.apply:
            raise Invalid("apply: needs the id of a memory", fields=["apply"])
        done = tagging.suggest(hold, request.title, request.content, request.namespace or hold.namespace)
    return AutoTagged(
        id=done.memory.id if done.memory else UNSET,
        new_tags=done.new,
        all_tags=done.all,
        applied=done.applied and bool(done.new),
        version=done.memory.version if done.memory else UNSET,
        **reasoned(done.how),
    )


class ExpandQuery(Request, frozen=True):
    query: Annotated[
        str,
        Meta(min_length=1, max_length=4096, description="What is asked.", extra={"argument": True, "role": "words"}),
    ]
    namespace: Namespace | None = None
    limit: Annotated[int, Meta(ge=1, le=50, description="At most so many terms.")] = 8


class ExpandedQuery(Reasoned, frozen=True, kw_only=True):
    original: str
    expanded_terms: list[str]


@operation(
    Effect.READ,
    "POST /api/v1/expand_query",
    family="power",
    asks=True,
    examples=(Example({"query": "walking agents"}), Example({"query": "?!"}, error="VALIDATION_FAILED")),
)
def expand_query(hold: Hold, request: ExpandQuery) -> ExpandedQuery:
    """Widen a question: names, labels and words of what it finds here, or other forms of its words."""
    found = widening.expand(hold, request.query, request.namespace, most=request.limit)
    return ExpandedQuery(original=request.query, expanded_terms=found.terms, **reasoned(found.how))


class DetectContradiction(Request, frozen=True):
    id_a: Annotated[Which, Meta(extra={"argument": True})]
    id_b: Annotated[Which, Meta(extra={"argument": True})]


class Titled(Struct, frozen=True, kw_only=True):
    id: str
    title: str


class AgainstEachOther(Struct, frozen=True, kw_only=True):
    kind: str
    a: str
    """The sentence of the one."""
    b: str
    difference: str


class Contradiction(Reasoned, frozen=True, kw_only=True):
    contradicts: bool
    memory_a: Titled
    memory_b: Titled
    evidence: list[AgainstEachOther]
    relation: str
    """How they stand to each other as a whole: same, near, update, conflict or other."""
    similarity: float


@operation(
    Effect.READ,
    "POST /api/v1/detect_contradiction",
    family="power",
    asks=True,
    examples=(
        Example({"id_a": "no-such-memory", "id_b": "nor-this-one"}, error="NOT_FOUND"),
        Example({"id_a": "only-one"}, error="VALIDATION_FAILED"),
    ),
)
def detect_contradiction(hold: Hold, request: DetectContradiction) -> Contradiction:
    """Tell whether two memories contradict each other, and by which of their sentences."""
    found = contradict.detect(hold, request.id_a, request.id_b)
    return Contradiction(
        contradicts=found.contradicts,
        memory_a=Titled(id=found.a.id, title=found.a.title),
        memory_b=Titled(id=found.b.id, title=found.b.title),
        evidence=[
            AgainstEachOther(kind=one.sort, a=one.a, b=one.b, difference=one.difference) for one in found.evidence
        ],
        relation=found.likeness.relation,
        similarity=round(found.likeness.score, 6),
        **reasoned(found.how),
    )


class Atomise(Request, frozen=True):
    memory_id: Annotated[Which, Meta(extra={"argument": True})]
    max_atom_tokens: Size = 200
    force: Annotated[bool, Meta(description="Cut what was cut before anew.")] = False
    agent_id: Actor | None = None


class Atomised(Reasoned, frozen=True, kw_only=True):
    source_id: str
    atom_ids: list[str]
    """In the order of the text."""
    atom_count: int
    archived_at: str
    superseded_ids: list[str]
    """Atoms of an earlier cut, archived now."""
    kept_ids: list[str]
    """Atoms of an earlier cut that somebody edited: they stay."""


@operation(
    Effect.WRITE,
    "POST /api/v1/atomise",
    family="power",
    stage="store",
    asks=True,
    examples=(
        Example({"memory_id": "no-such-memory"}, error="NOT_FOUND"),
        Example({"memory_id": "one", "max_atom_tokens": 49}, error="VALIDATION_FAILED"),
    ),
)
def atomise(hold: Hold, request: Atomise) -> Atomised:
    """Cut a long memory into atoms at the ends of its sentences, all at once; it is archived.

    Each atom is a piece of the text, says from where to where it stood in it, and has its labels, tier and importance.
    """
    done = cutting.atomise(hold, request.memory_id, most_tokens=request.max_atom_tokens, force=request.force)
    return Atomised(
        source_id=done.source.id,
        atom_ids=[atom.id for atom in done.atoms],
        atom_count=len(done.atoms),
        archived_at=str(text(done.source.updated_at)),
        superseded_ids=done.superseded,
        kept_ids=done.kept,
        **reasoned(done.how),
    )


class PersonaAsked(Request, frozen=True):
    entity_id: EntityId
    namespace: Annotated[Namespace, Meta(description="The one made from this namespace alone.")] | None = None


class PersonaView(Reasoned, frozen=True, kw_only=True):
    id: str
    entity_id: str
    namespace: str
    title: str
    content: str
    version: int
    source_ids: list[str]
    created_at: str
    stale: StaleView | UnsetType = UNSET
    """That something it stands on fell: generate it anew."""
    untrusted: list[str] | UnsetType = UNSET
    """Why it reads like an order or poses as something else, if it does."""


class PersonaFound(Struct, frozen=True, kw_only=True):
    persona: PersonaView | None


@operation(
    Effect.READ,
    "GET /api/v1/persona",
    family="power",
    examples=(
        Example({"entity_id": "Ada"}),
        Example({"entity_id": "Ada", "namespace": "no blanks"}, error="VALIDATION_FAILED"),
    ),
)
def persona(hold: Hold, request: PersonaAsked) -> PersonaFound:
    """Show what is known of an entity, as it was last put together, and whether that still holds."""
    found = knowing.latest(hold, request.entity_id, request.namespace)
    return PersonaFound(persona=_persona(found) if found else None)


class PersonaGenerate(Request, frozen=True):
    entity_id: EntityId
    namespace: Annotated[Namespace, Meta(description="From this namespace alone; from all, unless told.")] | None = None
    agent_id: Actor | None = None


class PersonaGenerated(Reasoned, frozen=True, kw_only=True):
    persona: PersonaView
    regenerated: bool
    """False if nothing that it stands on has changed."""
    namespace_scope: str | None


@operation(
    Effect.WRITE,
    "POST /api/v1/persona",
    family="power",
    stage="store",
    asks=True,
    examples=(
        Example({"entity_id": "Nobody at all"}, error="NOT_FOUND"),
        Example({"entity_id": ""}, error="VALIDATION_FAILED"),
    ),
)
def persona_generate(hold: Hold, request: PersonaGenerate) -> PersonaGenerated:
    """Put together what up to 20 memories that mention an entity say of it, with a footnote for each.

    A version before it is archived. If nothing that it stands on has changed, it stays as it is.
    """
    made = knowing.generate(hold, request.entity_id, request.namespace)
    return PersonaGenerated(
        persona=_persona(made.persona),
        regenerated=made.regenerated,
        namespace_scope=request.namespace,
        **reasoned(made.persona.how),
    )


def _persona(made: "Made") -> PersonaView:
    memory = made.memory
    return PersonaView(
        id=memory.id,
        entity_id=made.entity,
        namespace=memory.namespace,
        title=memory.title,
        content=memory.content,
        version=made.version,
        source_ids=made.sources,
        created_at=str(text(memory.created_at)),
        stale=stale_view(made.stale),
        untrusted=suspicions(f"{memory.title}\n{memory.content}") or UNSET,
        **reasoned(made.how),
    )
