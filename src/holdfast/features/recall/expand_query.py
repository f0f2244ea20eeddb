"""Expand a query with terms from the store."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from holdfast.features.curation.extract_summary import extract_content_words
from holdfast.features.graph.entities import find_entity
from holdfast.features.llm.assist import BY_RULES, MethodUsed, ask_or_fallback, rejected_answer
from holdfast.features.llm.client import Material, Task
from holdfast.features.memories import store as memories
from holdfast.features.memories.find_memories import normalize_filter
from holdfast.features.memories.store import Filter
from holdfast.features.recall import search_index
from holdfast.features.recall.expansion_rules import MAX_TERMS, find_expansion_terms
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid
from holdfast.kernel.storage.index_terms import stems
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.idf import word_weights
from holdfast.kernel.text.words import query_words, split_words

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
