"""Personas: one memory that summarises an entity, with footnotes; regenerated when its sources change."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, get_args

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.curation import store as curation
from holdfast.features.curation.extract_summary import weigh_sentences
from holdfast.features.graph import store as links
from holdfast.features.graph.entities import find_entity
from holdfast.features.graph.service import add_link
from holdfast.features.llm.assist import BY_RULES, MethodUsed, ask_or_fallback, method_metadata, rejected_answer
from holdfast.features.llm.client import Material, Task
from holdfast.features.memories import store as memories
from holdfast.features.memories.lifecycle import archive_memory
from holdfast.features.memories.store import Filter, normalize_filter, require_write_access
from holdfast.features.memories.store_memory import require_free_title
from holdfast.features.recall import search_index
from holdfast.features.reflections import invalidation_store as invalidations
from holdfast.features.reflections.depth import check_depth, with_origin
from holdfast.features.reflections.invalidation_store import StaleReason
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid, NotFound, VersionConflict
from holdfast.kernel.journal.kinds import MEMORY, content_hash
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Memory, Scope
from holdfast.kernel.records.validate import Draft, memory_from_draft
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.words import fold_name, may_lack_blanks, query_words
from holdfast.kernel.timestamps import derive_id

MAX_SOURCES = 20
MAX_CANDIDATES = 200
SENTENCES_PER_SOURCE = 2
"""Sentences quoted per source."""
MAX_SENTENCE_LENGTH = 600
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
    stale: StaleReason | None
    how: MethodUsed


class PersonaUpdate(NamedTuple):
    persona: Persona
    is_new: bool
    """Whether a new version was written."""


class Portrait(Struct, frozen=True):
    """What the sources say about the entity; each sentence ends with its source numbers, such as [1] or [2][5]."""

    text: str


def find_persona(ctx: Context, entity_id: str, namespace: str | None = None) -> Persona | None:
    """Find the persona of an entity that the caller may see, with its staleness."""
    with ctx.reading() as session:
        entity = _find_entity(ctx, session, entity_id, namespace)
        found = _find_current(ctx, session, entity, namespace, ctx.now())
        return None if found is None else _load_persona(ctx, session, found)


def generate_persona(
    ctx: Context,
    entity_id: str,
    namespace: str | None = None,
    open_transaction: Callable[[], AbstractContextManager[Transaction]] | None = None,
) -> PersonaUpdate:
    """Generate the persona of an entity; write a new version only if its sources changed."""
    with ctx.reading() as session:
        entity = _find_entity(ctx, session, entity_id, namespace)
        sources = _select_sources(ctx, session, entity, namespace, ctx.now())
        before = _find_current(ctx, session, entity, namespace, ctx.now())
        current = _load_persona(ctx, session, before) if before else None
    if not sources:
        raise NotFound(f"No visible memory mentions {entity.name!r}.", entity_id=entity_id)
    if current is not None and current.memory.metadata.get("sources_hash") == _hash_sources(sources):
        return PersonaUpdate(current, is_new=False)
    text, how = _write_portrait(ctx, entity, sources)
    with (open_transaction or ctx.transaction)() as write:
        persona = _store_version(ctx, write, entity, namespace, sources, text, how)
    return PersonaUpdate(persona, is_new=True)


def _find_entity(ctx: Context, session: Session, entity_id: str, namespace: str | None) -> Entity:
    """Find an entity by id or name; an unregistered name is an entity of its own."""
    name = validate.title(entity_id, "entity_id")
    place = None if namespace is None else validate.namespace(namespace)
    try:
        memory = memories.resolve(session, ctx.caller, name, ctx.now())
    except (NotFound, Invalid):
        memory = None
    if memory is None or memory.kind != "entity":
        match = find_entity(ctx, session, name, place) or find_entity(ctx, session, name)
        memory = match.entity.memory if match else None
    if memory is None:
        return Entity(fold_name(name), name, (name,), None)
    match = find_entity(ctx, session, memory.title, memory.namespace)
    aliases = match.entity.aliases if match and match.entity.memory.id == memory.id else ()
    return Entity(memory.id, memory.title, tuple(dict.fromkeys([memory.title, *aliases])), memory)


def build_persona_title(entity: Entity, namespace: str | None) -> str:
    """Build the title; one per entity and namespace scope, so that there is a single current persona."""
    scope = "" if namespace is None else f" ({namespace})"
    room = validate.MAX_BYTES["title"] - len(f"Persona of {scope}".encode())
    return f"Persona of {entity.name.encode()[:room].decode(errors='ignore')}{scope}"


def _choose_namespace(ctx: Context, entity: Entity, namespace: str | None) -> str:
    if namespace is not None:
        return validate.namespace(namespace)
    return entity.memory.namespace if entity.memory else ctx.namespace


def _find_current(ctx: Context, session: Session, entity: Entity, namespace: str | None, now: int) -> Memory | None:
    """Find the current persona by title, else by entity (the name may be capitalised differently)."""
    place, title = _choose_namespace(ctx, entity, namespace), build_persona_title(entity, namespace)
    found = curation.find_by_title(session, ctx.caller, place, title, now)
    if found is not None and _is_persona_of(found, entity, namespace):
        return found
    others = _find_mentions(ctx, session, entity, Filter(namespace=place, kinds=("persona",)), now)
    return next((other for other in others if _is_persona_of(other, entity, namespace)), None)


def _is_persona_of(memory: Memory, entity: Entity, namespace: str | None) -> bool:
    scope = EVERYWHERE if namespace is None else namespace
    subject = memory.metadata.get("entity_id"), memory.metadata.get("namespace_scope")
    return memory.kind == "persona" and subject == (entity.key, scope)


def _load_persona(ctx: Context, session: Session, memory: Memory) -> Persona:
    stale = invalidations.find_stale(session, ctx.caller, [memory.id], ctx.now()).get(memory.id)
    which = links.LinkFilter(view="kept", relations=("derived_from",))
    edges = links.list_outgoing(session, ctx.caller, [memory.id], which, ctx.now(), limit=MAX_SOURCES)
    how = MethodUsed("llm", memory.metadata.get("model")) if memory.metadata.get("method") == "llm" else BY_RULES
    version = memory.metadata.get("persona_version")
    entity = str(memory.metadata.get("entity_id", ""))
    sources = sorted(edge.id for edge in edges)
    return Persona(memory, entity, version if isinstance(version, int) else 1, sources, stale, how)


def _select_sources(ctx: Context, session: Session, entity: Entity, namespace: str | None, now: int) -> list[Memory]:
    """Select memories that mention an entity: reflections first, then by priority, then newest."""
    which = normalize_filter(Filter(namespace=namespace))
    found = [memory for memory in _find_mentions(ctx, session, entity, which, now) if memory.kind not in _NOT_SOURCES]
    current = _drop_superseded(ctx, session, [memory for memory in found if _is_mention(memory, entity)], now)
    order = sorted(current, key=lambda one: (one.kind != "reflection", -one.priority, -one.created_at, one.id))
    return order[:MAX_SOURCES]


def _drop_superseded(ctx: Context, session: Session, found: list[Memory], now: int) -> list[Memory]:
    which = links.LinkFilter(relations=("supersedes",))
    edges = links.list_incoming(session, ctx.caller, [one.id for one in found], which, now, limit=10 * MAX_CANDIDATES)
    older = {edge.link.target for edge in edges}
    return [memory for memory in found if memory.id not in older]


def _find_mentions(ctx: Context, session: Session, entity: Entity, which: Filter, now: int) -> list[Memory]:
    """Find memories that may mention an entity, by keywords of its names and by links."""
    candidate_ids: list[str] = []
    for name in entity.names:
        words = search_index.plan_query(session, query_words(name)) if query_words(name) else None
        hits = search_index.find_matches(session, ctx.caller, words, which, now, limit=MAX_CANDIDATES) if words else []
        candidate_ids += [hit.id for hit in hits]
    if entity.memory is not None:
        edges = links.list_at(session, ctx.caller, entity.memory.id, links.LinkFilter(), now, limit=MAX_CANDIDATES)
        candidate_ids += [edge.id for edge in edges]
    found = memories.by_ids(session, ctx.caller, dict.fromkeys(candidate_ids), now)
    return [memory for memory in found.values() if which.namespace in (None, memory.namespace)]


def _is_mention(memory: Memory, entity: Entity) -> bool:
    """Whether a memory mentions the entity: by a name as whole words, or in its metadata."""
    if memory.metadata.get("entity_id") in (entity.key, entity.name):
        return True
    return any(_contains_name(f"{memory.title}\n{memory.content}", name) for name in entity.names)


def _contains_name(text: str, name: str) -> bool:
    folded_text, folded_name = fold_name(text), fold_name(name)
    if may_lack_blanks(folded_name):
        return folded_name in folded_text
    return re.search(rf"(?<!\w){re.escape(folded_name)}(?!\w)", folded_text) is not None


def _hash_sources(sources: Sequence[Memory]) -> str:
    """Hash the sources. While it is the same, the persona is current."""
    return derive_id("persona", *(f"{one.id} {content_hash(one.title, one.content)}" for one in sources))


def _write_portrait(ctx: Context, entity: Entity, sources: Sequence[Memory]) -> tuple[str, MethodUsed]:
    """Write the portrait, each sentence with its source number: quoted sentences, or the answer of a model."""
    rules = "\n".join(
        f"- {sentence} [{number}]" for number, one in enumerate(sources, 1) for sentence in _pick_sentences(one, entity)
    )
    if ctx.model is None:
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
    answer, how = ask_or_fallback(ctx, task, [*material, Material("entity", entity.name)])
    if answer is None:
        return rules, how
    cited = {int(number) for number in re.findall(r"\[(\d{1,3})\]", answer.text)}
    if not cited or not cited <= set(range(1, len(sources) + 1)):
        return rules, rejected_answer("the model cited no sources, or sources that do not exist")
    return answer.text.strip(), how


def _pick_sentences(source: Memory, entity: Entity) -> list[str]:
    """Pick the most relevant sentences of a source; those that name the entity come first."""
    short = [one for one in weigh_sentences(source.content) if len(one.text) <= MAX_SENTENCE_LENGTH]
    best = sorted(
        short, key=lambda one: (not any(_contains_name(one.text, n) for n in entity.names), -one.weight, one.position)
    )
    quotes = sorted(best[:SENTENCES_PER_SOURCE], key=lambda one: one.position)
    return [" ".join(one.text.split()) for one in quotes] or [source.title]


def _store_version(
    ctx: Context,
    write: Transaction,
    entity: Entity,
    namespace: str | None,
    sources: list[Memory],
    text: str,
    how: MethodUsed,
) -> Persona:
    """Write a version, archive and supersede the previous one, and link the sources."""
    there = memories.by_ids(write.session, ctx.caller, [one.id for one in sources], write.now)
    if _hash_sources([there[one.id] for one in sources if one.id in there]) != _hash_sources(sources):
        raise VersionConflict("A source of the persona changed meanwhile: try again.")
    before = _find_current(ctx, write.session, entity, namespace, write.now)
    version = 1
    if before is not None:
        require_write_access(ctx, write, before)
        version = _load_persona(ctx, write.session, before).version + 1
        archive_memory(write, before, "superseded", "persona")
    fresh = _build_memory(ctx, write, entity, namespace, sources, text, how, version)
    require_free_title(ctx, write, fresh)
    check_depth(write.session, fresh)
    write.add(MEMORY, fresh, "persona")
    for source in sources:
        add_link(ctx, write, fresh.id, source.id, "derived_from")
    if before is not None:
        add_link(ctx, write, fresh.id, before.id, "supersedes")
    return Persona(fresh, entity.key, version, [one.id for one in sources], None, how)


def _build_memory(
    ctx: Context,
    write: Transaction,
    entity: Entity,
    namespace: str | None,
    sources: list[Memory],
    text: str,
    how: MethodUsed,
    version: int,
) -> Memory:
    """Build the memory: narrowest scope, lowest confidence and greatest reflection depth of its sources."""
    notes = "\n".join(f"[{number}] {one.title} ({one.id})" for number, one in enumerate(sources, 1))
    metadata: dict[str, Any] = {
        "entity_id": entity.key,
        "entity_name": entity.name,
        "persona_version": version,
        "namespace_scope": EVERYWHERE if namespace is None else namespace,
        "sources_hash": _hash_sources(sources),
        **method_metadata(how),
    }
    draft = Draft(
        title=build_persona_title(entity, namespace),
        content=_fit_footnotes(text, notes),
        namespace=_choose_namespace(ctx, entity, namespace),
        tier="long",
        kind="persona",
        confidence=min(one.confidence for one in sources),
        source="system",
        scope=min((one.scope for one in sources), key=get_args(Scope).index),
        tags=("persona",),
        metadata=metadata,
    )
    fresh = memory_from_draft(
        draft, id=ctx.new_id(), agent=ctx.caller.agent, origin=write.origin, now=write.now, lifetimes=ctx.lifetimes
    )
    ctx.caller.require_access(fresh.namespace)
    depth = max(one.reflection_depth for one in sources)
    return with_origin(replace(fresh, reflection_depth=depth), depth) if depth else fresh


def _fit_footnotes(text: str, notes: str) -> str:
    """Append the footnotes, and truncate the text to the maximum size of a memory."""
    room = validate.MAX_BYTES["content"] - len(notes.encode()) - 2
    return f"{text.encode()[:room].decode(errors='ignore')}\n\n{notes}"
