"""Quality of a collection of texts: duplicates, contradictions, secrets, prompt injections, and a score."""

from array import array
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from holdfast.kernel.text import secrets
from holdfast.kernel.text.prompt_injection import suspicions
from holdfast.kernel.text.similarity import Relation, bands, compare_titled, distinct, hashed, plain
from holdfast.kernel.text.terms import read

Trouble = Literal[
    "duplicates", "near_duplicates", "recall_loops", "secrets", "untrusted", "contradictions", "stale", "never_read"
]
WEIGHTS: dict[Trouble, float] = {
    "duplicates": 1.0,
    "near_duplicates": 0.5,
    "recall_loops": 1.0,
    "secrets": 2.0,
    "untrusted": 0.5,
    "contradictions": 0.5,
    "stale": 0.5,
    "never_read": 0.1,
}
"""Share of the 100 points lost if every text has the problem; the score is never below 0."""

MOST = 200_000
"""Maximum number of texts checked."""
MOST_KEPT = 1000
"""Characters of a text used for comparison."""
MOST_COMPARED = 100_000
FEWEST_WORDS = 4
"""Shorter texts are near-duplicates by chance: they count only if equal."""
NOT_LOOKED_FOR = -1
WIDTH = 7
"""Hashes per text: one of the whole text, and one per MinHash band."""
MOST_EXAMPLES = 10


class Text(NamedTuple):
    """A text to check."""

    id: str
    place: str
    title: str
    content: str
    spoken: bool = False
    """Whether it is a message of a conversation: repetitions there are not a problem."""


class Example(NamedTuple):
    """An example of a finding: one text, or all texts of a group."""

    ids: tuple[str, ...]
    what: str


class Finding(NamedTuple):
    """Number of texts with a problem, and examples; None if it cannot be determined."""

    many: int | None
    examples: tuple[Example, ...] = ()


class Found:
    """Count texts with a problem and keep the first examples."""

    def __init__(self) -> None:
        self.count, self._examples = 0, list[Example]()

    def add(self, example: Example, number: int = 1) -> None:
        self.count += number
        if len(self._examples) < MOST_EXAMPLES:
            self._examples.append(example._replace(what=secrets.redacted(example.what)[0]))

    def finding(self) -> Finding:
        return Finding(self.count, tuple(self._examples))


class Collection:
    """Texts added one by one, and compared at the end."""

    def __init__(self) -> None:
        self.total = 0
        self.secrets, self.untrusted = Found(), Found()
        self._texts: list[Text] = []
        self._bands = array("q")

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, text: Text) -> None:
        """Check a text for secrets and injections, and index it for comparison."""
        self.total += 1
        if self.total > MOST:
            return
        if kinds := {secret.kind for secret in secrets.find(f"{text.title}\n{text.content}")}:
            self.secrets.add(Example((text.id,), ", ".join(sorted(kinds))))
        if signs := suspicions(f"{text.title}\n{text.content}"):
            self.untrusted.add(Example((text.id,), ", ".join(signs)))
        if not text.spoken:
            self._keep(text)

    def _keep(self, text: Text) -> None:
        normalized = plain(text.content)
        if not normalized:
            return
        means = {term.means for term in read(text.content[:MOST_KEPT]) if term.sort != "filler"}
        place = hashed(text.place)
        few = len(means) < FEWEST_WORDS
        near = (NOT_LOOKED_FOR,) * (WIDTH - 1) if few else (place ^ band for band in bands(means))
        self._bands.extend((place ^ hashed(normalized), *near))
        self._texts.append(text._replace(content=text.content[:MOST_KEPT]))

    def alike(self) -> tuple[Finding, Finding, Finding]:
        """Find duplicates, near-duplicates and contradictions. The first text of a group does not count."""
        same, near, against = _Groups(len(self._texts)), _Groups(len(self._texts)), Found()
        for one, other in self._equal():
            if not self._distinct(one, other):
                same.join(one, other)
        for one, other in self._candidates():
            if same.root(one) == same.root(other) or near.root(one) == near.root(other):
                continue
            match self._relation(one, other):
                case "same" | "near" | "update":
                    near.join(one, other)
                case "conflict":
                    against.add(Example((self._texts[one].id, self._texts[other].id), self._titles(one, other)))
        return self._grouped(same), self._grouped(near), against.finding()

    def _relation(self, one: int, other: int) -> Relation:
        old, new = self._texts[one], self._texts[other]
        return compare_titled(old.title, old.content, new.title, new.content).relation

    def _distinct(self, one: int, other: int) -> bool:
        old, new = self._texts[one], self._texts[other]
        return distinct(old.title, new.title, old.content)

    def _titles(self, *numbers: int) -> str:
        return " | ".join(self._texts[number].title for number in numbers)

    def _equal(self) -> Iterator[tuple[int, int]]:
        """Yield consecutive pairs of equal texts."""
        last: dict[int, int] = {}
        for number in range(len(self._texts)):
            exact = self._bands[number * WIDTH]
            if exact in last:
                yield last[exact], number
            last[exact] = number

    def _candidates(self) -> Iterator[tuple[int, int]]:
        """Yield each text with the previous text of each of its bands, up to the comparison limit."""
        last: dict[int, int] = {}
        pairs = 0
        for number in range(len(self._texts)):
            own, *others = self._bands[number * WIDTH + 1 : (number + 1) * WIDTH]
            if own == NOT_LOOKED_FOR:
                continue
            for other in sorted({last[band] for band in (own, *others) if band in last}):
                if pairs < MOST_COMPARED:
                    pairs += 1
                    yield other, number
            last[own] = number

    def _grouped(self, groups: "_Groups") -> Finding:
        found = Found()
        for numbers in groups.all():
            found.add(
                Example(tuple(self._texts[number].id for number in numbers), self._titles(*numbers[:3])),
                len(numbers) - 1,
            )
        return found.finding()


class _Groups:
    """Disjoint sets of numbers (union-find)."""

    def __init__(self, size: int) -> None:
        self._above = array("q", range(size))

    def root(self, number: int) -> int:
        while self._above[number] != number:
            self._above[number] = self._above[self._above[number]]
            number = self._above[number]
        return number

    def join(self, one: int, other: int) -> None:
        low, high = sorted((self.root(one), self.root(other)))
        self._above[high] = low

    def all(self) -> list[list[int]]:
        """List groups of two or more, ordered by their first number."""
        found: dict[int, list[int]] = {}
        for number in range(len(self._above)):
            found.setdefault(self.root(number), []).append(number)
        return [numbers for numbers in found.values() if len(numbers) > 1]


def score(total: int, counts: Iterable[tuple[Trouble, int | None]]) -> int:
    """Compute the score: 100 minus, for each problem, its share of the texts times its weight."""
    deducted = sum(WEIGHTS[trouble] * count / total for trouble, count in counts if count) if total else 0.0
    return round(100 * max(0.0, 1 - deducted))
