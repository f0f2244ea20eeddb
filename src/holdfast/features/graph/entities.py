"""Entities: people, places and things with a canonical name and aliases."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.features.graph.model import ALIAS, Alias
from holdfast.features.memories import dedup as hygiene
from holdfast.features.memories import store as memories
from holdfast.features.memories.store import Filter
from holdfast.features.memories.store_memory import put, title_holder
from holdfast.kernel import ids
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Conflict
from holdfast.kernel.journal.kinds import memory_of
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.validate import Draft
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.words import fold

MOST_HOMONYMS = 20


class Entity(NamedTuple):
    memory: Memory
    aliases: list[str]


class Registered(NamedTuple):
    entity: Entity
    created: bool


class Named(NamedTuple):
    entity: Entity
    also: list[Memory]
    """Other entities with the same name, newest first."""


def register(
    hold: Hold,
    canonical_name: str,
    namespace: str,
    aliases: Sequence[str] = (),
    *,
    content: str | None = None,
    metadata: dict[str, Any] | None = None,
) -> Registered:
    """Create an entity, or add aliases to the existing one. Idempotent."""
    given: dict[str, Any] = {"canonical_name": canonical_name, "aliases": list(aliases)}
    with hold.writing() as write:
        given, _ = hygiene.permitted(write.session, door.namespace(namespace), given)
        name = door.title(given["canonical_name"], "canonical_name")
        given_names = [name, *(door.title(alias, "aliases") for alias in given["aliases"])]
        names = {fold(known): known for known in reversed(given_names)}
        holder = title_holder(write, door.namespace(namespace), name)
        if holder is not None:
            _must_be_entity(hold, write, holder)
        draft = Draft(
            title=name,
            content=content or (holder.content if holder else name),
            namespace=namespace,
            tier="long",
            kind="entity",
            source=hold.caller.source,
            metadata=metadata or UNSET,
        )
        result = put(hold, write, draft, "merge", force=True)
        entity = result.memory
        for folded, known in names.items():
            call(write, entity, folded, known)
        return Registered(_with_names(write.session, entity), result.outcome == "created")


def _must_be_entity(hold: Hold, write: Transaction, holder: Memory) -> None:
    """Raise if the name is the title of another kind of memory. `put` refuses one that the caller may not change."""
    if holder.kind != "entity" and memories.may_change(write.session, hold.caller, holder.id):
        raise Conflict(
            f"The title {holder.title!r} in {holder.namespace!r} belongs to {holder.id}, which is not an entity: "
            "choose another name or namespace.",
            existing_id=holder.id,
        )


def call(write: Transaction, entity: Memory, folded: str, name: str) -> None:
    """Add an alias to an entity; an existing one keeps its first spelling."""
    id = ids.derived("alias", entity.id, folded)
    known = write.get(ALIAS, id)
    if known is None:
        write.add(ALIAS, Alias(id, entity.id, name, folded, write.now, write.now, write.origin, 1), "alias")
    elif known.state != "live":
        write.change(ALIAS, known, replace(known, name=name, state="live"), "alias")


def _with_names(session: Session, entity: Memory) -> Entity:
    return Entity(entity, [Alias(*row).name for row in session.rows("alias_of", entity=entity.id)])


def named(hold: Hold, session: Session, alias: str, namespace: str | None = None) -> Named | None:
    """Find the live entity with a name or alias, ignoring case; the newest if there are several."""
    normalized = None if namespace is None else door.namespace(namespace)
    parts, params = memories.narrowed(hold.caller, Filter(namespace=normalized), hold.now())
    rows = session.assembled(
        ("entity_named", *parts, "entity.newest_first"),
        params | {"folded": fold(door.title(alias, "alias")), "limit": MOST_HOMONYMS},
    )
    found = [memory_of(row) for row in rows]
    return Named(_with_names(session, found[0]), found[1:]) if found else None
