"""Say why a memory is not among the hits."""

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
    """As it was at the time that is asked about."""
    returned: bool
    reasons: list[Reason]
    """The filters that keep it out, or the channels that missed it and what stands before it."""
    limit: int
    place: int | UnsetType = UNSET
    """Among the hits; or which it would have among the candidates if there were no limit."""
    score: float | UnsetType = UNSET
    last_score: float | UnsetType = UNSET
    """Of the last hit that is returned."""
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
    """Say which filter or which score keeps a memory out of the answer to a question."""
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
    told = explaining.why_not(hold, request.id, ask, pick)
    return Explained(
        id=told.memory.id,
        title=told.memory.title,
        returned=told.returned,
        reasons=[Reason(*one) for one in told.reasons],
        limit=request.limit,
        place=known(told.place),
        score=known(told.why and round(told.why.score, 6)),
        last_score=known(told.last and round(told.last, 6)),
        candidates=known(told.candidates),
        why=why_of(told.why, told.memory, request.context) if told.why else UNSET,
        degraded=known(told.degraded),
        as_of=text(as_of),
        known_at=text(known_at),
    )
