"""Steps of the curator for one memory: merge duplicates, propose contradictions and tags, adjust priority, persona."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict, replace

from holdfast.features.curation import contradictions, personas, suggest_tags
from holdfast.features.curation import store as curation
from holdfast.features.curation.consolidate import replace_sources, resolve_changeable
from holdfast.features.curation.rules import MAX_MEMBERS, find_longest_lifetime, merge_texts, suggest_priority
from holdfast.features.curation.run import CuratorRun, Page, SkipMemory, Step, hash_memory
from holdfast.features.graph import read_links as links
from holdfast.features.graph.service import add_link
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import Filter
from holdfast.features.recall import search_index
from holdfast.kernel.context import Context
from holdfast.kernel.journal.kinds import MEMORY, content_hash, search_columns
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate
from holdfast.kernel.records.link import Relation
from holdfast.kernel.records.memory import Citation, Memory
from holdfast.kernel.records.validate import Draft
from holdfast.kernel.storage.index_terms import find_matches, memory_hashes
from holdfast.kernel.text.similarity import Similarity, compare_titled, jaccard
from holdfast.kernel.text.words import query_words, split_words

MERGEABLE_KINDS = (
    "observation",
    "concept",
    "claim",
    "event",
    "decision",
    "fact",
    "lesson",
    "limitation",
    "summary",
    "relation",
)
"""Kinds that may be merged. Messages, entities and reflections depend on their position or links."""
IDENTICAL_FIELDS = ("namespace", "agent", "scope", "kind", "category", "speaker", "valid_from", "valid_until", "thread")
"""Fields that must be equal for a merge."""
MAX_QUERY_WORDS = 10
MAX_CANDIDATES = 20
MIN_SHARED_WORDS = 0.4
"""Minimum word overlap for a close comparison of two texts."""
MIN_TAGS = 2
MIN_TEXT_LENGTH = 50
"""Minimum length of a text for tag proposals."""
CARRIED_RELATIONS: tuple[Relation, ...] = ("related_to", "contradicts")
MAX_LINKS = 1000


def perform_step(run: CuratorRun, step: Step, memory: Memory, page: Page) -> None:
    """Run one step on one memory. Raises SkipMemory with a reason to report."""
    match step:
        case "duplicates":
            _merge_duplicates(run, memory)
        case "contradictions":
            _propose_contradictions(run, memory)
        case "tags":
            _propose_tags(run, memory)
        case "priorities":
            _adjust_priority(run, memory, page)
        case "personas":
            _refresh_persona(run, memory)


def _list_similar(run: CuratorRun, memory: Memory) -> list[tuple[Memory, Similarity]]:
    """List similar memories of the namespace, most similar first."""
    if run.similar_cache is None or run.similar_cache[0] is not memory:
        run.similar_cache = (memory, _compare_candidates(run, memory))
    return [(other, likeness) for other, likeness in run.similar_cache[1] if other.id not in run.archived_ids]


def _compare_candidates(run: CuratorRun, memory: Memory) -> list[tuple[Memory, Similarity]]:
    """Compare a memory with its candidates, the later of each pair against the earlier."""
    words = frozenset(split_words(memory.content))
    near = [
        other
        for other in _find_candidates(run, memory)
        if jaccard(words, frozenset(split_words(other.content))) >= MIN_SHARED_WORDS
    ]
    pairs = [(other, _compare_in_order(memory, other)) for other in near]
    alike = [pair for pair in pairs if pair[1].relation != "other"]
    return sorted(alike, key=lambda pair: (-pair[1].score, pair[0].id))


def _find_candidates(run: CuratorRun, memory: Memory) -> list[Memory]:
    """Find candidates in the namespace by MinHash bands and by the longest words."""
    which, now = Filter(namespace=memory.namespace), run.ctx.now()
    telling = sorted(query_words(memory.content), key=lambda word: (-len(word), word))[:MAX_QUERY_WORDS]
    with run.ctx.reading() as session:
        found = find_matches(session, memory_hashes(memory, search_columns(memory)["index_terms"])).all
        if telling:
            words = search_index.plan_query(session, telling)
            hits = search_index.find_matches(session, run.ctx.caller, words, which, now, limit=MAX_CANDIDATES)
            found += [hit.id for hit in hits]
        ids = [id for id in dict.fromkeys(found) if id != memory.id]
        read = memories.by_ids(session, run.ctx.caller, ids, now) if ids else {}
    return [other for other in read.values() if other.namespace == memory.namespace]


def _compare_in_order(one: Memory, other: Memory) -> Similarity:
    earlier, later = sorted((one, other), key=lambda memory: (memory.created_at, memory.id))
    return compare_titled(earlier.title, earlier.content, later.title, later.content)


def _merge_duplicates(run: CuratorRun, memory: Memory) -> None:
    """Merge a memory with its duplicates; propose it if other records refer to them.

    Duplicates without references are merged first, so that a single proposal remains.
    """
    if memory.kind not in MERGEABLE_KINDS or memory.thread is not None:
        return
    members = _find_members(run, memory)
    if len(members) < 2:
        return
    with run.ctx.reading() as session:
        referrers = curation.find_referrers(session, [one.id for one in members], run.ctx.now())
    members = [one for one in members if not referrers.get(one.id, set()) & {"granted", "standard", "superseded"}]
    if memory not in members:
        raise SkipMemory("it is granted, a standard or superseded")
    free = [one for one in members if one.id not in referrers]
    if memory in free and len(free) > 1:
        _merge_members(run, free)
    elif len(members) > 1 and (memory in free or not free):
        _propose_merge(run, *members[:2])


def _find_members(run: CuratorRun, memory: Memory) -> list[Memory]:
    """Find the group of near-duplicates that may all be merged with each other."""
    members = [memory]
    for other, likeness in _list_similar(run, memory):
        if len(members) == MAX_MEMBERS:
            break
        if likeness.relation in ("same", "near") and _can_join(run, members, other):
            members.append(other)
    return members


def _can_join(run: CuratorRun, chosen: Sequence[Memory], other: Memory) -> bool:
    if any(getattr(chosen[0], name) != getattr(other, name) for name in IDENTICAL_FIELDS):
        return False
    if other.scope == "private" and other.agent != run.ctx.caller.agent:
        return False
    if any(_compare_in_order(one, other).relation not in ("same", "near") for one in chosen[1:]):
        return False
    with run.ctx.reading() as session:
        return not curation.get_proposal_statuses(session, [not_duplicates_id(one, other) for one in chosen])


def not_duplicates_id(one: Memory, other: Memory) -> str:
    """Return the id of the record that two memories, in their current versions, are not duplicates."""
    return curation.derive_proposal_id("duplicate", build_proposal_key(one, other))


def build_proposal_key(*several: Memory) -> str:
    """Build the key of a proposal: it changes with the text, so a decision holds until a memory changes."""
    return " ".join(sorted(f"{one.id} {content_hash(one.title, one.content)}" for one in several))


def _propose_merge(run: CuratorRun, one: Memory, other: Memory) -> None:
    what = f"merge {one.title!r} and {other.title!r}: other memories depend on them"
    run.propose("duplicates", "duplicate", one.id, other.id, build_proposal_key(one, other), {}, what)


def _merge_members(run: CuratorRun, members: list[Memory]) -> None:
    with run.open_change("duplicates", members[0].id) as write:
        sources = resolve_changeable(run.ctx, write, [one.id for one in members])
        if any(now.version != then.version for now, then in zip(sources, members, strict=True)):
            raise SkipMemory("changed meanwhile")
        fresh = merge_memories(run.ctx, write, sources)
        _carry_not_duplicates(run, write, fresh, sources)
        if run.options.apply:
            run.record_marks(write, "duplicates", {one.id: hash_memory(one) for one in sources})
    run.archived_ids.update(one.id for one in members)
    titles = ", ".join(repr(one.title) for one in members)
    run.created_ids.add(fresh.id)
    run.record_change("duplicates", (fresh.id, *(one.id for one in members)), f"merged {titles} into {fresh.title!r}")


def _carry_not_duplicates(run: CuratorRun, write: Transaction, fresh: Memory, sources: Sequence[Memory]) -> None:
    """Carry over to the merged memory what its sources must not be merged with."""
    for id in curation.list_not_duplicates(write.session, [source.id for source in sources]):
        other = write.get(MEMORY, id)
        if other is not None and other.state == "live":
            mark_not_duplicates(run.ctx, write, run.id, fresh, other)


def mark_not_duplicates(ctx: Context, write: Transaction, run: str, one: Memory, other: Memory) -> None:
    """Record that two memories must not be merged automatically while their texts are unchanged."""
    offer = curation.CurationProposal(
        id=not_duplicates_id(one, other),
        run=run,
        step="duplicate",
        memory=one.id,
        other=other.id,
        body={},
        agent=ctx.caller.agent,
        proposed_at=write.now,
        status="dismissed",
    )
    curation.PROPOSALS.add_missing(write.session, offer)


def merge_memories(ctx: Context, write: Transaction, sources: list[Memory]) -> Memory:
    """Merge near-duplicates into one memory that keeps all their content, tags, citations and links."""
    content = merge_texts([source.content for source in sources])
    if len(content.encode()) > validate.MAX_BYTES["content"]:
        raise SkipMemory("together they are too long")
    first = max(sources, key=lambda source: (len(source.content), source.updated_at, source.id))
    tier, expires_at = find_longest_lifetime(sources)
    uris = {source.source_uri for source in sources}
    draft = Draft(
        title=first.title,
        content=content,
        namespace=first.namespace,
        tier=tier,
        kind=first.kind,
        category=first.category,
        priority=max(source.priority for source in sources),
        confidence=min(source.confidence for source in sources),
        source="consolidation",
        scope=first.scope,
        tags=tuple(dict.fromkeys(tag for source in sources for tag in source.tags))[: validate.MAX_TAGS],
        metadata=_merge_metadata(sources),
        citations=_merge_citations(sources),
        source_uri=uris.pop() if len(uris) == 1 else None,
        valid_from=first.valid_from,
        valid_until=first.valid_until,
        speaker=first.speaker,
        occurred_at=first.occurred_at,
        thread=None,
        place=None,
        expires_at=expires_at,
    )
    fresh = replace_sources(ctx, write, sources, draft, agent=first.agent)
    _carry_links(ctx, write, fresh, sources)
    return fresh


def _merge_metadata(sources: list[Memory]) -> dict[str, Any]:
    merged = {key: value for source in sources for key, value in source.metadata.items()}
    return {**merged, "derived_from": [source.id for source in sources], "method": "heuristic"}


def _merge_citations(sources: list[Memory]) -> tuple[Citation, ...]:
    each = [citation for source in sources for citation in source.citations]
    distinct = [one for number, one in enumerate(each) if one not in each[:number]]
    return tuple(distinct[: validate.MAX_CITATIONS])


def _carry_links(ctx: Context, write: Transaction, fresh: Memory, sources: list[Memory]) -> None:
    """Carry over `related_to` and `contradicts` links to the merged memory."""
    old = {source.id for source in sources}
    which = links.LinkFilter(relations=CARRIED_RELATIONS)
    for source in sources:
        for edge in links.list_at(write.session, ctx.caller, source.id, which, write.now, limit=MAX_LINKS):
            link = edge.link
            if {link.source, link.target} <= old:
                continue
            if link.source == source.id:
                add_link(ctx, write, fresh.id, link.target, link.relation)
            elif memories.can_write(write.session, ctx.caller, link.source):
                add_link(ctx, write, link.source, fresh.id, link.relation)


def _propose_contradictions(run: CuratorRun, memory: Memory) -> None:
    """Propose `contradicts` and `supersedes` links to similar memories."""
    if memory.kind in ("conversation", "persona", "entity"):
        return
    for other, likeness in _list_similar(run, memory):
        if likeness.relation in ("same", "near") or _is_linked(run, memory, other):
            continue
        earlier, later = sorted((memory, other), key=lambda one: (one.created_at, one.id))
        found = contradictions.compare_memories(run.ctx, earlier, later)
        evidence = [asdict(one) for one in found.evidence]
        key = build_proposal_key(memory, other)
        body = {"evidence": evidence, "method": found.method, "model": found.model or None}
        if evidence:
            what = f"{memory.title!r} contradicts {other.title!r}: {found.evidence[0].difference}"
            _propose_relation(run, "contradiction", memory, other, key, body, what)
        elif likeness.relation == "update":
            what = f"{later.title!r} says all of {earlier.title!r} and more"
            _propose_relation(run, "update", later, earlier, key, body, what)


def _propose_relation(
    run: CuratorRun, kind: str, one: Memory, other: Memory, key: str, body: dict[str, Any], what: str
) -> None:
    try:
        run.propose("contradictions", kind, one.id, other.id, key, body, what)
    except SkipMemory as skip:
        run.tallies["contradictions"].add_skipped(str(skip))


def _is_linked(run: CuratorRun, one: Memory, other: Memory) -> bool:
    """Whether a `supersedes` or `contradicts` link already connects two memories."""
    with run.ctx.reading() as session:
        which = links.LinkFilter(relations=("supersedes", "contradicts"))
        return bool(links.links_among(session, [one.id, other.id], which, run.ctx.now(), limit=1))


def _propose_tags(run: CuratorRun, memory: Memory) -> None:
    """Propose tags for a memory with few tags."""
    if (
        len(memory.tags) >= MIN_TAGS
        or len(memory.content) < MIN_TEXT_LENGTH
        or memory.kind in ("conversation", "persona")
    ):
        return
    found = suggest_tags.suggest_memory_tags(run.ctx, memory, run.count_tags)
    if not found.new_tags:
        raise SkipMemory("no label stands out")
    body = {"tags": found.new_tags, "method": found.method, "model": found.model or None}
    run.propose(
        "tags",
        "tags",
        memory.id,
        None,
        build_proposal_key(memory),
        body,
        f"tag {memory.title!r}: {', '.join(found.new_tags)}",
    )


def _adjust_priority(run: CuratorRun, memory: Memory, page: Page) -> None:
    """Adjust the priority by use, once for the same grounds. An edit by a person wins."""
    uses, used_at = page.uses.get(memory.id, (0, 0))
    then = suggest_priority(memory, uses, used_at, run.ctx.now(), page.previous_marks["priorities"].get(memory.id))
    if then is None:
        return
    with run.open_change("priorities", memory.id) as write:
        now = memories.resolve(write.session, run.ctx.caller, memory.id, write.now)
        if now.priority != memory.priority:
            raise SkipMemory("changed meanwhile")
        write.change(MEMORY, now, replace(now, priority=then.priority), "curate", tidying=True)
        if run.options.apply:
            run.record_marks(write, "priorities", {memory.id: then.basis})
    what = f"priority of {memory.title!r}: {memory.priority} to {then.priority} ({then.reason})"
    run.record_change("priorities", (memory.id,), what)


def _refresh_persona(run: CuratorRun, memory: Memory) -> None:
    """Regenerate a persona whose sources changed."""
    entity, scope = (memory.metadata.get(name) for name in ("entity_name", "namespace_scope"))
    if memory.kind != "persona" or memory.agent != run.ctx.caller.agent or not isinstance(entity, str):
        return
    place = scope if isinstance(scope, str) and scope != personas.EVERYWHERE else None
    result = personas.generate_persona(run.ctx, entity, place, lambda: run.open_change("personas", memory.id))
    if result.is_new:
        run.archived_ids.add(memory.id)
        run.created_ids.add(result.persona.memory.id)
        run.record_change("personas", (result.persona.memory.id, memory.id), f"regenerated {memory.title!r}")
