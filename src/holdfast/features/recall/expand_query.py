"""Expand a query with terms from the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from holdfast.features.curation.extract_summary import extract_content_words
from holdfast.features.graph.entities import find_entity
from holdfast.features.llm.assist import BY_RULES, MethodUsed, ask_or_fallback, rejected_answer
from holdfast.features.llm.client import Material, Task
from holdfast.features.memories import store as memories
from holdfast.features.memories.store import Filter, normalize_filter
from holdfast.features.recall import search_index
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid
from holdfast.kernel.storage.index_terms import stems
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.idf import word_weights
from holdfast.kernel.text.words import STOP, query_words, split_words

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


MAX_HITS_READ = 8
"""Number of best hits to read."""
MAX_NAMES = 8
"""Maximum query words tried as names."""
MAX_CHARACTERS = 4096


class ExpandedQuery(NamedTuple):
    terms: list[str]
    method: MethodUsed


class Terms(Struct, frozen=True):
    """Words and short phrases related to the query, best first."""

    terms: list[str]


def expand_query(ctx: Context, query: str, namespace: str | None = None, *, limit: int = MAX_TERMS) -> ExpandedQuery:
    """Suggest further search terms: from a language model, or else names, tags and words of the hits."""
    words = query_words(query)
    if not words:
        raise Invalid("query: it has no words to search for", fields=["query"])
    with ctx.reading() as session:
        found = _expand_by_rules(ctx, session, query, words, namespace, limit)
    return _expand_with_model(ctx, query, found, limit)


def _expand_by_rules(
    ctx: Context, session: Session, query: str, words: list[str], namespace: str | None, limit: int
) -> list[str]:
    which, now = normalize_filter(Filter(namespace=namespace)), ctx.now()
    hits = search_index.find_matches(
        session, ctx.caller, search_index.plan_query(session, words), which, now, limit=MAX_HITS_READ
    )
    read = memories.by_ids(session, ctx.caller, [hit.id for hit in hits], now)
    best = [read[hit.id] for hit in hits if hit.id in read]
    texts = [f"{memory.title}\n{memory.content[:MAX_CHARACTERS]}" for memory in best]
    return find_expansion_terms(
        query,
        texts,
        names=_find_aliases(ctx, session, query, words, which.namespace),
        tags=[tag for memory in best for tag in memory.tags],
        stem=lambda word: " ".join(stems(word)),
        rarity=word_weights(session, (word for text in texts for word in extract_content_words(text))),
        limit=limit,
    )


def _find_aliases(ctx: Context, session: Session, query: str, words: list[str], namespace: str | None) -> list[str]:
    """Find the aliases of entities that a query names."""
    found: list[str] = []
    for name in dict.fromkeys([query.strip()[:128], *words[:MAX_NAMES]]):
        try:
            entity = find_entity(ctx, session, name, namespace)
        except Invalid:
            continue
        found += entity.entity.aliases if entity else ()
    return list(dict.fromkeys(found))


def _expand_with_model(ctx: Context, query: str, rule_terms: list[str], limit: int) -> ExpandedQuery:
    if ctx.model is None:
        return ExpandedQuery(rule_terms, BY_RULES)
    task = Task(
        "expand",
        "The material is a search query. List five to eight words or short phrases that texts answering it would use "
        "and that it does not contain: synonyms, related terms, other spellings.",
        Terms,
        512,
    )
    answer, how = ask_or_fallback(ctx, task, [Material("question", query), Material("by rules", "\n".join(rule_terms))])
    if answer is None:
        return ExpandedQuery(rule_terms, how)
    had = set(split_words(query))
    clean = [" ".join(term.split()) for term in answer.terms if split_words(term) and not set(split_words(term)) <= had]
    terms = [term for term in dict.fromkeys(clean) if len(term) <= 128][:limit]
    return (
        ExpandedQuery(terms, how)
        if terms
        else ExpandedQuery(rule_terms, rejected_answer("the model returned no new terms"))
    )
