"""Quality of a collection of texts: duplicates, contradictions, secrets, prompt injections, and a score."""

from array import array
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from holdfast.kernel.storage.index_terms import hash_text, lsh_bands
from holdfast.kernel.text import content_scan
from holdfast.kernel.text.content_scan import find_injections
from holdfast.kernel.text.similarity import Relation, compare_titled, have_distinct_subjects, normalize_text
from holdfast.kernel.text.terms import read_terms

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

MAX_TEXTS = 200_000
"""Maximum number of texts checked."""
MAX_TEXT_LENGTH = 1000
"""Characters of a text used for comparison."""
MAX_COMPARISONS = 100_000
MIN_WORDS = 4
"""Shorter texts are near-duplicates by chance: they count only if equal."""
NO_BAND = -1
BANDS_PER_TEXT = 7
"""Hashes per text: one of the whole text, and one per MinHash band."""
MAX_EXAMPLES = 10


class Text(NamedTuple):
    """A text to check."""

    id: str
    place: str
    title: str
    content: str
    is_spoken: bool = False
    """Whether it is a message of a conversation: repetitions there are not a problem."""


class Example(NamedTuple):
    """An example of a finding: one text, or all texts of a group."""

    ids: tuple[str, ...]
    what: str


class Finding(NamedTuple):
    """Number of texts with a problem, and examples; None if it cannot be determined."""

    total: int | None
    examples: tuple[Example, ...] = ()


class FindingCounter:
    """Count texts with a problem and keep the first examples."""

    def __init__(self) -> None:
        self.count, self._examples = 0, list[Example]()

    def add(self, example: Example, number: int = 1) -> None:
        self.count += number
        if len(self._examples) < MAX_EXAMPLES:
            self._examples.append(example._replace(what=content_scan.redact_text(example.what)[0]))

    def build_finding(self) -> Finding:
        return Finding(self.count, tuple(self._examples))


class TextCollection:
    """Texts added one by one, and compared at the end."""

    def __init__(self) -> None:
        self.total = 0
        self.secrets, self.untrusted = FindingCounter(), FindingCounter()
        self._texts: list[Text] = []
        self._bands = array("q")

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, text: Text) -> None:
        """Check a text for secrets and injections, and index it for comparison."""
        self.total += 1
        if self.total > MAX_TEXTS:
            return
        if kinds := {secret.kind for secret in content_scan.find_secrets(f"{text.title}\n{text.content}")}:
            self.secrets.add(Example((text.id,), ", ".join(sorted(kinds))))
        if signs := find_injections(f"{text.title}\n{text.content}"):
            self.untrusted.add(Example((text.id,), ", ".join(signs)))
        if not text.is_spoken:
            self._index_text(text)

    def _index_text(self, text: Text) -> None:
        normalized = normalize_text(text.content)
        if not normalized:
            return
        means = {term.meaning for term in read_terms(text.content[:MAX_TEXT_LENGTH]) if term.sort != "filler"}
        place = hash_text(text.place)
        few = len(means) < MIN_WORDS
        near = (NO_BAND,) * (BANDS_PER_TEXT - 1) if few else (place ^ band for band in lsh_bands(means))
        self._bands.extend((place ^ hash_text(normalized), *near))
        self._texts.append(text._replace(content=text.content[:MAX_TEXT_LENGTH]))

    def find_repeats(self) -> tuple[Finding, Finding, Finding]:
        """Find duplicates, near-duplicates and contradictions. The first text of a group does not count."""
        same, near, against = _Groups(len(self._texts)), _Groups(len(self._texts)), FindingCounter()
        for one, other in self._find_equal_pairs():
            if not self._is_distinct(one, other):
                same.join(one, other)
        for one, other in self._find_candidate_pairs():
            if same.find_root(one) == same.find_root(other) or near.find_root(one) == near.find_root(other):
                continue
            match self._compare(one, other):
                case "same" | "near" | "update":
                    near.join(one, other)
                case "conflict":
                    against.add(Example((self._texts[one].id, self._texts[other].id), self._join_titles(one, other)))
        return self._build_group_finding(same), self._build_group_finding(near), against.build_finding()

    def _compare(self, one: int, other: int) -> Relation:
        old, new = self._texts[one], self._texts[other]
        return compare_titled(old.title, old.content, new.title, new.content).relation

    def _is_distinct(self, one: int, other: int) -> bool:
        old, new = self._texts[one], self._texts[other]
        return have_distinct_subjects(old.title, new.title, old.content)

    def _join_titles(self, *numbers: int) -> str:
        return " | ".join(self._texts[number].title for number in numbers)

    def _find_equal_pairs(self) -> Iterator[tuple[int, int]]:
        """Yield consecutive pairs of equal texts."""
        last: dict[int, int] = {}
        for number in range(len(self._texts)):
            exact = self._bands[number * BANDS_PER_TEXT]
            if exact in last:
                yield last[exact], number
            last[exact] = number

    def _find_candidate_pairs(self) -> Iterator[tuple[int, int]]:
        """Yield each text with the previous text of each of its bands, up to the comparison limit."""
        last: dict[int, int] = {}
        pairs = 0
        for number in range(len(self._texts)):
            own, *others = self._bands[number * BANDS_PER_TEXT + 1 : (number + 1) * BANDS_PER_TEXT]
            if own == NO_BAND:
                continue
            for other in sorted({last[band] for band in (own, *others) if band in last}):
                if pairs < MAX_COMPARISONS:
                    pairs += 1
                    yield other, number
            last[own] = number

    def _build_group_finding(self, groups: "_Groups") -> Finding:
        found = FindingCounter()
        for numbers in groups.list_groups():
            found.add(
                Example(tuple(self._texts[number].id for number in numbers), self._join_titles(*numbers[:3])),
                len(numbers) - 1,
            )
        return found.build_finding()


class _Groups:
    """Disjoint sets of numbers (union-find)."""

    def __init__(self, size: int) -> None:
        self._parents = array("q", range(size))

    def find_root(self, number: int) -> int:
        while self._parents[number] != number:
            self._parents[number] = self._parents[self._parents[number]]
            number = self._parents[number]
        return number

    def join(self, one: int, other: int) -> None:
        low, high = sorted((self.find_root(one), self.find_root(other)))
        self._parents[high] = low

    def list_groups(self) -> list[list[int]]:
        """List groups of two or more, ordered by their first number."""
        found: dict[int, list[int]] = {}
        for number in range(len(self._parents)):
            found.setdefault(self.find_root(number), []).append(number)
        return [numbers for numbers in found.values() if len(numbers) > 1]


def compute_score(total: int, counts: Iterable[tuple[Trouble, int | None]]) -> int:
    """Compute the score: 100 minus, for each problem, its share of the texts times its weight."""
    deducted = sum(WEIGHTS[trouble] * count / total for trouble, count in counts if count) if total else 0.0
    return round(100 * max(0.0, 1 - deducted))
