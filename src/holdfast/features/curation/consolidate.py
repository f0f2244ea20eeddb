"""Merge several memories into one. The sources are archived and linked, never deleted."""

from collections.abc import Sequence
from typing import Any, get_args

from msgspec.structs import replace

from holdfast.features.graph import service as relate
from holdfast.features.llm.assist import How, told
from holdfast.features.memories import dedup as hygiene
from holdfast.features.memories import store as memories
from holdfast.features.memories.lifecycle import put_away
from holdfast.features.memories.store_memory import must_be_free, must_change
from holdfast.features.reflections.depth import must_fit
from holdfast.features.reflections.model import with_origin
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.memory import Memory, Scope, Tier
from holdfast.kernel.records.validate import Draft, admit


def consolidate(
    hold: Hold,
    ids: Sequence[str],
    title: str,
    summary: str | None,
    namespace: str | None,
    tier: Tier,
    how: How | None = None,
) -> tuple[Memory, list[Memory]]:
    """Merge memories into one, in one transaction; it may reuse the title of a source.

    `how` records how the summary was generated, if the caller did not write it.
    """
    with hold.writing() as write:
        sources = changeable(hold, write, ids)
        draft = _draft(hold, sources, title, summary, namespace, tier)
        if how is not None:
            draft = replace(draft, metadata={**_metadata(sources), **told(how)})
        return make_one(hold, write, sources, draft), sources


def make_one(hold: Hold, write: Transaction, sources: list[Memory], draft: Draft, agent: str | None = None) -> Memory:
    """Replace memories by one, for the caller or another agent, inside a transaction."""
    draft, _ = hygiene.without_secrets(write.session, draft)
    fresh = admit(
        draft,
        id=hold.new_id(),
        agent=agent or hold.caller.agent,
        origin=write.origin,
        now=write.now,
        lifetimes=hold.lifetimes,
    )
    hold.caller.must_reach(fresh.namespace)
    fresh = _as_deep(fresh, sources)
    must_fit(write.session, fresh)
    for source in sources:
        put_away(write, source, "consolidated", "consolidate")
    must_be_free(hold, write, fresh)
    write.add(MEMORY, fresh, "consolidate")
    for source in sources:
        relate.tie(hold, write, fresh.id, source.id, "derived_from")
    return fresh


def changeable(hold: Hold, write: Transaction, ids: Sequence[str]) -> list[Memory]:
    """Resolve the memories to merge. Raises unless they are distinct and the caller may change each."""
    sources = [memories.resolve(write.session, hold.caller, id, write.now) for id in ids]
    if len({source.id for source in sources}) < len(sources):
        raise Invalid("ids must not contain a memory twice", fields=["ids"])
    for source in sources:
        must_change(hold, write, source)
    return sources


def _draft(
    hold: Hold, sources: list[Memory], title: str, summary: str | None, namespace: str | None, tier: Tier
) -> Draft:
    """Build the draft: highest priority, lowest confidence and narrowest scope of the sources."""
    places = {source.namespace for source in sources}
    return Draft(
        title=title,
        content=summary if summary is not None else _joined(sources),
        namespace=namespace or (places.pop() if len(places) == 1 else hold.namespace),
        tier=tier,
        kind="summary",
        priority=max(source.priority for source in sources),
        confidence=min(source.confidence for source in sources),
        source="consolidation",
        scope=min((source.scope for source in sources), key=get_args(Scope).index),
        tags=tuple(sorted({tag for source in sources for tag in source.tags})),
        metadata=_metadata(sources),
    )


def _as_deep(fresh: Memory, sources: list[Memory]) -> Memory:
    """Set the reflection depth to the maximum of the sources."""
    depth = max(source.reflection_depth for source in sources)
    return with_origin(replace(fresh, reflection_depth=depth), depth) if depth else fresh


def _joined(sources: list[Memory]) -> str:
    """Join the contents, each under its title; used if there is no summary."""
    return "\n\n".join(f"{source.title}\n{source.content}" for source in sources)


def _metadata(sources: list[Memory]) -> dict[str, Any]:
    """Merge the metadata (later sources win) and add the provenance."""
    merged = {key: value for source in sources for key, value in source.metadata.items()}
    return {
        **merged,
        "derived_from": [source.id for source in sources],
        "consolidated_from_agents": sorted({source.agent for source in sources}),
    }
