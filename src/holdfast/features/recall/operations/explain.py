"""The `recalls why-not` operation."""

from msgspec import UNSET, Struct, UnsetType

from holdfast.features.namespaces import service as namespace_service
from holdfast.features.recall import why_not as why_not_service
from holdfast.features.recall.operations.recall import (
    QueryRequest,
    ScoreExplanation,
    build_frame,
    build_recall_request,
    encode_hit,
    explain_score,
    hit_view,
    list_shown_standards,
    render_standards,
)
from holdfast.features.recall.service import Hit, PackResult, fill_budget
from holdfast.kernel.context import Context
from holdfast.kernel.registry.fields import AsOf, Id, KnownAt
from holdfast.kernel.registry.operation import Effect, Example, operation, value_or_unset
from holdfast.kernel.timestamps import TimeText, format_time, parse_time


class WhyNot(QueryRequest, frozen=True):
    id: Id
    as_of: AsOf | None = None
    known_at: KnownAt | None = None


class Reason(Struct, frozen=True):
    code: str
    message: str


class WhyNotResult(Struct, frozen=True, kw_only=True):
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
    why: ScoreExplanation | UnsetType = UNSET
    degraded: str | UnsetType = UNSET
    as_of: TimeText | UnsetType = UNSET
    known_at: TimeText | UnsetType = UNSET


@operation(
    Effect.READ,
    "POST /api/v1/recall/why-not",
    cli=("recalls", "why-not"),
    aliases=("why-not",),
    human="holdfast.features.recall.render:render_explanation",
    examples=(
        Example({"id": "no-such-memory", "context": "when do we deploy?"}, error="NOT_FOUND"),
        Example({"id": "no-such-memory"}, error="VALIDATION_FAILED"),
        Example({"id": "none", "context": "x", "known_at": "2026-11-01", "as_of": "2026-10-01"}, error="NOT_FOUND"),
        Example({"id": "none", "context": "x", "known_at": "yesterday"}, error="VALIDATION_FAILED"),
        Example({"id": "c05d6e93", "context": "when do we deploy?"}, prepared=True),
        Example({"id": "c05d6e93", "context": "when do we deploy?", "limit": 3}, prepared=True),
    ),
)
def why_not(ctx: Context, request: WhyNot) -> WhyNotResult:
    """Explain why a query does not return a memory."""
    as_of, known_at = parse_time(request.as_of, "as_of"), parse_time(request.known_at, "known_at")
    now = as_of is None and known_at is None
    with ctx.reading() as session:
        namespace_standards = (
            namespace_service.list_standards(ctx, session, request.namespace) if request.namespace and now else []
        )

    before = render_standards(list_shown_standards(namespace_standards, request.budget_tokens))
    frame = build_frame("json", explain=False)

    def render_hit(hit: Hit) -> str:
        return encode_hit(hit_view(hit, explain=None), "json", explain=False)

    def pick(hits: list[Hit]) -> tuple[list[Hit], PackResult]:
        return fill_budget(hits, render_hit, request.budget_tokens, frame=frame, before=before)

    ask = build_recall_request(request, {memory.id for memory in namespace_standards})._replace(
        as_of=as_of, known_at=known_at
    )
    explained = why_not_service.explain_absence(ctx, request.id, ask, pick)
    return WhyNotResult(
        id=explained.memory.id,
        title=explained.memory.title,
        returned=explained.returned,
        reasons=[Reason(*one) for one in explained.reasons],
        limit=request.limit,
        place=value_or_unset(explained.place),
        score=value_or_unset(explained.ranked and round(explained.ranked.score, 6)),
        last_score=value_or_unset(explained.last_score and round(explained.last_score, 6)),
        candidates=value_or_unset(explained.candidates),
        why=explain_score(explained.ranked, explained.memory, request.context) if explained.ranked else UNSET,
        degraded=value_or_unset(explained.degraded),
        as_of=format_time(as_of),
        known_at=format_time(known_at),
    )
