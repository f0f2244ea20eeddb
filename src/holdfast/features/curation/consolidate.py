"""Find stored duplicates of a text, and merge memories. Merged sources are archived and linked, never deleted."""

from collections.abc import Sequence
from typing import Any, NamedTuple, get_args

from msgspec.structs import replace

from holdfast.features.graph import service as graph
from holdfast.features.graph.depth import check_depth, with_origin
from holdfast.features.llm.assist import MethodUsed, method_metadata
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories import store_memory
from holdfast.features.memories.lifecycle import archive_memory
from holdfast.features.memories.read_memories import EVERYTHING, Filter, normalize_filter, require_write_access
from holdfast.features.memories.store_memory import require_free_title
from holdfast.features.recall import search_index
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal.kinds import MEMORY, content_hash, load_memory
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Memory, Scope, Tier
from holdfast.kernel.records.validate import Draft, memory_from_draft
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.similarity import letter_similarity
from holdfast.kernel.text.words import query_words

MAX_CANDIDATES = 50


class Nearest(NamedTuple):
    memory: Memory
    similarity: float


def find_nearest(
    ctx: Context, session: Session, title: str, content: str, namespace: str | None = None
) -> tuple[Nearest | None, int]:
    """Find the live, visible memory most similar to a text; also return how many were compared."""
    title, content = validate.title(title), validate.content(content)
    which = normalize_filter(Filter(namespace=namespace))
    same = _find_identical(ctx, session, content_hash(title, content), which.namespace)
    if same:
        return Nearest(min(same, key=lambda memory: memory.id), 1.0), len(same)
    text = f"{title}\n{content}"
    words, now = search_index.plan_query(session, query_words(text)), ctx.now()
    hits = search_index.find_matches(session, ctx.caller, words, which, now, limit=MAX_CANDIDATES)
    read = memories.by_ids(session, ctx.caller, [hit.id for hit in hits], now).values()
    found = [Nearest(one, letter_similarity(text, f"{one.title}\n{one.content}")) for one in read]
    return max(found, key=lambda one: (one.similarity, one.memory.id), default=None), len(found)


def _find_identical(ctx: Context, session: Session, hash: str, namespace: str | None) -> list[Memory]:
    """Query by hash only and filter the namespace here: otherwise the planner may scan the namespace index instead."""
    parts, params = memories.filter_clauses(ctx.caller, EVERYTHING, ctx.now())
    rows = session.select(("memory_select", *parts, "memory.with_hash"), params | {"content_hash": hash})
    return [memory for memory in map(load_memory, rows) if namespace in (None, memory.namespace)]


def consolidate(
    ctx: Context,
    ids: Sequence[str],
    title: str,
    summary: str | None,
    namespace: str | None,
    tier: Tier,
    how: MethodUsed | None = None,
) -> tuple[Memory, list[Memory]]:
    """Merge memories into one, in one transaction; it may reuse the title of a source.

    `how` records how the summary was generated, if the caller did not write it.
    """
    with ctx.transaction() as write:
        sources = resolve_changeable(ctx, write, ids)
        draft = _build_draft(ctx, sources, title, summary, namespace, tier)
        if how is not None:
            draft = replace(draft, metadata={**_merge_metadata(sources), **method_metadata(how)})
        return replace_sources(ctx, write, sources, draft), sources


def replace_sources(
    ctx: Context, write: Transaction, sources: list[Memory], draft: Draft, agent: str | None = None
) -> Memory:
    """Replace memories by one, for the caller or another agent, inside a transaction."""
    draft, _ = store_memory.filter_draft_secrets(write.session, draft)
    fresh = memory_from_draft(
        draft,
        id=ctx.new_id(),
        agent=agent or ctx.caller.agent,
        origin=write.origin,
        now=write.now,
        lifetimes=ctx.lifetimes,
    )
    ctx.caller.require_access(fresh.namespace)
    fresh = _raise_to_sources(fresh, sources)
    check_depth(write.session, fresh)
    for source in sources:
        archive_memory(write, source, "consolidated", "consolidate")
    require_free_title(ctx, write, fresh)
    write.add(MEMORY, fresh, "consolidate")
    for source in sources:
        graph.add_link(ctx, write, fresh.id, source.id, "derived_from")
    return fresh


def resolve_changeable(ctx: Context, write: Transaction, ids: Sequence[str]) -> list[Memory]:
    """Resolve the memories to merge. Raises unless they are distinct and the caller may change each."""
    sources = [memories.resolve(write.session, ctx.caller, id, write.now) for id in ids]
    if len({source.id for source in sources}) < len(sources):
        raise Invalid("ids must not contain a memory twice", fields=["ids"])
    for source in sources:
        require_write_access(ctx, write, source)
    return sources


def _build_draft(
    ctx: Context, sources: list[Memory], title: str, summary: str | None, namespace: str | None, tier: Tier
) -> Draft:
    """Build the draft: highest priority, lowest confidence and narrowest scope of the sources."""
    places = {source.namespace for source in sources}
    return Draft(
        title=title,
        content=summary if summary is not None else _join_contents(sources),
        namespace=namespace or (places.pop() if len(places) == 1 else ctx.namespace),
        tier=tier,
        kind="summary",
        priority=max(source.priority for source in sources),
        confidence=min(source.confidence for source in sources),
        source="consolidation",
        scope=min((source.scope for source in sources), key=get_args(Scope).index),
        tags=tuple(sorted({tag for source in sources for tag in source.tags})),
        metadata=_merge_metadata(sources),
    )


def _raise_to_sources(fresh: Memory, sources: list[Memory]) -> Memory:
    """Set the reflection depth to the maximum of the sources."""
    depth = max(source.reflection_depth for source in sources)
    return with_origin(replace(fresh, reflection_depth=depth), depth) if depth else fresh


def _join_contents(sources: list[Memory]) -> str:
    """Join the contents, each under its title; used if there is no summary."""
    return "\n\n".join(f"{source.title}\n{source.content}" for source in sources)


def _merge_metadata(sources: list[Memory]) -> dict[str, Any]:
    """Merge the metadata (later sources win) and add the provenance."""
    merged = {key: value for source in sources for key, value in source.metadata.items()}
    return {
        **merged,
        "derived_from": [source.id for source in sources],
        "consolidated_from_agents": sorted({source.agent for source in sources}),
    }
