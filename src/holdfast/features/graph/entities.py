"""Entities: people, places and things with a canonical name and aliases."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.features.graph.model import ALIAS, Alias
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories import store_memory
from holdfast.features.memories.read_memories import Filter
from holdfast.features.memories.store_memory import find_title_holder, store_draft
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Conflict
from holdfast.kernel.journal.kinds import load_memory
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.validate import Draft
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.words import fold_name
from holdfast.kernel.timestamps import derive_id

MAX_HOMONYMS = 20


class Entity(NamedTuple):
    memory: Memory
    aliases: list[str]


class RegisterResult(NamedTuple):
    entity: Entity
    created: bool


class EntityMatch(NamedTuple):
    entity: Entity
    also: list[Memory]
    """Other entities with the same name, newest first."""


def register_entity(
    ctx: Context,
    canonical_name: str,
    namespace: str,
    aliases: Sequence[str] = (),
    *,
    content: str | None = None,
    metadata: dict[str, Any] | None = None,
) -> RegisterResult:
    """Create an entity, or add aliases to the existing one. Idempotent."""
    given: dict[str, Any] = {"canonical_name": canonical_name, "aliases": list(aliases)}
    with ctx.transaction() as write:
        given, _ = store_memory.filter_secrets(write.session, validate.namespace(namespace), given)
        name = validate.title(given["canonical_name"], "canonical_name")
        given_names = [name, *(validate.title(alias, "aliases") for alias in given["aliases"])]
        names = {fold_name(known): known for known in reversed(given_names)}
        holder = find_title_holder(write, validate.namespace(namespace), name)
        if holder is not None:
            _check_is_entity(ctx, write, holder)
        draft = Draft(
            title=name,
            content=content or (holder.content if holder else name),
            namespace=namespace,
            tier="long",
            kind="entity",
            source=ctx.caller.source,
            metadata=metadata or UNSET,
        )
        result = store_draft(ctx, write, draft, "merge", force=True)
        entity = result.memory
        for folded, known in names.items():
            add_alias(write, entity, folded, known)
        return RegisterResult(_read_entity(write.session, entity), result.outcome == "created")


def _check_is_entity(ctx: Context, write: Transaction, holder: Memory) -> None:
    """Raise if the name is the title of another kind of memory; `store_draft` checks write access."""
    if holder.kind != "entity" and memories.can_write(write.session, ctx.caller, holder.id):
        raise Conflict(
            f"The title {holder.title!r} in {holder.namespace!r} belongs to {holder.id}, which is not an entity: "
            "choose another name or namespace.",
            existing_id=holder.id,
        )


def add_alias(write: Transaction, entity: Memory, folded: str, name: str) -> None:
    """Add an alias to an entity; an existing one keeps its first spelling."""
    id = derive_id("alias", entity.id, folded)
    known = write.get(ALIAS, id)
    if known is None:
        write.add(ALIAS, Alias(id, entity.id, name, folded, write.now, write.now, write.origin, 1), "alias")
    elif known.state != "live":
        write.change(ALIAS, known, replace(known, name=name, state="live"), "alias")


def _read_entity(session: Session, entity: Memory) -> Entity:
    return Entity(entity, [Alias(*row).name for row in session.rows("alias_of", entity=entity.id)])


def find_entity(ctx: Context, session: Session, alias: str, namespace: str | None = None) -> EntityMatch | None:
    """Find the live entity with a name or alias, ignoring case; the newest if there are several."""
    normalized = None if namespace is None else validate.namespace(namespace)
    parts, params = memories.filter_clauses(ctx.caller, Filter(namespace=normalized), ctx.now())
    rows = session.select(
        ("entity_by_name", *parts, "entity.newest_first"),
        params | {"folded": fold_name(validate.title(alias, "alias")), "limit": MAX_HOMONYMS},
    )
    found = [load_memory(row) for row in rows]
    return EntityMatch(_read_entity(session, found[0]), found[1:]) if found else None


def purge_aliases(write: Transaction, memory: Memory) -> None:
    """Purge the aliases of an entity, deleted ones included."""
    for alias in [ALIAS.load(row) for row in write.session.rows("alias_with_deleted", entity=memory.id)]:
        write.purge(ALIAS, alias)
