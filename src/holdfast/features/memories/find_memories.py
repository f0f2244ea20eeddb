"""Read memories: one by id, a page, or a keyword search."""

from holdfast.features.memories import store as memories
from holdfast.features.memories.store import Filter, normalize_filter
from holdfast.features.recall import search_index
from holdfast.features.sync import conflict_store
from holdfast.features.sync.conflict_store import LostContent
from holdfast.kernel.context import Context
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage import index_terms
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.words import MAX_TERMS, emoji_words, split_words


def get(ctx: Context, session: Session, id: str) -> Memory:
    """Read one live or archived memory by id."""
    return memories.resolve(session, ctx.caller, id, ctx.now(), view="kept")


def browse(ctx: Context, session: Session, which: Filter, *, limit: int, skip: int) -> list[Memory]:
    """Read a page of memories, most important first."""
    return memories.select(session, ctx.caller, normalize_filter(which), ctx.now(), limit=limit, skip=skip)


def search(ctx: Context, session: Session, query: str | None, which: Filter, *, limit: int) -> list[Memory]:
    """Find memories that contain all words of a query, best first; without a query, those of a source."""
    if query is None:
        return memories.select(
            session, ctx.caller, normalize_filter(which), ctx.now(), order="by_creation", limit=limit
        )
    words = list(dict.fromkeys((*split_words(query), *emoji_words(query))))[:MAX_TERMS]
    if not words:
        return []
    which = normalize_filter(which)
    hits = memories.search_words(session, ctx.caller, words, which, ctx.now(), limit=limit, match_all=True)
    found = [hit.id for hit in hits]
    if len(found) < limit:
        stems = {stem for word in words for stem in index_terms.stems(word)}
        lost = [
            one.memory for one in list_lost_contents(ctx, session) if stems <= set(index_terms.index_tokens(one.text))
        ]
        allowed = (
            {row.id for row in search_index.read_rows(session, ctx.caller, lost, which, ctx.now())} if lost else set()
        )
        found = list(dict.fromkeys([*found, *(id for id in lost if id in allowed)]))[:limit]
    view: memories.View = "kept" if which.archived else "live"
    read = memories.by_ids(session, ctx.caller, found, ctx.now(), view)
    return [read[id] for id in found if id in read]


def list_lost_contents(ctx: Context, session: Session) -> list["LostContent"]:
    """Read the losing contents of merge conflicts: their words find the memory, too."""
    if session.row("conflict_any") is None:
        return []
    return conflict_store.list_lost_contents(session, ctx.caller)
