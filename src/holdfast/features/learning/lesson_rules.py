"""Outcomes, and rules for lessons: confidence from evidence, ranking, eviction, proposals from repeated outcomes."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Struct

from holdfast.kernel.records.fields import (
    PRIVATE,
    Agent,
    LongText,
    Mark,
    Named,
    OptionalShortText,
    ShortText,
    Text,
    Timestamp,
)
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.text.similarity import compare

Score = Literal[-1, 0, 1]
MAX_LESSONS = 10
"""Live lessons per domain, namespace and principal; the weakest beyond that are archived."""
MAX_WORDINGS = 20
"""Alternative wordings kept per lesson, with their authors."""
MIN_REPEATS = 3
"""Outcomes with the same text needed to propose a lesson."""


class Outcome(Struct, frozen=True, kw_only=True):
    """What came of something that was done."""

    id: Text
    at: Timestamp
    principal: ShortText
    agent: Agent
    namespace: str
    domain: ShortText
    score: Score
    what: LongText
    source: OptionalShortText = ""
    lesson: Annotated[Text, Mark.MEMORY, Named("lesson_id")] | None = None
    archived_at: Annotated[Timestamp, PRIVATE] | None = None


class Evidence(NamedTuple):
    """How often a rule was confirmed, and how often it failed."""

    positive: int = 0
    negative: int = 0

    @property
    def confidence(self) -> float:
        return (self.positive + 1) / (self.positive + self.negative + 2)

    def add_score(self, score: Score) -> "Evidence":
        return Evidence(self.positive + (score > 0), self.negative + (score < 0))


def read_evidence(metadata: dict[str, Any]) -> Evidence:
    """Read the evidence from a lesson's metadata. Invalid values count as 0."""
    counts = [metadata.get(name, 0) for name in ("positive", "negative")]
    return Evidence(*(count if isinstance(count, int) and 0 <= count < 1 << 40 else 0 for count in counts))


def is_same_rule(one: str, other: str) -> bool:
    """Whether two texts state the same rule, possibly reworded."""
    return compare(one, other).relation in ("same", "near")


def build_lesson_title(domain: str, rule: str) -> str:
    """Build the title of a lesson: its domain and rule, truncated."""
    line = " ".join(rule.split())
    return f"{domain}: {line}"[:200]


def find_weakest(lessons: Sequence[Memory], spare: str) -> list[Memory]:
    """Find the lessons beyond the limit: lowest confidence first, then oldest, never `spare`."""
    over = len(lessons) - MAX_LESSONS
    if over <= 0:
        return []
    others = [lesson for lesson in lessons if lesson.id != spare]
    return sorted(others, key=lambda lesson: (lesson.confidence, lesson.updated_at, lesson.id))[:over]


def rank_lessons(lessons: Iterable[Memory], namespaces: Sequence[str]) -> list[Memory]:
    """Sort lessons by nearest namespace, then confidence, then most recent."""
    places = {namespace: place for place, namespace in enumerate(namespaces)}
    return sorted(
        lessons, key=lambda lesson: (places[lesson.namespace], -lesson.confidence, -lesson.updated_at, lesson.id)
    )


class LessonProposal(Struct, frozen=True, kw_only=True):
    """A lesson proposed because several outcomes say the same."""

    domain: str
    score: Score
    what: str
    outcomes: list[str]


def find_proposals(outcomes: Iterable[Outcome]) -> list[LessonProposal]:
    """Group outcomes that belong to no lesson; return groups that are large enough."""
    groups: list[LessonProposal] = []
    for one in outcomes:
        if not one.score or not one.what.strip():
            continue
        for group in groups:
            if (group.domain, group.score) == (one.domain, one.score) and is_same_rule(group.what, one.what):
                group.outcomes.append(one.id)
                break
        else:
            groups.append(LessonProposal(domain=one.domain, score=one.score, what=one.what, outcomes=[one.id]))
    return [group for group in groups if len(group.outcomes) >= MIN_REPEATS]
