"""Extract tags from a text: prominent words and phrases, and matching tags of the namespace."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from typing import NamedTuple

from holdfast.kernel.text.bigrams import UNSEGMENTED, may_lack_blanks
from holdfast.kernel.text.words import STOP, fold, runs, visible

MOST = 8
LEAST_LETTERS = 3
LONGEST_RUN = 8
RAREST = 3
MOST_READ = 16_384
"""Characters of a text used for tag extraction."""
MOST_UNSPACED = 2048
IN_TITLE = 2.0
"""Additional weight of a word for each occurrence in the title."""
_ALSO_STOP = frozenset(
    """again all also always another because become before after between both during each even ever every few first
    get gets given got however last less let like made make makes may might more most must need needs never new next
    no nor not now off often once one only onto other others out over own per rather same see shall since still take
    than though through thus ten two three four five six seven eight nine under until up
    upon use used uses using very via want way well yes yet und der die das
    ist nicht mit les des est une pas los las una por que para con""".split()
)
_DIGIT = re.compile(r"\d")
_BREAK = re.compile(r"[^\w\s'’-]|\n")


class Label(NamedTuple):
    """A suggested tag."""

    tag: str
    weight: float
    known: bool
    """Whether the namespace already uses it."""


def labels(
    title: str,
    content: str,
    *,
    known: Mapping[str, int] | None = None,
    rarity: Callable[[str], float] = lambda word: 1.0,
    without: Collection[str] = (),
    most: int = MOST,
) -> list[Label]:
    """Extract the best tags for a text, tags in use first, then by weight. Deterministic.

    `rarity` weighs a word by its rarity elsewhere; `without` are the tags the text already has.
    """
    counts, title_counts = Counter(_phrases(content[:MOST_READ])), Counter(_phrases(title))
    weights = _weights(counts, title_counts, rarity)
    had = {fold(tag) for tag in without}
    found = {fold(label.tag): label for label in _fresh(weights, counts, title_counts)}
    found |= {fold(label.tag): label for label in _known(title, content, weights, known or {})}
    ranked = sorted(
        (label for name, label in found.items() if name not in had),
        key=lambda one: (not one.known, -one.weight, one.tag),
    )
    return _distinct(ranked, without)[:most]


def _distinct(labels: list[Label], had: Collection[str]) -> list[Label]:
    """Drop new tags whose words are a subset or superset of a better or existing tag."""
    result: list[Label] = []
    for label in labels:
        if label.known or not any(_overlap(label.tag, tag) for tag in (*had, *(one.tag for one in result))):
            result.append(label)
    return result


def _overlap(one: str, other: str) -> bool:
    if may_lack_blanks(one):
        return one in other or other in one
    words, others = set(_parts(one)), set(_parts(other))
    return words < others or words > others


def _weights(counts: Counter[str], headed: Counter[str], rarity: Callable[[str], float]) -> dict[str, float]:
    """Weigh each word and phrase of the text and its title."""
    return {
        phrase: (counts[phrase] + IN_TITLE * headed[phrase]) * _seldom(phrase, rarity) * _length(phrase)
        for phrase in counts | headed
    }


def _seldom(phrase: str, rarity: Callable[[str], float]) -> float:
    words = phrase.split()
    return sum(rarity(word) for word in words) / len(words)


def _length(phrase: str) -> float:
    """Weigh phrases higher than single words."""
    return 1.5 if " " in phrase else 1.0


def _fresh(weights: Mapping[str, float], counts: Counter[str], headed: Counter[str]) -> Iterator[Label]:
    """Find phrases that repeat or occur in the title; if there are none, the rarest words."""
    often = [phrase for phrase in weights if counts[phrase] + 2 * headed[phrase] > 1]
    single = sorted((phrase for phrase in weights if " " not in phrase), key=lambda one: (-weights[one], one))
    for phrase in often or single[:RAREST]:
        yield Label(phrase.replace(" ", "-"), weights[phrase], False)


def _known(title: str, content: str, weights: Mapping[str, float], known: Mapping[str, int]) -> Iterator[Label]:
    """Match tags of the namespace whose words all occur in the text."""
    text = visible(f"{title}\n{content}").casefold()
    words = set(runs(text))
    for tag in known:
        parts = _parts(tag)
        content_parts = [part for part in parts if not _is_common(part)]
        if content_parts and all(part in words or (may_lack_blanks(part) and part in text) for part in parts):
            yield Label(tag, max(1.0, *(weights.get(part, 1.0) for part in parts)), True)


def _parts(tag: str) -> list[str]:
    return runs(tag.casefold())


def _phrases(text: str) -> Iterator[str]:
    """Yield words and pairs of adjacent words without common words; repeated runs in scripts without spaces."""
    clean = visible(text).casefold()
    if may_lack_blanks(clean):
        yield from _unspaced(clean)
        clean = _unspaced_run().sub("\n", clean)
    for stretch in _BREAK.split(clean):
        yield from _stretch(runs(stretch))


def _stretch(words: list[str]) -> Iterator[str]:
    may = [_is_label(word) for word in words]
    for at, word in enumerate(words):
        if may[at]:
            yield word
            if at + 1 < len(words) and may[at + 1] and words[at + 1] != word:
                yield f"{word} {words[at + 1]}"


def _is_label(word: str) -> bool:
    return len(word) >= LEAST_LETTERS and not _is_common(word) and _DIGIT.search(word) is None


def _is_common(word: str) -> bool:
    return word in STOP or word in _ALSO_STOP


def _unspaced(text: str) -> Iterator[str]:
    """Yield katakana names, short runs of Han, and repeated runs.

    In scripts without spaces, nothing else is reliably a word.
    """
    yield from _whole_word().findall(text)
    yield from (run for run in runs(text) if 2 < len(run) <= LONGEST_RUN and _is_name(run))
    counts = Counter(
        run[at : at + size]
        for run in _unspaced_run().findall(text[:MOST_UNSPACED])
        for size in range(2, LONGEST_RUN + 1)
        for at in range(len(run) - size + 1)
    )
    often = [part for part, count in counts.items() if count > 1 and not _hiragana().search(part)]
    for part in often:
        if not any(part != other and part in other and counts[other] == counts[part] for other in often):
            yield from [part] * counts[part]


def _is_name(run: str) -> bool:
    """Whether a short run of mixed scripts looks like a name: no hiragana, not only one script."""
    return (
        _unspaced_run().fullmatch(run) is not None and not _hiragana().search(run) and not _whole_word().fullmatch(run)
    )


@cache
def _unspaced_run() -> re.Pattern[str]:
    return re.compile(f"[{UNSEGMENTED}]+")


@cache
def _hiragana() -> re.Pattern[str]:
    return re.compile("[\u3041-\u309f]")


@cache
def _whole_word() -> re.Pattern[str]:
    """Match a run of katakana, or two to four Han characters not adjacent to other Han."""
    return re.compile("[\u30a1-\u30fa\u30fc]{3,12}|(?<![\u3400-\u9fff])[\u3400-\u9fff]{2,4}(?![\u3400-\u9fff])")
