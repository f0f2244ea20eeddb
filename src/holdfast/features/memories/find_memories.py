"""Read memories: one by id, a page, or a keyword search."""

from typing import NamedTuple

from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import Filter, normalize_filter
from holdfast.kernel.context import Context
from holdfast.kernel.journal.title_groups import read_members
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage import index_terms
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.words import MAX_TERMS, emoji_words, split_words
from holdfast.kernel.timestamps import Stamp

MAX_SEARCHED = 100
"""Maximum number of lost contents that are searched."""


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
        allowed = memories.filter_ids(session, ctx.caller, lost, which, ctx.now()) if lost else set()
        found = list(dict.fromkeys([*found, *(id for id in lost if id in allowed)]))[:limit]
    view: memories.View = "kept" if which.archived else "live"
    read = memories.by_ids(session, ctx.caller, found, ctx.now(), view)
    return [read[id] for id in found if id in read]


class LostContent(NamedTuple):
    """A content that lost, and the memory shown in its place."""

    memory: str
    text: str


def list_lost_contents(ctx: Context, session: Session) -> list[LostContent]:
    """Read the newest losing contents of merge conflicts: their words find the memory, too."""
    if session.row("conflict_any") is None:
        return []
    parts, params = memories.visibility_clauses(ctx.caller)
    query = ("conflict_select", *parts, "conflict_select.contents", "conflict_select.page")
    lost = [
        (record, Stamp(at, origin))
        for _, _, record, _, _, at, origin, *_ in session.select(query, params | {"limit": MAX_SEARCHED, "skip": 0})
    ]
    ids = sorted({record for record, _ in lost})
    values = (
        {member.own_record.id: member.all_states["content"].values for member in read_members(session, ids)}
        if ids
        else {}
    )
    representatives: dict[str, str] = dict(session.rows("title_visible_as", ids=ids)) if ids else {}
    texts = [(representatives.get(record), values[record].get(stamp)) for record, stamp in lost]
    return [LostContent(memory, text) for memory, text in texts if memory and isinstance(text, str)]
