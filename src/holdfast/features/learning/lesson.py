"""What was learned from how things went: rules, each as sure as its evidence makes it."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from holdfast.kernel.records.memory import Memory
from holdfast.kernel.text.similarity import compare

Score = Literal[-1, 0, 1]
MOST_LESSONS = 10
"""Live rules of one domain in one namespace and of one principal; the weakest of more is archived."""
MOST_SAID = 20
"""Other words for a rule, and who said them, that it remembers."""
PROPOSED_FROM = 3
"""So many outcomes that say the same make a lesson worth proposing."""


class Evidence(NamedTuple):
    """How often a rule was borne out, and how often it failed."""

    positive: int = 0
    negative: int = 0

    @property
    def confidence(self) -> float:
        return (self.positive + 1) / (self.positive + self.negative + 2)

    def after(self, score: Score) -> "Evidence":
        return Evidence(self.positive + (score > 0), self.negative + (score < 0))


def evidence_of(metadata: dict[str, Any]) -> Evidence:
    """What a lesson's metadata say, whoever wrote them."""
    counts = [metadata.get(name, 0) for name in ("positive", "negative")]
    return Evidence(*(count if isinstance(count, int) and 0 <= count < 1 << 40 else 0 for count in counts))


def same_rule(one: str, other: str) -> bool:
    """Whether two texts are one rule, perhaps in other words."""
    return compare(one, other).relation in ("same", "near")


def title_of(domain: str, rule: str) -> str:
    """A title by which a rule is found again; cut where it would be too long."""
    line = " ".join(rule.split())
    return f"{domain}: {line}"[:200]


def weakest(lessons: Sequence[Memory], spare: str) -> list[Memory]:
    """Those that are too many: the least sure first, of equals the oldest, never the one to be spared."""
    over = len(lessons) - MOST_LESSONS
    if over <= 0:
        return []
    others = [lesson for lesson in lessons if lesson.id != spare]
    return sorted(others, key=lambda lesson: (lesson.confidence, lesson.updated_at, lesson.id))[:over]


def ranked(lessons: Iterable[Memory], namespaces: Sequence[str]) -> list[Memory]:
    """Those of the nearest namespace first, then the surest, then the latest."""
    places = {namespace: place for place, namespace in enumerate(namespaces)}
    return sorted(
        lessons, key=lambda lesson: (places[lesson.namespace], -lesson.confidence, -lesson.updated_at, lesson.id)
    )


class Repeated(NamedTuple):
    """What outcomes say again and again."""

    domain: str
    score: Score
    what: str
    outcomes: list[str]


def repeated(said: Iterable[tuple[str, str, Score, str]]) -> list[Repeated]:
    """Of outcomes (id, domain, score, what) that bear on no lesson, those that say the same often enough."""
    groups: list[Repeated] = []
    for id, domain, score, what in said:
        if not score or not what.strip():
            continue
        for group in groups:
            if (group.domain, group.score) == (domain, score) and same_rule(group.what, what):
                group.outcomes.append(id)
                break
        else:
            groups.append(Repeated(domain, score, what, [id]))
    return [group for group in groups if len(group.outcomes) >= PROPOSED_FROM]
