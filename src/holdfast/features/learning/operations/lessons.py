"""Operations on lessons and outcomes."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from holdfast.features.learning import lessons
from holdfast.features.learning.lesson_rules import LessonProposal, Outcome
from holdfast.features.learning.lessons import LESSON, LessonAddResult, LessonView, OutcomeRecordResult
from holdfast.features.learning.store import OutcomeFilter
from holdfast.kernel.context import Context
from holdfast.kernel.registry.fields import Actor, Limit, Namespace, Timestamp
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.timestamps import parse_time

Score = Annotated[int, Meta(ge=-1, le=1)]
Domain = Annotated[str, Meta(min_length=1, max_length=64, description="Topic, such as testing.")]
PrincipalName = Annotated[
    str, Meta(min_length=1, max_length=128, description="Person or agent (default: the calling agent).")
]
Rule = Annotated[
    str, Meta(min_length=1, max_length=8192, description="The rule, in one sentence.", extra={"argument": True})
]


class LessonAdd(Request, frozen=True):
    rule: Rule
    domain: Domain
    namespace: Namespace | None = None
    principal: PrincipalName | None = None
    outcomes: Annotated[list[str], Meta(max_length=1000, description="Ids of outcomes that support the lesson.")] = []
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/lessons",
    cli=("learn", "lesson", "add"),
    aliases=("lesson add",),
    stage="store",
    status=201,
    columns=("id", "domain"),
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
    return lessons.add_lesson(ctx, place, request.rule, tuple(request.outcomes))


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
    columns=("confidence", "positive", "negative", "domain", "rule"),
    examples=(Example({}), Example({"namespace": "team/project"}), Example({"limit": 0}, error="VALIDATION_FAILED")),
)
def lesson_list(ctx: Context, request: LessonList) -> Lessons:
    """List lessons by confidence; a namespace comes before its parents."""
    found = lessons.list_lessons(ctx, request.namespace, request.domain, request.principal, request.limit)
    return Lessons(lessons=LESSON.views(LessonView, found), count=len(found))


class LessonSuggest(Request, frozen=True):
    namespace: Namespace | None = None
    domain: Domain | None = None
    principal: Annotated[list[str], Meta(max_length=20, description="Only of these people or agents.")] = []


class Proposals(Struct, frozen=True, kw_only=True):
    proposals: list[LessonProposal]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/lessons/suggest",
    cli=("learn", "lesson", "suggest"),
    aliases=("lesson suggest",),
    columns=("score", "domain", "what", "outcomes"),
    empty="No suggestions.",
    examples=(Example({}), Example({"domain": ""}, error="VALIDATION_FAILED")),
)
def lesson_suggest(ctx: Context, request: LessonSuggest) -> Proposals:
    """Suggest lessons from outcomes that occurred three times or more."""
    which = OutcomeFilter(tuple(request.principal), request.namespace, request.domain)
    found = lessons.list_proposals(ctx, which)
    return Proposals(proposals=found, count=len(found))


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


@operation(
    Effect.WRITE,
    "POST /api/v1/outcomes",
    cli=("learn", "outcome", "record"),
    aliases=("outcome record",),
    stage="store",
    status=201,
    columns=("id",),
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
    return lessons.record_outcome(ctx, place, score, request.what, request.source, request.lesson_id)


class OutcomeList(Request, frozen=True):
    namespace: Namespace | None = None
    domain: Domain | None = None
    principal: Annotated[list[str], Meta(max_length=20, description="Only of these people or agents.")] = []
    since: Timestamp | None = None
    archived: Annotated[bool, Meta(description="Include archived outcomes.")] = False
    limit: Limit = 50


class Outcomes(Struct, frozen=True, kw_only=True):
    outcomes: list[Outcome]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/outcomes",
    cli=("learn", "outcome", "list"),
    aliases=("outcome list",),
    columns=("at", "score", "domain", "what"),
    examples=(Example({}), Example({"since": "yesterday"}, error="VALIDATION_FAILED")),
)
def outcome_list(ctx: Context, request: OutcomeList) -> Outcomes:
    """List outcomes, newest first."""
    since = parse_time(request.since, "since")
    which = OutcomeFilter(tuple(request.principal), request.namespace, request.domain, since, archived=request.archived)
    found = lessons.list_outcomes(ctx, which, request.limit)
    return Outcomes(outcomes=found, count=len(found))
