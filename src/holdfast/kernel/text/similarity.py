"""Similarity of texts: near-duplicates, updates and conflicts, echoes, shared words and letters, groups."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Literal, NamedTuple, TypeVar
from unicodedata import normalize

from holdfast.kernel.storage.index_terms import stem_word
from holdfast.kernel.text.terms import Term, read_terms
from holdfast.kernel.text.words import split_words, strip_invisible

T = TypeVar("T")

Relation = Literal["same", "near", "update", "conflict", "other"]


class Similarity(NamedTuple):
    """Relation of two texts, similarity from 0 to 1, and the reason."""

    relation: Relation
    score: float
    reason: str


_WEIGHT = {"word": 1.0, "name": 1.5, "value": 1.5, "not": 1.0, "filler": 0.1}
MIN_SUBJECT = 0.55
"""Minimum share of one text in the other for the same subject."""
MIN_NEAR = 0.8
MIN_EXCHANGED = 0.93
"""Minimum share if a word was replaced by another, which may be another thing."""
MAX_ADDED = 0.12
"""Maximum share of added words that is not news."""
MIN_COSINE = 0.95
"""Minimum cosine of paraphrases."""

MAX_PAIRS = 2500
"""Maximum pairs of words to compare for misspellings."""

OPPOSITES = """enabled/disabled enable/disable on/off true/false yes/no allow/deny allowed/denied allowed/forbidden
    always/never increase/decrease include/exclude open/closed public/private before/after more/less
    above/below accept/reject add/remove first/last up/down start/stop win/lose won/lost pass/fail passed/failed
    success/failure minimum/maximum least/most internal/external required/optional safe/unsafe permit/forbid
    encrypt/decrypt hot/cold import/export upload/download left/right early/late inbound/outbound
    increased/decreased succeeded/failed accepted/rejected added/removed higher/lower faster/slower
    valid/invalid supported/unsupported supports/lacks online/offline active/inactive sync/async
    synchronous/asynchronous mutable/immutable stable/unstable likes/dislikes loves/hates alive/dead
    married/single approve/veto"""
_PREFIXES = ("un", "in", "dis", "non", "im", "ir", "de")
_NEWER = "now changed moved updated instead anymore renamed switched upgraded"
_COUNTED = "invoice issue ticket order flight build case pr pull bug room chapter step section user"


@cache
def _meanings(words: str) -> frozenset[str]:
    """Return the meanings of some words; computed on first use, because every process imports this module."""
    return frozenset(term.meaning for term in read_terms(words))


@cache
def _opposite_pairs() -> frozenset[frozenset[str]]:
    return frozenset(_meanings(pair) for pair in [*OPPOSITES.split(), "must/may"])


def compare(old: str, new: str, cosine: float | None = None) -> Similarity:
    """Classify a new text against an existing one."""
    if _letters(old) == (letters := _letters(new)):
        if letters or old.split() == new.split():
            return Similarity("same", 1.0, "identical except for case, blanks and punctuation")
        return Similarity("other", 0.0, "neither contains a word")
    return _classify(_Change(read_terms(old), read_terms(new)), cosine)


def _letters(text: str) -> list[str]:
    """Return the tokens of a text without case, blanks and insignificant punctuation."""
    return re.findall(_LETTERS, normalize("NFKC", strip_invisible(text)).casefold())


_LETTERS = r"[^\W_]+|[<>≤≥≠]|!=|(?<![\w)])-(?=\d)|\+\+|(?<=\w)#|(?<=\d)[.,:]\d+"


class _Change:
    """Terms that a new text lost and gained against an old one; misspellings count as equal."""

    def __init__(self, before: list[Term], after: list[Term]) -> None:
        self.before, self.after = before, after
        counted = [Counter(term.meaning for term in terms if term.sort != "filler") for terms in (before, after)]
        sorts = [{term.meaning: term for term in terms} for terms in (before, after)]
        self.lost = [sorts[0][means] for means in (counted[0] - counted[1]).elements()]
        self.gained = [sorts[1][means] for means in (counted[1] - counted[0]).elements()]
        few = len(self.lost) * len(self.gained) <= MAX_PAIRS
        self.opposed = few and any(
            _are_opposites(one.meaning, other.meaning) for one in self.lost for other in self.gained
        )
        if few:
            self._pair_off()
        weights = [sum(_WEIGHT[term.sort] for term in terms if term.sort != "filler") for terms in (before, after)]
        self.left_out = _weight(self.lost) / max(weights[0], 1e-9)
        self.added = _weight(self.gained) / max(weights[1], 1e-9)
        self.score = 1 - (_weight(self.lost) + _weight(self.gained)) / max(sum(weights), 1e-9)

    def _pair_off(self) -> None:
        """Remove pairs of words that differ only by an ending or a typo."""
        for one in [term for term in self.lost if term.sort in ("word", "name")]:
            for other in self.gained:
                if other.sort in ("word", "name") and _is_misspelling(one.meaning, other.meaning):
                    self.lost.remove(one)
                    self.gained.remove(other)
                    break

    def has(self, sort: str) -> tuple[bool, bool]:
        """Whether terms of a sort were lost, and gained."""
        return any(term.sort == sort for term in self.lost), any(term.sort == sort for term in self.gained)

    def counts_another(self) -> bool:
        """Whether a different value is the number of a thing, such as an issue."""
        values = [term for term in self.gained if term.sort == "value"]
        return any(
            self.after[max(0, at - 2) : at]
            and any(near.meaning in _meanings(_COUNTED) for near in self.after[max(0, at - 2) : at])
            for at, term in enumerate(self.after)
            if term in values
        )


def _classify(change: _Change, cosine: float | None) -> Similarity:
    """Return the first matching relation."""
    score = max(0.0, change.score)
    if min(change.left_out, change.added) > 1 - MIN_SUBJECT and not (cosine is not None and cosine >= MIN_COSINE):
        return Similarity("other", score, "they share too little")
    if all(change.has("name")):
        return Similarity("other", score, "they name different things")
    if all(change.has("value")):
        return _classify_values(change, score)
    exchanged = all(change.has("word")) or (any(change.has("name")) and bool(change.lost and change.gained))
    if (
        exchanged
        and not change.opposed
        and change.score < MIN_EXCHANGED
        and not (cosine is not None and cosine >= MIN_COSINE)
    ):
        return Similarity("other", score, "words were replaced by others")
    if change.opposed or change.has("not")[0] != change.has("not")[1]:
        return Similarity("conflict", score, "one contradicts the other")
    return _classify_additions(change, score)


def _classify_values(change: _Change, score: float) -> Similarity:
    """Classify texts with different values: two things, or two claims about one."""
    if change.counts_another():
        return Similarity("other", score, "they count different things")
    if all(change.has("word")) and change.score < 1 - 2 * MAX_ADDED:
        return Similarity("other", score, "they share too little else")
    if any(term.meaning in _meanings(_NEWER) for term in change.after):
        return Similarity("update", score, "the new one has another value and says it is newer")
    return Similarity("conflict", score, "they have different values")


def _classify_additions(change: _Change, score: float) -> Similarity:
    """Classify texts that do not contradict: one may say more."""
    news = change.added > MAX_ADDED or change.has("value")[1] or change.has("name")[1]
    if change.left_out <= MAX_ADDED and news:
        return Similarity("update", score, "the new one contains the old one and adds to it")
    if change.added <= MAX_ADDED and (change.left_out <= MIN_SUBJECT or change.score >= MIN_NEAR):
        return Similarity("near", score, "the new one adds nothing")
    return Similarity("other", score, "they share too little")


def _weight(terms: Iterable[Term]) -> float:
    return sum(_WEIGHT[term.sort] for term in terms)


def _are_opposites(one: str, other: str) -> bool:
    if frozenset((one, other)) in _opposite_pairs():
        return True
    short, long = (one, other) if len(one) < len(other) else (other, one)
    return long.endswith(short) and long[: len(long) - len(short)] in _PREFIXES


def _is_misspelling(one: str, other: str) -> bool:
    """Whether two words differ only by an ending or a single typo."""
    if one[:1] != other[:1]:
        return False
    short, long = (one, other) if len(one) < len(other) else (other, one)
    if len(short) < 4 or len(long) - len(short) > 3:
        return False
    if long.startswith(short) and len(short) >= 5:
        return True
    if len(long) - len(short) > 1:
        return False
    head = next((at for at, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    tails = short[head:], long[head:]
    if len(short) == len(long):
        exchanged = tails[0][:2] == tails[1][:2][::-1] and tails[0][2:] == tails[1][2:]
        return exchanged or (len(short) >= 6 and tails[0][1:] == tails[1][1:])
    return len(long) >= 5 and tails[0] == tails[1][1:]


def compare_titled(old_title: str, old: str, new_title: str, new: str, cosine: float | None = None) -> Similarity:
    """Classify a new text against an existing one, taking their titles into account."""
    found = compare(old, new, cosine)
    if found.relation == "other":
        return found
    if have_distinct_subjects(old_title, new_title, f"{old}\n{new}"):
        return Similarity("other", found.score, "their titles name different things")
    return found


_LABELS = "note memory title test item entry copy duplicate dup first second third new old different same answer"


def have_distinct_subjects(old: str, new: str, content: str, *, strict: bool = True) -> bool:
    """Whether titles indicate different subjects: by a different value or name, or altogether.

    Not `strict`: also by any other word, or by a name that is not in the text.
    """
    known = {term.meaning for measured in (True, False) for term in read_terms(content, measured=measured)}
    ours, theirs = _title_terms(old), _title_terms(new)
    lost = {term for term in ours - theirs if term.meaning not in known}
    gained = {term for term in theirs - ours if term.meaning not in known}
    if not gained:
        return False
    foreign = not any(term.meaning in known or term in ours for term in theirs)
    if foreign and not (strict and any(term.meaning in known for term in ours)):
        return True
    if not strict and any(term in gained for term in read_terms(new) if term.sort == "name"):
        return True
    telling = {"value", "name"} if strict else {"value", "name", "word"}
    return all(any(term.sort in telling for term in terms) for terms in (lost, gained))


@cache
def _label_stems() -> frozenset[str]:
    return frozenset(map(stem_word, _LABELS.split()))


def _title_terms(title: str) -> set[Term]:
    """Return the significant terms of a title; empty if it is only a letter or a number."""
    terms = {
        term
        for term in read_terms(f"It is {title}")
        if term.sort not in ("filler", "not") and term.meaning not in _label_stems()
    }
    return terms if any(term.sort != "value" and len(term.meaning) > 1 for term in terms) else set()


def normalize_text(text: str) -> str:
    """Normalize a text for comparison: case, blanks and a final full stop are ignored."""
    return " ".join(normalize("NFKC", strip_invisible(text)).casefold().split()).rstrip(" .!。")


MIN_ECHO = 0.9
_FRAME = "according to the memory recalled, I recall, as noted earlier and previously in stored notes"
_SENTENCES = r"(?<=[.!?])\s+|(?<=[。！？])|\n+"


def find_echoes(recalled: Sequence[str], new: str, names: Sequence[T]) -> list[T]:
    """Return the names of recalled texts that a new one repeats, if it adds nothing; else none.

    Nine tenths of its triples of terms are in them, no term is new, and no negation, name or value occurs in a new
    triple.
    """
    own = [(text, _triples(text), {term.meaning for term in read_terms(text)}) for text in recalled]
    said = {shingle for _, shingles, _ in own for shingle in shingles}
    known = {means for _, _, terms in own for means in terms}
    fresh = _triples(new)
    strange = [shingle for shingle in fresh if shingle not in said]
    if not fresh or len(strange) > (1 - MIN_ECHO) * len(fresh):
        return []
    if any(
        term.meaning not in known or term.sort in ("value", "name", "not") for shingle in strange for term in shingle
    ):
        return []
    shared = [(len(shingles & fresh), name) for name, (_, shingles, _) in zip(names, own, strict=True)]
    return [name for many, name in sorted(shared, key=lambda one: -one[0]) if many]


MAX_PREFIXES = 64
"""Words of a text to look for in others before a closer comparison."""
MAX_READ = 30


def preselect_echoes(recalled: Sequence[str], new: str) -> list[int]:
    """Preselect quickly the recalled texts that a new one may repeat, most shared words first.

    Empty if a third of its words are in none of them.
    """
    marks = sorted(_word_prefixes(new) - _word_prefixes(_FRAME), key=lambda mark: (-len(mark), mark))[:MAX_PREFIXES]
    held = [[mark for mark in marks if mark in said] for said in map(str.casefold, recalled)]
    fewest = min(2, len(marks))
    shared = sorted((-len(some), place) for place, some in enumerate(held) if len(some) >= fewest)[:MAX_READ]
    covered = {mark for _, place in shared for mark in held[place]}
    return [place for _, place in shared] if 3 * len(covered) >= 2 * len(marks) else []


def _word_prefixes(text: str) -> set[str]:
    """Return prefixes of the words of a text; bigrams in scripts without blanks."""
    found = set[str]()
    for word in split_words(text):
        found.update((word[:5],) if word.isascii() else (word[at : at + 2] for at in range(len(word) - 1)))
    return {mark for mark in found if len(mark) > 3 or not mark.isascii()} or found


def _triples(text: str) -> set[tuple[Term, ...]]:
    """Return all triples of consecutive terms per sentence; a shorter sentence as a whole."""
    found = set[tuple[Term, ...]]()
    frame = read_terms(_FRAME)
    for sentence in re.split(_SENTENCES, text):
        terms = [term for term in read_terms(sentence) if term.sort != "filler" and term not in frame]
        found.update(tuple(terms[at : at + 3]) for at in range(max(1, len(terms) - 2)))
    return found - {()}


def letter_triples(text: str) -> Counter[str]:
    """Count the letter trigrams of a text's words, with blanks between and around them."""
    spelled = f" {' '.join(split_words(text))} "
    return Counter(spelled[at : at + 3] for at in range(len(spelled) - 2))


def letter_similarity(a: str, b: str) -> float:
    """Return the similarity of two texts, 0 to 1: their share of common letter trigrams.

    Letters instead of words tolerate inflections and typos.
    """
    one, other = letter_triples(a), letter_triples(b)
    both = one.total() + other.total()
    return 2 * (one & other).total() / both if both else float(a == b)


MAX_SHARED_WORDS = 5


class Group(NamedTuple):
    ids: tuple[str, ...]
    """Sorted ids."""
    similarity: float
    """Lowest similarity of a member to the centre."""
    shared: tuple[str, ...]
    """Words that most members have, most frequent first."""


def find_groups(
    words: Mapping[str, frozenset[str]], *, min_similarity: float, min_size: int, max_size: int
) -> list[Group]:
    """Group texts around those with most similar texts; each text is in at most one group.

    Ties are broken by id, so that the same texts make the same groups.
    """
    near = _find_neighbours(words, min_similarity)
    found, taken = list[Group](), set[str]()
    for middle in sorted(near, key=lambda id: (-len(near[id]), id)):
        around = [(likeness, id) for likeness, id in near[middle] if id not in taken]
        if middle in taken or len(around) + 1 < min_size:
            continue
        chosen = sorted(around, key=lambda one: (-one[0], one[1]))[: max_size - 1]
        ids = tuple(sorted([middle, *(id for _, id in chosen)]))
        found.append(Group(ids, min(likeness for likeness, _ in chosen), _common_words([words[id] for id in ids])))
        taken.update(ids)
    return found


def _find_neighbours(words: Mapping[str, frozenset[str]], min_similarity: float) -> dict[str, list[tuple[float, str]]]:
    """Return the similar texts of each text."""
    near: dict[str, list[tuple[float, str]]] = {id: [] for id in words}
    ids = sorted(words)
    for place, one in enumerate(ids):
        for other in ids[place + 1 :]:
            if (likeness := jaccard(words[one], words[other])) >= min_similarity:
                near[one].append((likeness, other))
                near[other].append((likeness, one))
    return near


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the Jaccard similarity of two word sets."""
    both = len(one & other)
    return both / (len(one) + len(other) - both) if both else 0.0


def _common_words(texts: Sequence[frozenset[str]]) -> tuple[str, ...]:
    counts = Counter(word for text in texts for word in text)
    often = [word for word, count in counts.items() if count * 2 > len(texts)]
    return tuple(sorted(often, key=lambda word: (-counts[word], word))[:MAX_SHARED_WORDS])
