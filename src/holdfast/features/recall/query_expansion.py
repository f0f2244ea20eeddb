"""Rules for query expansion: words and tags of the hits, aliases, other word forms."""

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
    """List terms related to a query, best first: aliases, then tags and words of the hits; if there are none, other
    forms of the query words. No term repeats a query word."""
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
    """List tags, and words in several of the best texts or in the best one; rare ones first."""
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
    """List other forms of the query words."""
    for word in runs(query):
        if word in STOP or not (word.isascii() and word.isalpha()) or len(word) <= LEAST_LETTERS:
            continue
        ending = next((one for one in ENDINGS if word.endswith(one) and len(word) - len(one) >= LEAST_LETTERS), "")
        bare = word.removesuffix(ending)
        yield from (form for form in (bare, f"{bare}s", f"{bare}ing") if form != word)


def _distinct(words: Sequence[str], query: str, stem: Callable[[str], str]) -> list[str]:
    """Drop repeated terms, whatever their spelling."""
    asked = set(runs(query))
    kept = {" ".join(runs(word)): word for word in reversed(words) if word.casefold() not in asked}
    return [word for word in dict.fromkeys(words) if kept.get(" ".join(runs(word))) == word]
