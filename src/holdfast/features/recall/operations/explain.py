"""The `why-not` operation."""

from msgspec import UNSET, Struct, UnsetType

from holdfast.features.memories.operations.core import moment
from holdfast.features.memories.views import known, text
from holdfast.features.namespaces import service as standards
from holdfast.features.recall import budget
from holdfast.features.recall import why_not as explaining
from holdfast.features.recall.operations.recall import (
    Asking,
    Why,
    asked,
    before_of,
    counted_of,
    frame_of,
    hit_view,
    shown_first,
    why_of,
)
from holdfast.features.recall.service import Hit
from holdfast.kernel.context import Hold
from holdfast.kernel.registry.fields import AsOf, Id, KnownAt
from holdfast.kernel.registry.operation import Effect, Example, operation


class WhyNot(Asking, frozen=True):
    id: Id
    as_of: AsOf | None = None
    known_at: KnownAt | None = None


class Reason(Struct, frozen=True):
    code: str
    message: str


class Explained(Struct, frozen=True, kw_only=True):
    id: str
    title: str
    """The title at the time of the query (`as_of`)."""
    returned: bool
    reasons: list[Reason]
    """The filters that exclude it, or the searches that missed it and what ranks above it."""
    limit: int
    place: int | UnsetType = UNSET
    """Its place among the hits, or among the candidates if it is not a hit."""
    score: float | UnsetType = UNSET
    last_score: float | UnsetType = UNSET
    """Score of the last returned hit."""
    candidates: int | UnsetType = UNSET
    why: Why | UnsetType = UNSET
    degraded: str | UnsetType = UNSET
    as_of: str | UnsetType = UNSET
    known_at: str | UnsetType = UNSET


@operation(
    Effect.READ,
    "POST /api/v1/recall/why-not",
    family="power",
    human="holdfast.features.recall.render:render_explanation",
    examples=(
        Example({"id": "no-such-memory", "context": "when do we deploy?"}, error="NOT_FOUND"),
        Example({"id": "no-such-memory"}, error="VALIDATION_FAILED"),
        Example({"id": "none", "context": "x", "known_at": "2026-11-01", "as_of": "2026-10-01"}, error="NOT_FOUND"),
        Example({"id": "none", "context": "x", "known_at": "yesterday"}, error="VALIDATION_FAILED"),
    ),
)
def why_not(hold: Hold, request: WhyNot) -> Explained:
    """Explain why a query does not return a memory."""
    as_of, known_at = moment(request.as_of, "as_of"), moment(request.known_at, "known_at")
    now = as_of is None and known_at is None
    with hold.reading() as session:
        stated = standards.for_namespace(hold, session, request.namespace) if request.namespace and now else []

    before, frame = before_of(shown_first(stated, request.budget_tokens)), frame_of("json", explain=False)

    def rendered(hit: Hit) -> str:
        return counted_of(hit_view(hit, explain=None), "json", explain=False)

    def pick(hits: list[Hit]) -> tuple[list[Hit], budget.Packed]:
        return budget.fill(hits, rendered, request.budget_tokens, frame=frame, before=before)

    ask = asked(request, {memory.id for memory in stated})._replace(as_of=as_of, known_at=known_at)
    explained = explaining.why_not(hold, request.id, ask, pick)
    return Explained(
        id=explained.memory.id,
        title=explained.memory.title,
        returned=explained.returned,
        reasons=[Reason(*one) for one in explained.reasons],
        limit=request.limit,
        place=known(explained.place),
        score=known(explained.why and round(explained.why.score, 6)),
        last_score=known(explained.last and round(explained.last, 6)),
        candidates=known(explained.candidates),
        why=why_of(explained.why, explained.memory, request.context) if explained.why else UNSET,
        degraded=known(explained.degraded),
        as_of=text(as_of),
        known_at=text(known_at),
    )
