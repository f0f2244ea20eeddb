"""Operations on lessons and outcomes."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.learning import lessons
from holdfast.features.learning.lesson_rules import LessonProposal
from holdfast.features.learning.lessons import LESSON
from holdfast.features.learning.store import OutcomeFilter
from holdfast.kernel.context import Context
from holdfast.kernel.registry.fields import Actor, Limit, Namespace, Timestamp
from holdfast.kernel.registry.operation import Effect, Example, Request, operation, value_or_unset
from holdfast.kernel.timestamps import TimeText, format_time, parse_timestamp

Score = Annotated[int, Meta(ge=-1, le=1)]
Domain = Annotated[str, Meta(min_length=1, max_length=64, description="Topic, such as testing.")]
PrincipalName = Annotated[
    str, Meta(min_length=1, max_length=128, description="Person or agent (default: the calling agent).")
]
Rule = Annotated[
    str, Meta(min_length=1, max_length=8192, description="The rule, in one sentence.", extra={"argument": True})
]


class LessonView(Struct, frozen=True, kw_only=True):
    id: str
    """A memory id: lessons can be recalled, linked and deleted like any memory."""
    domain: str
    rule: str
    namespace: str
    principal: str
    confidence: float
    """(positive + 1) / (positive + negative + 2)."""
    positive: int
    negative: int
    occurrences: int
    updated_at: TimeText
    also_said: list[str] | UnsetType = UNSET


class LessonAdd(Request, frozen=True):
    rule: Rule
    domain: Domain
    namespace: Namespace | None = None
    principal: PrincipalName | None = None
    outcomes: Annotated[list[str], Meta(max_length=1000, description="Ids of outcomes that support the lesson.")] = []
    agent_id: Actor | None = None


class LessonAddResult(Struct, frozen=True, kw_only=True):
    lesson: LessonView
    created: bool
    """False: an existing lesson states the same rule and gained evidence."""
    archived: list[str]
    """Ids of weaker lessons of the domain that were archived; `archive restore` brings them back."""


@operation(
    Effect.WRITE,
    "POST /api/v1/lessons",
    cli=("learn", "lesson", "add"),
    aliases=("lesson add",),
    stage="store",
    status=201,
    human="holdfast.features.learning.render:render_added_lesson",
    examples=(
        Example({"rule": "Run the migration on a copy first.", "domain": "databases"}),
        Example({"rule": "", "domain": "databases"}, error="VALIDATION_FAILED"),
    ),
)
def lesson_add(ctx: Context, request: LessonAdd) -> LessonAddResult:
    """Add a lesson, or strengthen the existing one with the same rule.

    A domain keeps ten lessons: the weakest beyond that are archived, never the one just added.
    """
    place = lessons.build_scope(ctx, request.principal, request.namespace, request.domain)
    result = lessons.add_lesson(ctx, place, request.rule, tuple(request.outcomes))
    return LessonAddResult(
        lesson=LESSON.view(LessonView, result.memory),
        created=result.is_new,
        archived=[one.id for one in result.archived],
    )


class LessonList(Request, frozen=True):
    namespace: Namespace | None = None
    domain: Domain | None = None
    principal: PrincipalName | None = None
    limit: Annotated[int, Meta(ge=1, le=1000, description="Maximum number of lessons.")] = 50


class Lessons(Struct, frozen=True, kw_only=True):
    lessons: list[LessonView]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/lessons",
    cli=("learn", "lesson", "list"),
    aliases=("lesson list",),
    human="holdfast.features.learning.render:render_lessons",
    examples=(Example({}), Example({"namespace": "team/project"}), Example({"limit": 0}, error="VALIDATION_FAILED")),
)
def lesson_list(ctx: Context, request: LessonList) -> Lessons:
    """List lessons by confidence; a namespace comes before its parents."""
    found = lessons.list_lessons(ctx, request.namespace, request.domain, request.principal, request.limit)
    return Lessons(lessons=LESSON.views(LessonView, found), count=len(found))


class ProposalView(Struct, frozen=True, kw_only=True):
    domain: str
    what: str
    score: Score
    outcomes: list[str]


def _build_proposal_view(one: "LessonProposal") -> ProposalView:
    return ProposalView(domain=one.domain, what=one.what, score=one.score, outcomes=one.outcomes)


class LessonSuggest(Request, frozen=True):
    namespace: Namespace | None = None
    domain: Domain | None = None
    principal: Annotated[list[str], Meta(max_length=20, description="Only of these people or agents.")] = []


class Proposals(Struct, frozen=True, kw_only=True):
    proposals: list[ProposalView]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/lessons/suggest",
    cli=("learn", "lesson", "suggest"),
    aliases=("lesson suggest",),
    human="holdfast.features.learning.render:render_lesson_suggestions",
    examples=(Example({}), Example({"domain": ""}, error="VALIDATION_FAILED")),
)
def lesson_suggest(ctx: Context, request: LessonSuggest) -> Proposals:
    """Suggest lessons from outcomes that occurred three times or more."""
    which = OutcomeFilter(tuple(request.principal), request.namespace, request.domain)
    found = [_build_proposal_view(one) for one in lessons.list_proposals(ctx, which)]
    return Proposals(proposals=found, count=len(found))


class OutcomeView(Struct, frozen=True, kw_only=True):
    id: str
    at: TimeText
    score: Score
    domain: str
    what: str
    principal: str
    agent_id: str
    namespace: str
    source: str
    lesson_id: str | UnsetType = UNSET


class OutcomeRecord(Request, frozen=True):
    score: Annotated[Score, Meta(description="1: success, -1: failure, 0: neutral.")]
    domain: Domain
    what: Annotated[
        str, Meta(max_length=8192, description="What happened, or the lesson from it.", extra={"argument": True})
    ] = ""
    lesson_id: (
        Annotated[
            str, Meta(min_length=1, max_length=128, description="Lesson that this outcome confirms or contradicts.")
        ]
        | None
    ) = None
    namespace: Namespace | None = None
    principal: PrincipalName | None = None
    source: Annotated[str, Meta(max_length=64, description="Where the outcome was observed.")] = "conversation"
    agent_id: Actor | None = None


class OutcomeRecordResult(Struct, frozen=True, kw_only=True):
    id: str
    lesson: LessonView | UnsetType = UNSET
    """The lesson this outcome counted for, after the change."""
    proposes: ProposalView | UnsetType = UNSET
    """A lesson proposed by repeated outcomes; pass them to `learn lesson add` to accept it."""


@operation(
    Effect.WRITE,
    "POST /api/v1/outcomes",
    cli=("learn", "outcome", "record"),
    aliases=("outcome record",),
    stage="store",
    status=201,
    human="holdfast.features.learning.render:render_recorded_outcome",
    examples=(
        Example({"score": 1, "domain": "databases", "what": "The copy showed the fault before the release."}),
        Example({"score": 2, "domain": "databases"}, error="VALIDATION_FAILED"),
        Example({"score": 1, "domain": "databases", "lesson_id": "no-such-lesson"}, error="NOT_FOUND"),
    ),
)
def outcome_record(ctx: Context, request: OutcomeRecord) -> OutcomeRecordResult:
    """Record an outcome; it strengthens or weakens the matching lesson."""
    place = lessons.build_scope(ctx, request.principal, request.namespace, request.domain)
    score: Any = request.score
    result = lessons.record_outcome(ctx, place, score, request.what, request.source, request.lesson_id)
    return OutcomeRecordResult(
        id=result.outcome.id,
        lesson=UNSET if result.lesson is None else LESSON.view(LessonView, result.lesson),
        proposes=UNSET if result.proposal is None else _build_proposal_view(result.proposal),
    )


class OutcomeList(Request, frozen=True):
    namespace: Namespace | None = None
    domain: Domain | None = None
    principal: Annotated[list[str], Meta(max_length=20, description="Only of these people or agents.")] = []
    since: Timestamp | None = None
    archived: Annotated[bool, Meta(description="Include archived outcomes.")] = False
    limit: Limit = 50


class Outcomes(Struct, frozen=True, kw_only=True):
    outcomes: list[OutcomeView]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/outcomes",
    cli=("learn", "outcome", "list"),
    aliases=("outcome list",),
    human="holdfast.features.learning.render:render_outcomes",
    examples=(Example({}), Example({"since": "yesterday"}, error="VALIDATION_FAILED")),
)
def outcome_list(ctx: Context, request: OutcomeList) -> Outcomes:
    """List outcomes, newest first."""
    since = None if request.since is None else parse_timestamp(request.since, "since")
    found = lessons.list_outcomes(
        ctx,
        OutcomeFilter(tuple(request.principal), request.namespace, request.domain, since, archived=request.archived),
        request.limit,
    )
    views = [
        OutcomeView(
            id=one.id,
            at=str(format_time(one.at)),
            score=one.score,
            domain=one.domain,
            what=one.what,
            principal=one.principal,
            agent_id=one.agent,
            namespace=one.namespace,
            source=one.source,
            lesson_id=value_or_unset(one.lesson),
        )
        for one in found
    ]
    return Outcomes(outcomes=views, count=len(views))
