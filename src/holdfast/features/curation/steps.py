"""Steps of the curator for one memory: merge duplicates, propose contradictions and tags, adjust priority, persona."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from holdfast.features.curation import auto_tag, contradict, persona
from holdfast.features.curation import store as curation
from holdfast.features.curation.consolidate import changeable, make_one
from holdfast.features.curation.rules import MOST_MEMBERS, lasting, moved, united
from holdfast.features.curation.run import Page, Run, Skip, Step, hash_of
from holdfast.features.graph import store as links
from holdfast.features.graph.service import tie
from holdfast.features.memories import store as memories
from holdfast.features.memories.store import Filter
from holdfast.features.recall import fts_query as asking
from holdfast.kernel.context import Hold
from holdfast.kernel.journal.columns import content_hash, order_columns
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.link import Relation
from holdfast.kernel.records.memory import Citation, Memory
from holdfast.kernel.records.validate import Draft
from holdfast.kernel.text import minhash as gists
from holdfast.kernel.text.cluster import jaccard
from holdfast.kernel.text.similarity import Likeness, compare_titled
from holdfast.kernel.text.words import asked, runs

KINDS = ("observation", "concept", "claim", "event", "decision", "fact", "lesson", "limitation", "summary", "relation")
"""Kinds that may be merged. Messages, entities and reflections depend on their position or links."""
ALIKE = ("namespace", "agent", "scope", "kind", "category", "speaker", "valid_from", "valid_until", "thread")
"""Fields that must be equal for a merge."""
MOST_WORDS = 10
MOST_COMPARED = 20
SHARED = 0.4
"""Minimum word overlap for a close comparison of two texts."""
FEW_TAGS = 2
SHORTEST = 50
"""Minimum length of a text for tag proposals."""
CARRIED: tuple[Relation, ...] = ("related_to", "contradicts")
MOST_LINKS = 1000


def perform(run: Run, step: Step, memory: Memory, page: Page) -> None:
    """Run one step on one memory. Raises Skip with a reason to report."""
    match step:
        case "duplicates":
            _duplicates(run, memory)
        case "contradictions":
            _contradictions(run, memory)
        case "tags":
            _tags(run, memory)
        case "priorities":
            _priority(run, memory, page)
        case "personas":
            _persona(run, memory)


def _likes(run: Run, memory: Memory) -> list[tuple[Memory, Likeness]]:
    """List similar memories of the namespace, most similar first."""
    if run.liked is None or run.liked[0] is not memory:
        run.liked = (memory, _compared(run, memory))
    return [(other, likeness) for other, likeness in run.liked[1] if other.id not in run.gone]


def _compared(run: Run, memory: Memory) -> list[tuple[Memory, Likeness]]:
    """Compare a memory with its candidates, the later of each pair against the earlier."""
    words = frozenset(runs(memory.content))
    near = [other for other in _near(run, memory) if jaccard(words, frozenset(runs(other.content))) >= SHARED]
    pairs = [(other, _in_time(memory, other)) for other in near]
    alike = [pair for pair in pairs if pair[1].relation != "other"]
    return sorted(alike, key=lambda pair: (-pair[1].score, pair[0].id))


def _near(run: Run, memory: Memory) -> list[Memory]:
    """Find candidates in the namespace by MinHash bands and by the longest words."""
    which, now = Filter(namespace=memory.namespace), run.hold.now()
    telling = sorted(asked(memory.content), key=lambda word: (-len(word), word))[:MOST_WORDS]
    with run.hold.reading() as session:
        found = gists.sharing(session, gists.numbers(memory, order_columns(memory)["parsed"])).all
        if telling:
            words = asking.question(session, telling)
            hits = asking.candidates(session, run.hold.caller, words, which, now, limit=MOST_COMPARED)
            found += [hit.id for hit in hits]
        ids = [id for id in dict.fromkeys(found) if id != memory.id]
        read = memories.by_ids(session, run.hold.caller, ids, now) if ids else {}
    return [other for other in read.values() if other.namespace == memory.namespace]


def _in_time(one: Memory, other: Memory) -> Likeness:
    earlier, later = sorted((one, other), key=lambda memory: (memory.created_at, memory.id))
    return compare_titled(earlier.title, earlier.content, later.title, later.content)


def _duplicates(run: Run, memory: Memory) -> None:
    """Merge a memory with its duplicates; propose it if other records refer to them.

    Duplicates without references are merged first, so that a single proposal remains.
    """
    if memory.kind not in KINDS or memory.thread is not None:
        return
    members = _members(run, memory)
    if len(members) < 2:
        return
    with run.hold.reading() as session:
        referrers = curation.bound(session, [one.id for one in members], run.hold.now())
    members = [one for one in members if not referrers.get(one.id, set()) & {"granted", "standard", "superseded"}]
    if memory not in members:
        raise Skip("it is granted, a standard or superseded")
    free = [one for one in members if one.id not in referrers]
    if memory in free and len(free) > 1:
        _make_one(run, free)
    elif len(members) > 1 and (memory in free or not free):
        _propose_one(run, *members[:2])


def _members(run: Run, memory: Memory) -> list[Memory]:
    """Find the group of near-duplicates that may all be merged with each other."""
    members = [memory]
    for other, likeness in _likes(run, memory):
        if len(members) == MOST_MEMBERS:
            break
        if likeness.relation in ("same", "near") and _may_join(run, members, other):
            members.append(other)
    return members


def _may_join(run: Run, chosen: Sequence[Memory], other: Memory) -> bool:
    if any(getattr(chosen[0], name) != getattr(other, name) for name in ALIKE):
        return False
    if other.scope == "private" and other.agent != run.hold.caller.agent:
        return False
    if any(_in_time(one, other).relation not in ("same", "near") for one in chosen[1:]):
        return False
    with run.hold.reading() as session:
        return not curation.proposed(session, [apart_id(one, other) for one in chosen])


def apart_id(one: Memory, other: Memory) -> str:
    """Return the id of the record that two memories, in their current versions, are not duplicates."""
    return curation.offer_id("duplicate", key_of(one, other))


def key_of(*several: Memory) -> str:
    """Build the key of a proposal: it changes with the text, so a decision holds until a memory changes."""
    return " ".join(sorted(f"{one.id} {content_hash(one.title, one.content)}" for one in several))


def _propose_one(run: Run, one: Memory, other: Memory) -> None:
    what = f"merge {one.title!r} and {other.title!r}: other memories depend on them"
    run.propose("duplicates", "duplicate", one.id, other.id, key_of(one, other), {}, what)


def _make_one(run: Run, members: list[Memory]) -> None:
    with run.changing("duplicates", members[0].id) as write:
        sources = changeable(run.hold, write, [one.id for one in members])
        if any(now.version != then.version for now, then in zip(sources, members, strict=True)):
            raise Skip("changed meanwhile")
        fresh = merge(run.hold, write, sources)
        _stay_apart(run, write, fresh, sources)
        if run.asked.apply:
            run.note(write, "duplicates", {one.id: hash_of(one) for one in sources})
    run.gone.update(one.id for one in members)
    titles = ", ".join(repr(one.title) for one in members)
    run.made.add(fresh.id)
    run.changed("duplicates", (fresh.id, *(one.id for one in members)), f"merged {titles} into {fresh.title!r}")


def _stay_apart(run: Run, write: Transaction, fresh: Memory, sources: Sequence[Memory]) -> None:
    """Carry over to the merged memory what its sources must not be merged with."""
    for id in curation.apart(write.session, [source.id for source in sources]):
        other = write.get(MEMORY, id)
        if other is not None and other.state == "live":
            keep_apart(run.hold, write, run.id, fresh, other)


def keep_apart(hold: Hold, write: Transaction, run: str, one: Memory, other: Memory) -> None:
    """Record that two memories must not be merged automatically while their texts are unchanged."""
    offer = curation.Offer(
        id=apart_id(one, other),
        run=run,
        step="duplicate",
        memory=one.id,
        other=other.id,
        body="{}",
        agent=hold.caller.agent,
        offered_at=write.now,
        status="dismissed",
    )
    curation.propose(write.session, offer)


def merge(hold: Hold, write: Transaction, sources: list[Memory]) -> Memory:
    """Merge near-duplicates into one memory that keeps all their content, tags, citations and links."""
    content = united([source.content for source in sources])
    if len(content.encode()) > door.MOST_BYTES["content"]:
        raise Skip("together they are too long")
    first = max(sources, key=lambda source: (len(source.content), source.updated_at, source.id))
    tier, expires_at = lasting(sources)
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
        tags=tuple(dict.fromkeys(tag for source in sources for tag in source.tags))[: door.MOST_TAGS],
        metadata=_metadata(sources),
        citations=_citations(sources),
        source_uri=uris.pop() if len(uris) == 1 else None,
        valid_from=first.valid_from,
        valid_until=first.valid_until,
        speaker=first.speaker,
        occurred_at=first.occurred_at,
        thread=None,
        place=None,
        expires_at=expires_at,
    )
    fresh = make_one(hold, write, sources, draft, agent=first.agent)
    _carry(hold, write, fresh, sources)
    return fresh


def _metadata(sources: list[Memory]) -> dict[str, Any]:
    merged = {key: value for source in sources for key, value in source.metadata.items()}
    return {**merged, "derived_from": [source.id for source in sources], "method": "heuristic"}


def _citations(sources: list[Memory]) -> tuple[Citation, ...]:
    each = [citation for source in sources for citation in source.citations]
    distinct = [one for number, one in enumerate(each) if one not in each[:number]]
    return tuple(distinct[: door.MOST_CITATIONS])


def _carry(hold: Hold, write: Transaction, fresh: Memory, sources: list[Memory]) -> None:
    """Carry over `related_to` and `contradicts` links to the merged memory."""
    old = {source.id for source in sources}
    which = links.Which(relations=CARRIED)
    for source in sources:
        for edge in links.at(write.session, hold.caller, source.id, which, write.now, limit=MOST_LINKS):
            link = edge.link
            if {link.source, link.target} <= old:
                continue
            if link.source == source.id:
                tie(hold, write, fresh.id, link.target, link.relation)
            elif memories.may_change(write.session, hold.caller, link.source):
                tie(hold, write, link.source, fresh.id, link.relation)


def _contradictions(run: Run, memory: Memory) -> None:
    """Propose `contradicts` and `supersedes` links to similar memories."""
    if memory.kind in ("conversation", "persona", "entity"):
        return
    for other, likeness in _likes(run, memory):
        if likeness.relation in ("same", "near") or _linked(run, memory, other):
            continue
        found = _set_against(run, memory, other)
        evidence = [one._asdict() for one in found.evidence]
        key = key_of(memory, other)
        body = {"evidence": evidence, "method": found.how.method, "model": found.how.model}
        if evidence:
            what = f"{memory.title!r} contradicts {other.title!r}: {found.evidence[0].difference}"
            _propose(run, "contradiction", memory, other, key, body, what)
        elif likeness.relation == "update":
            earlier, later = sorted((memory, other), key=lambda one: (one.created_at, one.id))
            what = f"{later.title!r} says all of {earlier.title!r} and more"
            _propose(run, "update", later, earlier, key, body, what)


def _propose(run: Run, sort: str, one: Memory, other: Memory, key: str, body: dict[str, Any], what: str) -> None:
    try:
        run.propose("contradictions", sort, one.id, other.id, key, body, what)
    except Skip as skip:
        run.tallies["contradictions"].skipped[str(skip)] += 1


def _set_against(run: Run, memory: Memory, other: Memory) -> contradict.Detected:
    """Compare two memories, the earlier one first; by a model too if one is set."""
    earlier, later = sorted((memory, other), key=lambda one: (one.created_at, one.id))
    return contradict.compared(run.hold, earlier, later)


def _linked(run: Run, one: Memory, other: Memory) -> bool:
    """Whether a `supersedes` or `contradicts` link already connects two memories."""
    with run.hold.reading() as session:
        which = links.Which(relations=("supersedes", "contradicts"))
        return bool(links.among(session, [one.id, other.id], which, run.hold.now(), limit=1))


def _tags(run: Run, memory: Memory) -> None:
    """Propose tags for a memory with few tags."""
    if len(memory.tags) >= FEW_TAGS or len(memory.content) < SHORTEST or memory.kind in ("conversation", "persona"):
        return
    found = auto_tag.labelled(run.hold, memory, run.labels)
    if not found.new:
        raise Skip("no label stands out")
    body = {"tags": found.new, "method": found.how.method, "model": found.how.model}
    run.propose("tags", "tags", memory.id, None, key_of(memory), body, f"tag {memory.title!r}: {', '.join(found.new)}")


def _priority(run: Run, memory: Memory, page: Page) -> None:
    """Adjust the priority by use, once for the same grounds. An edit by a person wins."""
    uses, used_at = page.uses.get(memory.id, (0, 0))
    then = moved(memory, uses, used_at, run.hold.now(), page.done["priorities"].get(memory.id))
    if then is None:
        return
    with run.changing("priorities", memory.id) as write:
        now = memories.resolve(write.session, run.hold.caller, memory.id, write.now)
        if now.priority != memory.priority:
            raise Skip("changed meanwhile")
        write.change(MEMORY, now, replace(now, priority=then.priority), "curate", tidying=True)
        if run.asked.apply:
            run.note(write, "priorities", {memory.id: then.grounds})
    what = f"priority of {memory.title!r}: {memory.priority} to {then.priority} ({then.reason})"
    run.changed("priorities", (memory.id,), what)


def _persona(run: Run, memory: Memory) -> None:
    """Regenerate a persona whose sources changed."""
    entity, scope = (memory.metadata.get(name) for name in ("entity_name", "namespace_scope"))
    if memory.kind != "persona" or memory.agent != run.hold.caller.agent or not isinstance(entity, str):
        return
    place = scope if isinstance(scope, str) and scope != persona.EVERYWHERE else None
    result = persona.generate(run.hold, entity, place, lambda: run.changing("personas", memory.id))
    if result.regenerated:
        run.gone.add(memory.id)
        run.made.add(result.persona.memory.id)
        run.changed("personas", (result.persona.memory.id, memory.id), f"regenerated {memory.title!r}")
