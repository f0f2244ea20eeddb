"""Add lessons and record outcomes. Outcomes change the confidence of lessons and propose new ones."""

from typing import Any, NamedTuple

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from holdfast.features.learning import lesson_rules as rules
from holdfast.features.learning import store as outcomes
from holdfast.features.learning.lesson_rules import LessonProposal, Outcome, Score
from holdfast.features.learning.store import OUTCOMES, OutcomeFilter
from holdfast.features.memories.lifecycle import archive_memory
from holdfast.features.memories.memory_kind import MAX_READ, MemoryKind, read_text
from holdfast.features.people.model import validate_name
from holdfast.features.people.resolve_names import list_names
from holdfast.kernel.context import Context, is_under, with_ancestors
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import DAY, TimeText, format_timestamp

WEAKEST_REASON = "weaker than the other lessons of its domain"
"""Archive reason of an evicted lesson."""
LOOKBACK_DAYS = 90


LESSON = MemoryKind(
    "lesson",
    "a lesson",
    "version",
    {
        "domain": read_text("domain"),
        "rule": "content",
        "principal": read_text("principal"),
        "positive": lambda memory: rules.read_evidence(memory.metadata).positive,
        "negative": lambda memory: rules.read_evidence(memory.metadata).negative,
        "occurrences": lambda memory: int(memory.metadata.get("occurrences", 1)),
        "also_said": lambda memory: [str(one["rule"]) for one in memory.metadata.get("said", [])] or None,
    },
)


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


class LessonAddResult(Struct, frozen=True, kw_only=True):
    lesson: LessonView
    created: bool
    """False: an existing lesson states the same rule and gained evidence."""
    archived: list[str]
    """Ids of weaker lessons of the domain that were archived; `archive restore` brings them back."""


class OutcomeRecordResult(Struct, frozen=True, kw_only=True):
    id: str
    lesson: LessonView | None = None
    """The lesson this outcome counted for, after the change."""
    proposes: LessonProposal | None = None
    """A lesson proposed by repeated outcomes; pass them to `learn lesson add` to accept it."""


class LessonScope(NamedTuple):
    """Principal, namespace and domain that a lesson belongs to."""

    principal: str
    namespace: str
    domain: str


def add_lesson(ctx: Context, scope: LessonScope, rule: str, evidence: tuple[str, ...] = ()) -> LessonAddResult:
    """Add a lesson, or strengthen the existing one that states the same rule."""
    with ctx.transaction() as write:
        there = _list_scope_lessons(ctx, write.session, scope)
        existing = next((lesson for lesson in there if rules.is_same_rule(lesson.content, rule)), None)
        if existing is not None:
            lesson = _strengthen_lesson(ctx, write, existing, rule, max(1, len(evidence)))
            weakest = []
        else:
            lesson = _create_lesson(ctx, write, scope, rule, max(1, len(evidence)))
            weakest = rules.find_weakest([*there, lesson], lesson.id)
        for one in weakest:
            archive_memory(write, one, WEAKEST_REASON, "archive")
        outcomes.set_lesson(write.session, evidence, lesson.id)
    return LessonAddResult(
        lesson=LESSON.view(LessonView, lesson), created=existing is None, archived=[one.id for one in weakest]
    )


def _create_lesson(ctx: Context, write: Transaction, scope: LessonScope, rule: str, times: int) -> Memory:
    evidence = rules.Evidence(positive=times)
    about = {"principal": scope.principal, "domain": scope.domain, "occurrences": 1, **evidence._asdict()}
    title = rules.build_lesson_title(scope.domain, rule)
    return LESSON.add(ctx, write, title, rule, scope.namespace, confidence=evidence.confidence, metadata=about)


def _strengthen_lesson(ctx: Context, write: Transaction, known: Memory, rule: str, times: int) -> Memory:
    """Add evidence to a lesson; a new wording is kept with its author."""
    evidence = rules.read_evidence(known.metadata)
    evidence = evidence._replace(positive=evidence.positive + times)
    added: dict[str, Any] = {**evidence._asdict(), "occurrences": int(known.metadata.get("occurrences", 1)) + 1}
    if rule != known.content:
        wording = {"rule": rule, "agent_id": ctx.caller.agent, "at": format_timestamp(write.now)}
        added["said"] = [*known.metadata.get("said", []), wording][-rules.MAX_WORDINGS :]
    return LESSON.change(ctx, write, known, added, confidence=evidence.confidence)


def record_outcome(
    ctx: Context, scope: LessonScope, score: Score, what: str, source: str, lesson: str | None
) -> OutcomeRecordResult:
    """Record an outcome. It counts for the named lesson, or for the one that states the same rule."""
    with ctx.transaction() as write:
        outcome = Outcome(
            id=ctx.new_id(),
            at=write.now,
            principal=scope.principal,
            agent=ctx.caller.agent,
            namespace=scope.namespace,
            domain=scope.domain,
            score=score,
            what=what,
            source=source,
        )
        borne = _find_lesson(ctx, write, scope, what, lesson)
        if borne is not None:
            borne = _apply_score(ctx, write, borne, score)
            outcome = replace(outcome, lesson=borne.id)
        OUTCOMES.add(write.session, outcome)
        proposed = None if borne is not None else _find_proposal(ctx, write.session, scope, outcome)
    lesson_view = None if borne is None else LESSON.view(LessonView, borne)
    return OutcomeRecordResult(id=outcome.id, lesson=lesson_view, proposes=proposed)


def _find_lesson(ctx: Context, write: Transaction, scope: LessonScope, what: str, lesson: str | None) -> Memory | None:
    if lesson is not None:
        return LESSON.resolve(ctx, write, lesson)
    there = _list_scope_lessons(ctx, write.session, scope)
    return next((one for one in there if rules.is_same_rule(one.content, what)), None)


def _apply_score(ctx: Context, write: Transaction, lesson: Memory, score: Score) -> Memory:
    if not score:
        return lesson
    evidence = rules.read_evidence(lesson.metadata).add_score(score)
    return LESSON.change(ctx, write, lesson, evidence._asdict(), "outcome", confidence=evidence.confidence)


def _find_proposal(ctx: Context, session: Session, scope: LessonScope, last: Outcome) -> LessonProposal | None:
    """Find the lesson that this outcome and similar ones propose."""
    which = OutcomeFilter(
        (scope.principal,), scope.namespace, scope.domain, last.at - LOOKBACK_DAYS * DAY, unlearned=True
    )
    groups = rules.find_proposals(outcomes.list_outcomes(session, ctx.caller, which, MAX_READ))
    return next((group for group in groups if last.id in group.outcomes), None)


def list_proposals(ctx: Context, which: OutcomeFilter) -> list[LessonProposal]:
    """List lessons that repeated outcomes propose and no lesson covers yet."""
    since = ctx.now() - LOOKBACK_DAYS * DAY
    with ctx.reading() as session:
        found = outcomes.list_outcomes(session, ctx.caller, which._replace(unlearned=True, since=since), MAX_READ)
    return rules.find_proposals(found)


def list_outcomes(ctx: Context, which: OutcomeFilter, limit: int) -> list[Outcome]:
    with ctx.reading() as session:
        return outcomes.list_outcomes(session, ctx.caller, which, limit)


def list_lessons(
    ctx: Context, namespace: str | None, domain: str | None, principal: str | None, limit: int
) -> list[Memory]:
    """List lessons of a namespace, then of its parents, by confidence. Without a namespace: of all of them."""
    with ctx.reading() as session:
        layers = tuple(dict.fromkeys([*with_ancestors(namespace), ctx.namespace])) if namespace else ()
        found = LESSON.select(ctx, session, namespaces=layers)
        names = list_names(session, validate_name(principal)) if principal is not None else None
    fit = [
        lesson
        for lesson in found
        if (domain is None or lesson.metadata.get("domain") == domain)
        and (names is None or lesson.metadata.get("principal") in names)
    ]
    ordered = (
        rules.rank_lessons(fit, layers)
        if namespace
        else sorted(fit, key=lambda one: (-one.confidence, -one.updated_at))
    )
    return ordered[:limit]


def _list_scope_lessons(ctx: Context, session: Session, scope: LessonScope) -> list[Memory]:
    """List the live lessons of one domain, namespace and principal."""
    names = list_names(session, scope.principal)
    return [
        one
        for one in LESSON.select(ctx, session, namespace=scope.namespace)
        if one.metadata.get("domain") == scope.domain and one.metadata.get("principal") in names
    ]


def build_scope(ctx: Context, principal: str | None, namespace: str | None, domain: str) -> LessonScope:
    """Build the scope of a lesson. Raises for namespaces of people."""
    where = namespace or ctx.namespace
    if is_under(where, "people"):
        raise Invalid(
            "namespace: namespaces under `people` hold facts about people; choose a project namespace",
            fields=["namespace"],
        )
    return LessonScope(validate_name(principal or ctx.caller.agent), where, domain)


def prune_outcomes(ctx: Context, before: int, *, keep: int) -> tuple[int, int]:
    """Delete archived outcomes older than a timestamp and archive all but the newest; return how many of each."""
    with ctx.store.transaction(ctx.progress.begin_commit) as session:
        return outcomes.delete_outcomes(session, before), outcomes.archive_outcomes(session, keep, ctx.now())
