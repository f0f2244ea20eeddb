"""What a curator does with one memory: make it one with its likes, set it against others, label and weigh it."""

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
"""What may be made one with its like; a turn, an entity or a conclusion is what it is by its place among others."""
ALIKE = ("namespace", "agent", "scope", "kind", "category", "speaker", "valid_from", "valid_until", "thread")
"""What has to be the same beside the text."""
MOST_WORDS = 10
MOST_COMPARED = 20
SHARED = 0.4
"""The share of words from which on two texts are compared closely."""
FEW_TAGS = 2
SHORTEST = 50
"""Characters of a text that is worth a label."""
CARRIED: tuple[Relation, ...] = ("related_to", "contradicts")
MOST_LINKS = 1000


def perform(run: Run, step: Step, memory: Memory, page: Page) -> None:
    """One step on one memory; raises Skip if it is left as it is for a reason worth telling."""
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
    """Other memories of its namespace that are like it or about the same, the most alike first."""
    if run.liked is None or run.liked[0] is not memory:
        run.liked = (memory, _compared(run, memory))
    return [(other, likeness) for other, likeness in run.liked[1] if other.id not in run.gone]


def _compared(run: Run, memory: Memory) -> list[tuple[Memory, Likeness]]:
    """What shares numbers or telling words with a memory, the later of each two against the earlier."""
    words = frozenset(runs(memory.content))
    near = [other for other in _near(run, memory) if jaccard(words, frozenset(runs(other.content))) >= SHARED]
    compared = [(other, _in_time(memory, other)) for other in near]
    alike = [pair for pair in compared if pair[1].relation != "other"]
    return sorted(alike, key=lambda pair: (-pair[1].score, pair[0].id))


def _near(run: Run, memory: Memory) -> list[Memory]:
    """Memories of its namespace that may be like it: by their numbers, and by its longest words."""
    which, now = Filter(namespace=memory.namespace), run.hold.now()
    telling = sorted(asked(memory.content), key=lambda word: (-len(word), word))[:MOST_WORDS]
    with run.hold.reading() as session:
        found = gists.sharing(session, gists.numbers(memory, order_columns(memory)["parsed"])).all
        if telling:
            words = asking.question(session, telling)
            hits = asking.candidates(session, run.hold.caller, words, which, now, limit=MOST_COMPARED)
            found += [hit.id for hit in hits]
        wanted = [id for id in dict.fromkeys(found) if id != memory.id]
        read = memories.by_ids(session, run.hold.caller, wanted, now) if wanted else {}
    return [other for other in read.values() if other.namespace == memory.namespace]


def _in_time(one: Memory, other: Memory) -> Likeness:
    earlier, later = sorted((one, other), key=lambda memory: (memory.created_at, memory.id))
    return compare_titled(earlier.title, earlier.content, later.title, later.content)


def _duplicates(run: Run, memory: Memory) -> None:
    """Make one of a memory and those that say the same, if nothing hangs on them; else propose it.

    What something hangs on waits for its free likes to become one first, so that one proposal is left.
    """
    if memory.kind not in KINDS or memory.thread is not None:
        return
    members = _members(run, memory)
    if len(members) < 2:
        return
    with run.hold.reading() as session:
        bound = curation.bound(session, [one.id for one in members], run.hold.now())
    members = [one for one in members if not bound.get(one.id, set()) & {"granted", "standard", "superseded"}]
    if memory not in members:
        raise Skip("it is granted, a standard or superseded")
    free = [one for one in members if one.id not in bound]
    if memory in free and len(free) > 1:
        _make_one(run, free)
    elif len(members) > 1 and (memory in free or not free):
        _propose_one(run, *members[:2])


def _members(run: Run, memory: Memory) -> list[Memory]:
    """The memories that all say nearly the same, each of which may be made one with each other."""
    chosen = [memory]
    for other, likeness in _likes(run, memory):
        if len(chosen) == MOST_MEMBERS:
            break
        if likeness.relation in ("same", "near") and _may_join(run, chosen, other):
            chosen.append(other)
    return chosen


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
    """The note that two memories, as they are, are not to be made one by themselves."""
    return curation.offer_id("duplicate", key_of(one, other))


def key_of(*several: Memory) -> str:
    """Memories as they are: what was decided about them holds until one of them changes."""
    return " ".join(sorted(f"{one.id} {content_hash(one.title, one.content)}" for one in several))


def _propose_one(run: Run, one: Memory, other: Memory) -> None:
    what = f"make one of {one.title!r} and {other.title!r}: other memories stand on them"
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
    run.changed("duplicates", (fresh.id, *(one.id for one in members)), f"made {fresh.title!r} of {titles}")


def _stay_apart(run: Run, write: Transaction, fresh: Memory, sources: Sequence[Memory]) -> None:
    """From what its sources are to be kept apart, what is made of them is, too."""
    for id in curation.apart(write.session, [source.id for source in sources]):
        other = write.get(MEMORY, id)
        if other is not None and other.state == "live":
            keep_apart(run.hold, write, run.id, fresh, other)


def keep_apart(hold: Hold, write: Transaction, run: str, one: Memory, other: Memory) -> None:
    """Two memories are not made one by themselves, as long as they say what they say."""
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
    """One memory in the place of several that say nearly the same: all that they say, and all that is said of them."""
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
    """What the sources are related to or contradict, the new memory is and does, too."""
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
    """Propose to mark what contradicts a memory, or what is newer than it; nothing is decided here."""
    if memory.kind in ("conversation", "persona", "entity"):
        return
    for other, likeness in _likes(run, memory):
        if likeness.relation in ("same", "near") or _linked(run, memory, other):
            continue
        found = _set_against(run, memory, other)
        evidence = [one._asdict() for one in found.evidence]
        key = key_of(memory, other)
        told = {"evidence": evidence, "method": found.how.method, "model": found.how.model}
        if evidence:
            what = f"{memory.title!r} contradicts {other.title!r}: {found.evidence[0].difference}"
            _propose(run, "contradiction", memory, other, key, told, what)
        elif likeness.relation == "update":
            earlier, later = sorted((memory, other), key=lambda one: (one.created_at, one.id))
            what = f"{later.title!r} says all of {earlier.title!r} and more"
            _propose(run, "update", later, earlier, key, told, what)


def _propose(run: Run, sort: str, one: Memory, other: Memory, key: str, body: dict[str, Any], what: str) -> None:
    try:
        run.propose("contradictions", sort, one.id, other.id, key, body, what)
    except Skip as skip:
        run.tallies["contradictions"].skipped[str(skip)] += 1


def _set_against(run: Run, memory: Memory, other: Memory) -> contradict.Detected:
    """The earlier against the later, by a model too if one is set."""
    earlier, later = sorted((memory, other), key=lambda one: (one.created_at, one.id))
    return contradict.compared(run.hold, earlier, later)


def _linked(run: Run, one: Memory, other: Memory) -> bool:
    """Whether somebody said already how two memories stand to each other."""
    with run.hold.reading() as session:
        which = links.Which(relations=("supersedes", "contradicts"))
        return bool(links.among(session, [one.id, other.id], which, run.hold.now(), limit=1))


def _tags(run: Run, memory: Memory) -> None:
    """Propose labels for what has few."""
    if len(memory.tags) >= FEW_TAGS or len(memory.content) < SHORTEST or memory.kind in ("conversation", "persona"):
        return
    found = auto_tag.labelled(run.hold, memory, run.labels)
    if not found.new:
        raise Skip("no label stands out")
    body = {"tags": found.new, "method": found.how.method, "model": found.how.model}
    run.propose(
        "tags", "tags", memory.id, None, key_of(memory), body, f"label {memory.title!r}: {', '.join(found.new)}"
    )


def _priority(run: Run, memory: Memory, page: Page) -> None:
    """Let use move an importance, once for the same grounds; whatever a person says of it wins."""
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
    what = f"priority of {memory.title!r} from {memory.priority} to {then.priority}: {then.reason}"
    run.changed("priorities", (memory.id,), what)


def _persona(run: Run, memory: Memory) -> None:
    """Make a persona anew whose sources are not what they were."""
    entity, scope = (memory.metadata.get(name) for name in ("entity_name", "namespace_scope"))
    if memory.kind != "persona" or memory.agent != run.hold.caller.agent or not isinstance(entity, str):
        return
    place = scope if isinstance(scope, str) and scope != persona.EVERYWHERE else None
    made = persona.generate(run.hold, entity, place, lambda: run.changing("personas", memory.id))
    if made.regenerated:
        run.gone.add(memory.id)
        run.made.add(made.persona.memory.id)
        run.changed("personas", (made.persona.memory.id, memory.id), f"made {memory.title!r} anew")
