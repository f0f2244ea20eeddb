"""Operations on recall feedback: rate hits, list logged recalls."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.recall import record_feedback
from holdfast.features.recall.recall_log import HitRecord, Verdict
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid
from holdfast.kernel.registry.fields import AgentId, Id, Limit
from holdfast.kernel.registry.operation import Effect, Example, Request, operation, value_or_unset
from holdfast.kernel.timestamps import TimeText, format_timestamp

RecallId = Annotated[
    str, Meta(min_length=1, max_length=128, description="The recall_id of a recall.", extra={"argument": True})
]
VerdictField = Annotated[Verdict, Meta(description="Verdict on the hits.", extra={"argument": True})]
Verdicts = Annotated[dict[str, Verdict], Meta(max_length=50, description="A verdict for each id.")]


class Feedback(Request, frozen=True):
    recall_id: RecallId
    verdict: VerdictField | None = None
    ids: Annotated[list[Id], Meta(max_length=50, description="Ids of the hits.", extra={"argument": True})] = []
    verdicts: Verdicts = {}


class HitRating(Struct, frozen=True):
    id: str
    verdict: Verdict
    outcome: Literal["applied", "noop"]
    utility: float
    """From -1 to 1, over all verdicts on this memory."""


class FeedbackResult(Struct, frozen=True, kw_only=True):
    recall_id: str
    judged: list[HitRating]
    count: int


@operation(
    Effect.WRITE,
    "POST /api/v1/recalls/{recall_id}/feedback",
    cli=("recalls", "feedback"),
    aliases=("feedback",),
    human="holdfast.features.recall.render:render_feedback",
    examples=(
        Example({"recall_id": "no-such-recall", "verdict": "used", "ids": ["x"]}, error="NOT_FOUND"),
        Example({"recall_id": "no-such-recall"}, error="VALIDATION_FAILED"),
        Example({"recall_id": "x", "verdict": "splendid", "ids": ["x"]}, error="VALIDATION_FAILED"),
        Example({"recall_id": "e08a4f6d", "verdict": "used", "ids": ["1f3a9c20"]}, prepared=True),
        Example({"recall_id": "e08a4f6d", "verdict": "ignored", "ids": ["8b2e41d7"]}, prepared=True),
    ),
)
def feedback(ctx: Context, request: Feedback) -> FeedbackResult:
    """Rate recall hits as used, ignored or wrong."""
    given = list(request.verdicts.items())
    if (request.verdict is None) != (not request.ids) or not (request.ids or given):
        raise Invalid("ids: give a verdict with the ids of the hits, or `verdicts`", fields=["verdict", "ids"])
    if request.verdict is not None:
        given += [(id, request.verdict) for id in request.ids]
    judged = record_feedback.record_feedback(ctx, request.recall_id, given)
    return FeedbackResult(
        recall_id=request.recall_id,
        judged=[
            HitRating(one.id, one.verdict, "applied" if one.changed else "noop", round(one.utility, 6))
            for one in judged
        ],
        count=len(judged),
    )


class Recalls(Request, frozen=True):
    agent_id: Annotated[AgentId, Meta(description="Only those of this agent.")] | None = None
    before: Annotated[str, Meta(max_length=128, description="Only recalls before this recall_id.")] = ""
    limit: Limit = 20


class LoggedHit(Struct, frozen=True, kw_only=True):
    id: str
    score: float
    adjustment: float
    words: float
    parts: dict[str, float]
    """Values before weighting."""
    verdicts: dict[str, Verdict]
    """Verdict of each agent."""
    cosine: float | UnsetType = UNSET
    """Cosine of the nearest passage. Without an embedding there is none, and the part `vector` is an estimate."""


class LoggedRecall(Struct, frozen=True, kw_only=True):
    recall_id: str
    asked_at: TimeText
    agent_id: str
    hits: list[LoggedHit]
    question: str | UnsetType = UNSET


class RecallPage(Struct, frozen=True, kw_only=True):
    recalls: list[LoggedRecall]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/recalls",
    aliases=("recalls list",),
    human="holdfast.features.recall.render:render_recall_log",
    examples=(Example({}), Example({"limit": 0}, error="VALIDATION_FAILED")),
)
def recalls(ctx: Context, request: Recalls) -> RecallPage:
    """List logged recalls with their hits and verdicts, newest first."""
    found = record_feedback.list_recalls(ctx, agent=request.agent_id, before=request.before, limit=request.limit)
    shown = [
        LoggedRecall(
            recall_id=one.record.id,
            asked_at=format_timestamp(one.record.asked_at),
            agent_id=one.record.agent,
            hits=[_hit_view(hit, one.verdicts[hit.id]) for hit in one.record.hits],
            question=value_or_unset(one.record.question),
        )
        for one in found
    ]
    return RecallPage(recalls=shown, count=len(shown))


def _hit_view(hit: HitRecord, verdicts: dict[str, Verdict]) -> LoggedHit:
    return LoggedHit(
        id=hit.id,
        score=hit.score,
        adjustment=hit.adjustment,
        words=hit.words,
        parts=hit.parts,
        verdicts=verdicts,
        cosine=value_or_unset(hit.cosine),
    )
