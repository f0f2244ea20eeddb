"""Expand a query with terms from the store."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from holdfast.features.curation.summary import meant
from holdfast.features.graph.entities import named
from holdfast.features.llm.assist import BY_RULES, How, aid, unfit
from holdfast.features.llm.client import Material, Task
from holdfast.features.memories import store as memories
from holdfast.features.memories.find_memories import normal
from holdfast.features.memories.store import Filter
from holdfast.features.recall import fts_query as asking
from holdfast.features.recall.query_expansion import MOST, expanded
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Invalid
from holdfast.kernel.storage.fts_tokens import stems
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.idf import rarity
from holdfast.kernel.text.words import asked, runs

BEST = 8
"""Number of best hits to read."""
MOST_NAMED = 8
"""Maximum query words tried as names."""
MOST_CHARACTERS = 4096


class Expanded(NamedTuple):
    terms: list[str]
    how: How


class Terms(Struct, frozen=True):
    """Words and short phrases related to the query, best first."""

    terms: list[str]


def expand(hold: Hold, query: str, namespace: str | None = None, *, most: int = MOST) -> Expanded:
    """Suggest further search terms: from a language model, or else names, tags and words of the hits."""
    words = asked(query)
    if not words:
        raise Invalid("query: it has no words to search for", fields=["query"])
    with hold.reading() as session:
        found = _by_rules(hold, session, query, words, namespace, most)
    return _by_model(hold, query, found, most)


def _by_rules(
    hold: Hold, session: Session, query: str, words: list[str], namespace: str | None, most: int
) -> list[str]:
    which, now = normal(Filter(namespace=namespace)), hold.now()
    hits = asking.candidates(session, hold.caller, asking.question(session, words), which, now, limit=BEST)
    read = memories.by_ids(session, hold.caller, [hit.id for hit in hits], now)
    best = [read[hit.id] for hit in hits if hit.id in read]
    texts = [f"{memory.title}\n{memory.content[:MOST_CHARACTERS]}" for memory in best]
    return expanded(
        query,
        texts,
        names=_names(hold, session, query, words, which.namespace),
        tags=[tag for memory in best for tag in memory.tags],
        stem=lambda word: " ".join(stems(word)),
        rarity=rarity(session, (word for text in texts for word in meant(text))),
        most=most,
    )


def _names(hold: Hold, session: Session, query: str, words: list[str], namespace: str | None) -> list[str]:
    """Find the aliases of entities that a query names."""
    found: list[str] = []
    for name in dict.fromkeys([query.strip()[:128], *words[:MOST_NAMED]]):
        try:
            entity = named(hold, session, name, namespace)
        except Invalid:
            continue
        found += entity.entity.aliases if entity else ()
    return list(dict.fromkeys(found))


def _by_model(hold: Hold, query: str, found: list[str], most: int) -> Expanded:
    if hold.model is None:
        return Expanded(found, BY_RULES)
    task = Task(
        "expand",
        "The material is a search query. List five to eight words or short phrases that texts answering it would use "
        "and that it does not contain: synonyms, related terms, other spellings.",
        Terms,
        512,
    )
    answer, how = aid(hold, task, [Material("question", query), Material("by rules", "\n".join(found))])
    if answer is None:
        return Expanded(found, how)
    had = set(runs(query))
    clean = [" ".join(term.split()) for term in answer.terms if runs(term) and not set(runs(term)) <= had]
    terms = [term for term in dict.fromkeys(clean) if len(term) <= 128][:most]
    return Expanded(terms, how) if terms else Expanded(found, unfit("the model returned no new terms"))
