"""Rules for query expansion: words and tags of the hits, aliases, other word forms."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

from holdfast.features.curation.extract_summary import extract_content_words
from holdfast.kernel.text.words import STOP, split_words

MAX_TERMS = 8
MIN_LETTERS = 3
ENDINGS = ("ing", "ed", "es", "s")


def find_expansion_terms(
    query: str,
    texts: Sequence[str],
    *,
    names: Sequence[str] = (),
    tags: Sequence[str] = (),
    stem: Callable[[str], str],
    rarity: Callable[[str], float] = lambda word: 1.0,
    limit: int = MAX_TERMS,
) -> list[str]:
    """List terms related to a query, best first: aliases, then tags and words of the hits; if there are none, other
    forms of the query words. No term repeats a query word."""
    query_stems = {stem(word) for word in split_words(query)}
    found = [*_drop_known_names(names, query_stems, stem), *_find_shared_terms(texts, tags, query_stems, stem, rarity)]
    return _drop_repeats([*found, *(_list_word_forms(query) if not found else ())], query, stem)[:limit]


def _drop_known_names(names: Sequence[str], asked: Collection[str], stem: Callable[[str], str]) -> list[str]:
    return [name for name in names if not {stem(word) for word in split_words(name)} <= set(asked)]


def _find_shared_terms(
    texts: Sequence[str],
    tags: Sequence[str],
    asked: Collection[str],
    stem: Callable[[str], str],
    rarity: Callable[[str], float],
) -> list[str]:
    """List tags, and words in several of the best texts or in the best one; rare ones first."""
    labels = Counter(tag for tag in tags if not {stem(word) for word in split_words(tag)} <= set(asked))
    counts: Counter[str] = Counter()
    for place, text in enumerate(texts):
        counts.update(
            {
                word: 1 + (place == 0)
                for word in dict.fromkeys(extract_content_words(text))
                if _is_informative(word, asked, stem)
            }
        )
    weights = {word: count * rarity(word) for word, count in counts.items() if count > 1}
    weights |= {tag: count * 2.0 for tag, count in labels.items()}
    return sorted(weights, key=lambda word: (-weights[word], word))


def _is_informative(word: str, asked: Collection[str], stem: Callable[[str], str]) -> bool:
    short = len(word) < MIN_LETTERS and word.isascii()
    return not short and not word.isdigit() and stem(word) not in asked


def _list_word_forms(query: str) -> Iterator[str]:
    """List other forms of the query words."""
    for word in split_words(query):
        if word in STOP or not (word.isascii() and word.isalpha()) or len(word) <= MIN_LETTERS:
            continue
        ending = next((one for one in ENDINGS if word.endswith(one) and len(word) - len(one) >= MIN_LETTERS), "")
        bare = word.removesuffix(ending)
        yield from (form for form in (bare, f"{bare}s", f"{bare}ing") if form != word)


def _drop_repeats(words: Sequence[str], query: str, stem: Callable[[str], str]) -> list[str]:
    """Drop repeated terms, whatever their spelling."""
    query_words = set(split_words(query))
    by_words = {" ".join(split_words(word)): word for word in reversed(words) if word.casefold() not in query_words}
    return [word for word in dict.fromkeys(words) if by_words.get(" ".join(split_words(word))) == word]
