"""Read memories: one by id, a page, or a keyword search."""

from typing import Any

from msgspec.structs import replace

from holdfast.features.memories import store as memories
from holdfast.features.memories.store import Filter
from holdfast.features.memories.views import CONFIDENCE_TIERS
from holdfast.features.recall import search_index
from holdfast.features.sync import conflict_store
from holdfast.features.sync.conflict_store import LostContent
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage import index_terms
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.words import MAX_TERMS, emoji_words, split_words
from holdfast.kernel.timestamps import parse_time

_NAMESPACE_FIELDS = ("namespace", "under", "as_agent")


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


def normalize_filter(which: Filter) -> Filter:
    """Normalize the namespaces of a filter; raise if its time range is reversed."""
    if which.since is not None and which.until is not None and which.until < which.since:
        raise Invalid("until: must not be before since", fields=["until"])
    given = {name: value for name in _NAMESPACE_FIELDS if (value := getattr(which, name)) is not None}
    if given:
        which = replace(which, **{name: validate.namespace(value, name) for name, value in given.items()})
    return replace(which, namespaces=tuple(map(validate.namespace, which.namespaces))) if which.namespaces else which


def build_filter(request: Any, **more: Any) -> Filter:
    """Build the filter from a request's fields."""
    given = {name: value for name in request.__struct_fields__ if (value := getattr(request, name)) not in (None, [])}
    tier = given.get("confidence_tier")
    return Filter(
        namespace=None if more else given.get("namespace"),
        tier=given.get("tier"),
        agent=given.get("agent_id"),
        min_priority=given.get("min_priority"),
        since=parse_time(given.get("since"), "since"),
        until=parse_time(given.get("until"), "until"),
        tags=tuple(given.get("tags", ())),
        kinds=tuple(given.get("kinds", ())),
        has_citations=given.get("has_citations", False),
        source_uri=given.get("source_uri"),
        source_uri_prefix=given.get("source_uri_prefix"),
        confidence=CONFIDENCE_TIERS[tier] if tier else None,
        as_agent=given.get("as_agent"),
        archived=given.get("include_archived", False),
        **more,
    )
