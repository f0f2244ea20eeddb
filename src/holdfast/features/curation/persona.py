"""Personas: one memory that summarises an entity, with footnotes; regenerated when its sources change."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, get_args

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.curation import store as curation
from holdfast.features.curation.summary import weighed
from holdfast.features.graph import store as links
from holdfast.features.graph.entities import named
from holdfast.features.graph.service import tie
from holdfast.features.llm.assist import BY_RULES, How, aid, told, unfit
from holdfast.features.llm.client import Material, Task
from holdfast.features.memories import store as memories
from holdfast.features.memories.find_memories import normal
from holdfast.features.memories.lifecycle import put_away
from holdfast.features.memories.store import Filter
from holdfast.features.memories.store_memory import must_be_free, must_change
from holdfast.features.recall import fts_query as asking
from holdfast.features.reflections import invalidation_store as invalidations
from holdfast.features.reflections.depth import must_fit
from holdfast.features.reflections.invalidation_store import Stale
from holdfast.features.reflections.model import with_origin
from holdfast.kernel import ids
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Invalid, NotFound, VersionConflict
from holdfast.kernel.journal.columns import content_hash
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.memory import Memory, Scope
from holdfast.kernel.records.validate import Draft, admit
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.bigrams import may_lack_blanks
from holdfast.kernel.text.words import asked, fold

MOST_SOURCES = 20
MOST_LOOKED_AT = 200
SENTENCES = 2
"""Sentences quoted per source."""
LONGEST_SENTENCE = 600
EVERYWHERE = "*"
_NOT_SOURCES = ("persona", "entity")


class Entity(NamedTuple):
    """The subject of a persona."""

    key: str
    """The entity's id, or the folded name if the entity is not registered."""
    name: str
    names: tuple[str, ...]
    memory: Memory | None


class Persona(NamedTuple):
    memory: Memory
    entity: str
    version: int
    sources: list[str]
    stale: Stale | None
    how: How


class Generated(NamedTuple):
    persona: Persona
    regenerated: bool
    """Whether a new version was written."""


class Portrait(Struct, frozen=True):
    """What the sources say about the entity; each sentence ends with its source numbers, such as [1] or [2][5]."""

    text: str


def latest(hold: Hold, entity_id: str, namespace: str | None = None) -> Persona | None:
    """Find the persona of an entity that the caller may see, with its staleness."""
    with hold.reading() as session:
        entity = _entity(hold, session, entity_id, namespace)
        found = _current(hold, session, entity, namespace, hold.now())
        return None if found is None else _read(hold, session, found)


def generate(
    hold: Hold,
    entity_id: str,
    namespace: str | None = None,
    writing: Callable[[], AbstractContextManager[Transaction]] | None = None,
) -> Generated:
    """Generate the persona of an entity; write a new version only if its sources changed."""
    with hold.reading() as session:
        entity = _entity(hold, session, entity_id, namespace)
        sources = _sources(hold, session, entity, namespace, hold.now())
        before = _current(hold, session, entity, namespace, hold.now())
        current = _read(hold, session, before) if before else None
    if not sources:
        raise NotFound(f"No visible memory mentions {entity.name!r}.", entity_id=entity_id)
    if current is not None and current.memory.metadata.get("sources_hash") == _hash(sources):
        return Generated(current, regenerated=False)
    text, how = _portrait(hold, entity, sources)
    with (writing or hold.writing)() as write:
        persona = _keep(hold, write, entity, namespace, sources, text, how)
    return Generated(persona, regenerated=True)


def _entity(hold: Hold, session: Session, entity_id: str, namespace: str | None) -> Entity:
    """Find an entity by id or name; an unregistered name is an entity of its own."""
    name = door.title(entity_id, "entity_id")
    place = None if namespace is None else door.namespace(namespace)
    try:
        memory = memories.resolve(session, hold.caller, name, hold.now())
    except (NotFound, Invalid):
        memory = None
    if memory is None or memory.kind != "entity":
        match = named(hold, session, name, place) or named(hold, session, name)
        memory = match.entity.memory if match else None
    if memory is None:
        return Entity(fold(name), name, (name,), None)
    match = named(hold, session, memory.title, memory.namespace)
    aliases = match.entity.aliases if match and match.entity.memory.id == memory.id else ()
    return Entity(memory.id, memory.title, tuple(dict.fromkeys([memory.title, *aliases])), memory)


def title_of(entity: Entity, namespace: str | None) -> str:
    """Build the title; one per entity and namespace scope, so that there is a single current persona."""
    scope = "" if namespace is None else f" ({namespace})"
    room = door.MOST_BYTES["title"] - len(f"Persona of {scope}".encode())
    return f"Persona of {entity.name.encode()[:room].decode(errors='ignore')}{scope}"


def _place(hold: Hold, entity: Entity, namespace: str | None) -> str:
    if namespace is not None:
        return door.namespace(namespace)
    return entity.memory.namespace if entity.memory else hold.namespace


def _current(hold: Hold, session: Session, entity: Entity, namespace: str | None, now: int) -> Memory | None:
    """Find the current persona by title, else by entity (the name may be capitalised differently)."""
    place, title = _place(hold, entity, namespace), title_of(entity, namespace)
    found = curation.titled(session, hold.caller, place, title, now)
    if found is not None and _is_of(found, entity, namespace):
        return found
    others = _mentioning(hold, session, entity, Filter(namespace=place, kinds=("persona",)), now)
    return next((other for other in others if _is_of(other, entity, namespace)), None)


def _is_of(memory: Memory, entity: Entity, namespace: str | None) -> bool:
    scope = EVERYWHERE if namespace is None else namespace
    subject = memory.metadata.get("entity_id"), memory.metadata.get("namespace_scope")
    return memory.kind == "persona" and subject == (entity.key, scope)


def _read(hold: Hold, session: Session, memory: Memory) -> Persona:
    stale = invalidations.stale(session, hold.caller, [memory.id], hold.now()).get(memory.id)
    which = links.Which(view="kept", relations=("derived_from",))
    edges = links.leaving(session, hold.caller, [memory.id], which, hold.now(), limit=MOST_SOURCES)
    how = How("llm", memory.metadata.get("model")) if memory.metadata.get("method") == "llm" else BY_RULES
    version = memory.metadata.get("persona_version")
    entity = str(memory.metadata.get("entity_id", ""))
    sources = sorted(edge.id for edge in edges)
    return Persona(memory, entity, version if isinstance(version, int) else 1, sources, stale, how)


def _sources(hold: Hold, session: Session, entity: Entity, namespace: str | None, now: int) -> list[Memory]:
    """Select memories that mention an entity: reflections first, then by priority, then newest."""
    which = normal(Filter(namespace=namespace))
    found = [memory for memory in _mentioning(hold, session, entity, which, now) if memory.kind not in _NOT_SOURCES]
    current = _not_superseded(hold, session, [memory for memory in found if _mentions(memory, entity)], now)
    order = sorted(current, key=lambda one: (one.kind != "reflection", -one.priority, -one.created_at, one.id))
    return order[:MOST_SOURCES]


def _not_superseded(hold: Hold, session: Session, found: list[Memory], now: int) -> list[Memory]:
    which = links.Which(relations=("supersedes",))
    edges = links.entering(session, hold.caller, [one.id for one in found], which, now, limit=10 * MOST_LOOKED_AT)
    older = {edge.link.target for edge in edges}
    return [memory for memory in found if memory.id not in older]


def _mentioning(hold: Hold, session: Session, entity: Entity, which: Filter, now: int) -> list[Memory]:
    """Find memories that may mention an entity, by keywords of its names and by links."""
    candidate_ids: list[str] = []
    for name in entity.names:
        words = asking.question(session, asked(name)) if asked(name) else None
        hits = asking.candidates(session, hold.caller, words, which, now, limit=MOST_LOOKED_AT) if words else []
        candidate_ids += [hit.id for hit in hits]
    if entity.memory is not None:
        edges = links.at(session, hold.caller, entity.memory.id, links.Which(), now, limit=MOST_LOOKED_AT)
        candidate_ids += [edge.id for edge in edges]
    found = memories.by_ids(session, hold.caller, dict.fromkeys(candidate_ids), now)
    return [memory for memory in found.values() if which.namespace in (None, memory.namespace)]


def _mentions(memory: Memory, entity: Entity) -> bool:
    """Whether a memory mentions the entity: by a name as whole words, or in its metadata."""
    if memory.metadata.get("entity_id") in (entity.key, entity.name):
        return True
    return any(_named(f"{memory.title}\n{memory.content}", name) for name in entity.names)


def _named(text: str, name: str) -> bool:
    folded_text, folded_name = fold(text), fold(name)
    if may_lack_blanks(folded_name):
        return folded_name in folded_text
    return re.search(rf"(?<!\w){re.escape(folded_name)}(?!\w)", folded_text) is not None


def _hash(sources: Sequence[Memory]) -> str:
    """Hash the sources. While it is the same, the persona is current."""
    return ids.derived("persona", *(f"{one.id} {content_hash(one.title, one.content)}" for one in sources))


def _portrait(hold: Hold, entity: Entity, sources: Sequence[Memory]) -> tuple[str, How]:
    """Write the portrait, each sentence with its source number: quoted sentences, or the answer of a model."""
    rules = "\n".join(
        f"- {sentence} [{number}]" for number, one in enumerate(sources, 1) for sentence in _told(one, entity)
    )
    if hold.model is None:
        return rules, BY_RULES
    task = Task(
        "persona",
        "Describe the entity from the numbered sources, in plain sentences without headings. End every sentence with "
        "the numbers of its sources, such as [1] or [2][5]. State nothing that no source states.",
        Portrait,
        2048,
    )
    material = [
        Material(f"source {number}", f"{one.title}\n{one.content[:4000]}") for number, one in enumerate(sources, 1)
    ]
    answer, how = aid(hold, task, [*material, Material("entity", entity.name)])
    if answer is None:
        return rules, how
    cited = {int(number) for number in re.findall(r"\[(\d{1,3})\]", answer.text)}
    if not cited or not cited <= set(range(1, len(sources) + 1)):
        return rules, unfit("the model cited no sources, or sources that do not exist")
    return answer.text.strip(), how


def _told(source: Memory, entity: Entity) -> list[str]:
    """Pick the most relevant sentences of a source; those that name the entity come first."""
    short = [one for one in weighed(source.content) if len(one.text) <= LONGEST_SENTENCE]
    best = sorted(short, key=lambda one: (not any(_named(one.text, n) for n in entity.names), -one.weight, one.place))
    quotes = sorted(best[:SENTENCES], key=lambda one: one.place)
    return [" ".join(one.text.split()) for one in quotes] or [source.title]


def _keep(
    hold: Hold, write: Transaction, entity: Entity, namespace: str | None, sources: list[Memory], text: str, how: How
) -> Persona:
    """Write a version, archive and supersede the previous one, and link the sources."""
    there = memories.by_ids(write.session, hold.caller, [one.id for one in sources], write.now)
    if _hash([there[one.id] for one in sources if one.id in there]) != _hash(sources):
        raise VersionConflict("A source of the persona changed meanwhile: try again.")
    before = _current(hold, write.session, entity, namespace, write.now)
    version = 1
    if before is not None:
        must_change(hold, write, before)
        version = _read(hold, write.session, before).version + 1
        put_away(write, before, "superseded", "persona")
    fresh = _memory(hold, write, entity, namespace, sources, text, how, version)
    must_be_free(hold, write, fresh)
    must_fit(write.session, fresh)
    write.add(MEMORY, fresh, "persona")
    for source in sources:
        tie(hold, write, fresh.id, source.id, "derived_from")
    if before is not None:
        tie(hold, write, fresh.id, before.id, "supersedes")
    return Persona(fresh, entity.key, version, [one.id for one in sources], None, how)


def _memory(
    hold: Hold,
    write: Transaction,
    entity: Entity,
    namespace: str | None,
    sources: list[Memory],
    text: str,
    how: How,
    version: int,
) -> Memory:
    """Build the memory: narrowest scope, lowest confidence and greatest reflection depth of its sources."""
    notes = "\n".join(f"[{number}] {one.title} ({one.id})" for number, one in enumerate(sources, 1))
    metadata: dict[str, Any] = {
        "entity_id": entity.key,
        "entity_name": entity.name,
        "persona_version": version,
        "namespace_scope": EVERYWHERE if namespace is None else namespace,
        "sources_hash": _hash(sources),
        **told(how),
    }
    draft = Draft(
        title=title_of(entity, namespace),
        content=_fitting(text, notes),
        namespace=_place(hold, entity, namespace),
        tier="long",
        kind="persona",
        confidence=min(one.confidence for one in sources),
        source="system",
        scope=min((one.scope for one in sources), key=get_args(Scope).index),
        tags=("persona",),
        metadata=metadata,
    )
    fresh = admit(
        draft, id=hold.new_id(), agent=hold.caller.agent, origin=write.origin, now=write.now, lifetimes=hold.lifetimes
    )
    hold.caller.must_reach(fresh.namespace)
    depth = max(one.reflection_depth for one in sources)
    return with_origin(replace(fresh, reflection_depth=depth), depth) if depth else fresh


def _fitting(text: str, notes: str) -> str:
    """Append the footnotes, and truncate the text to the maximum size of a memory."""
    room = door.MOST_BYTES["content"] - len(notes.encode()) - 2
    return f"{text.encode()[:room].decode(errors='ignore')}\n\n{notes}"
