"""More words for a question: what the memories that it finds speak of, what they are labelled, and other forms."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

from holdfast.features.curation.summary import meant
from holdfast.kernel.text.words import STOP, runs

MOST = 8
LEAST_LETTERS = 3
ENDINGS = ("ing", "ed", "es", "s")


def expanded(
    query: str,
    texts: Sequence[str],
    *,
    names: Sequence[str] = (),
    tags: Sequence[str] = (),
    stem: Callable[[str], str],
    rarity: Callable[[str], float] = lambda word: 1.0,
    most: int = MOST,
) -> list[str]:
    """Words that go with those of a question, the best first: other names of what it names, labels and words of what
    it finds, and where that is nothing, other forms of its own words. None of them only repeats one that was asked."""
    asked = {stem(word) for word in runs(query)}
    found = [*_new(names, asked, stem), *_shared(texts, tags, asked, stem, rarity)]
    return _distinct([*found, *(_forms(query) if not found else ())], query, stem)[:most]


def _new(names: Sequence[str], asked: Collection[str], stem: Callable[[str], str]) -> list[str]:
    return [name for name in names if not {stem(word) for word in runs(name)} <= set(asked)]


def _shared(
    texts: Sequence[str],
    tags: Sequence[str],
    asked: Collection[str],
    stem: Callable[[str], str],
    rarity: Callable[[str], float],
) -> list[str]:
    """Labels and words that stand in several of the best texts, or in the very best; rare ones first."""
    labels = Counter(tag for tag in tags if not {stem(word) for word in runs(tag)} <= set(asked))
    counts: Counter[str] = Counter()
    for place, text in enumerate(texts):
        counts.update({word: 1 + (place == 0) for word in dict.fromkeys(meant(text)) if _tells(word, asked, stem)})
    weights = {word: count * rarity(word) for word, count in counts.items() if count > 1}
    weights |= {tag: count * 2.0 for tag, count in labels.items()}
    return sorted(weights, key=lambda word: (-weights[word], word))


def _tells(word: str, asked: Collection[str], stem: Callable[[str], str]) -> bool:
    short = len(word) < LEAST_LETTERS and word.isascii()
    return not short and not word.isdigit() and stem(word) not in asked


def _forms(query: str) -> Iterator[str]:
    """Other forms of the words that were asked."""
    for word in runs(query):
        if word in STOP or not (word.isascii() and word.isalpha()) or len(word) <= LEAST_LETTERS:
            continue
        ending = next((one for one in ENDINGS if word.endswith(one) and len(word) - len(one) >= LEAST_LETTERS), "")
        bare = word.removesuffix(ending)
        yield from (form for form in (bare, f"{bare}s", f"{bare}ing") if form != word)


def _distinct(words: Sequence[str], query: str, stem: Callable[[str], str]) -> list[str]:
    """Each once, however it is written."""
    asked = set(runs(query))
    kept = {" ".join(runs(word)): word for word in reversed(words) if word.casefold() not in asked}
    return [word for word in dict.fromkeys(words) if kept.get(" ".join(runs(word))) == word]
