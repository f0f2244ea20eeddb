"""Facts about people: one value per key, with history, in a namespace of the person."""

from typing import Any, NamedTuple

from msgspec import Struct

from holdfast.features.memories import lifecycle
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.memory_kind import MemoryKind, read_text
from holdfast.features.memories.read_memories import Filter
from holdfast.features.memories.store_memory import find_title_holder
from holdfast.features.people.model import PEOPLE_ROOT, people_namespace, validate_name
from holdfast.features.people.resolve_names import list_names
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Conflict, NotFound
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.kinds import MEMORY, body_of
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate
from holdfast.kernel.records.fields import Agent, Timestamp
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import format_timestamp

CONTRADICTED_KEY = "contradicted"
"""Metadata key of a fact's earlier, contradicted values."""
MAX_CONTRADICTED = 20
DELETE_REASON = "fact deleted"
"""Archive reason of a deleted fact."""


FACT = MemoryKind(
    "fact",
    "a fact",
    "error",
    {
        "key": "title",
        "value": "content",
        "principal": read_text("principal"),
        "memory_id": "id",
        "agent_id": "agent",
        "contradicted": lambda memory: [str(one["value"]) for one in memory.metadata.get(CONTRADICTED_KEY, [])] or None,
    },
)


class FactInput(NamedTuple):
    """A fact to set."""

    principal: str
    key: str
    value: str
    confidence: float = 1.0
    source: str | None = None
    """Where it was learned: the id of a message, or a URL."""


class FactResult(NamedTuple):
    """A fact and its previous value."""

    memory: Memory
    previous: str | None
    created: bool


class PastValue(Struct, frozen=True):
    """A value of a fact and when it was set."""

    value: str | None
    """Null if the fact was deleted."""
    at: Timestamp
    agent: Agent
    confidence: float | None = None


def set_fact(ctx: Context, fact: FactInput) -> FactResult:
    """Set a fact; the previous value stays in the history, and is listed as contradicted if it differs."""
    fact = fact._replace(key=validate.title(fact.key, "key"))
    with ctx.transaction() as write:
        return set_fact_in_transaction(ctx, write, fact)


def set_fact_in_transaction(ctx: Context, write: Transaction, fact: FactInput) -> FactResult:
    """Set a fact inside a transaction."""
    names = list_names(write.session, validate_name(fact.principal))
    existing = _find_fact(write, names, fact.key) or _restore_deleted(ctx, write, fact)
    given: dict[str, Any] = {} if fact.source is None else {"learned_from": fact.source}
    if existing is None:
        place, metadata = people_namespace(names[0]), {"principal": names[0], **given}
        new = FACT.add(ctx, write, fact.key, fact.value, place, confidence=fact.confidence, metadata=metadata)
        return FactResult(new, None, created=True)
    if existing.content != fact.value:
        given[CONTRADICTED_KEY] = _list_contradicted(existing, write.now)
    changed = FACT.change(ctx, write, existing, given, content=fact.value, confidence=fact.confidence)
    return FactResult(changed, existing.content, created=False)


def _list_contradicted(existing: Memory, now: int) -> list[Any]:
    before = {
        "value": existing.content,
        "until": format_timestamp(now),
        "agent_id": existing.agent,
        "confidence": existing.confidence,
    }
    return [*existing.metadata.get(CONTRADICTED_KEY, []), before][-MAX_CONTRADICTED:]


def _find_fact(write: Transaction, names: tuple[str, ...], key: str) -> Memory | None:
    """Find the fact under any name of the principal; the latest of several."""
    matches = [find_title_holder(write, people_namespace(name), key) for name in names]
    facts = [memory for memory in matches if memory is not None]
    if any(memory.kind != FACT.name for memory in facts):
        raise Conflict(f"key: {key!r} is the title of another memory in the namespace of {names[0]!r}")
    return max(facts, key=lambda memory: memory.updated_at, default=None)


def _restore_deleted(ctx: Context, write: Transaction, fact: FactInput) -> Memory | None:
    """Restore the most recently deleted fact of a key, with its history."""
    deleted = _select_facts(ctx, write.session, fact.principal, fact.key, deleted=True)
    last = max(deleted, key=lambda memory: memory.updated_at, default=None)
    return None if last is None else lifecycle.restore_memory(ctx, write, last)


def list_facts(ctx: Context, principal: str, key: str | None = None, *, deleted: bool = False) -> list[Memory]:
    """List facts by key, the latest of several; or all deleted ones."""
    with ctx.reading() as session:
        found = _select_facts(ctx, session, principal, key, deleted=deleted)
    latest: dict[str, Memory] = {}
    for memory in sorted(found, key=lambda memory: memory.updated_at):
        latest[memory.id if deleted else memory.title] = memory
    return sorted(latest.values(), key=lambda memory: (memory.title, memory.id))


def _select_facts(ctx: Context, session: Session, principal: str, key: str | None, *, deleted: bool) -> list[Memory]:
    places = tuple(people_namespace(name) for name in list_names(session, validate_name(principal)))
    found = FACT.select(ctx, session, "archived" if deleted else "live", namespaces=places)
    return [memory for memory in found if key is None or memory.title == key]


def list_facts_of_all(ctx: Context, key: str | None, limit: int, skip: int) -> list[Memory]:
    """List facts of all people that the caller may see, by person and key."""
    which = Filter(under=PEOPLE_ROOT, kinds=(FACT.name,))
    with ctx.reading() as session:
        return memories.list_by_title(session, ctx.caller, which, ctx.now(), key, limit=limit, skip=skip)


def get_fact(ctx: Context, principal: str, key: str) -> Memory:
    found = list_facts(ctx, principal, key)
    if not found:
        raise NotFound(f"No fact {key!r} about {principal!r}.")
    return found[0]


def delete_facts(ctx: Context, principal: str, key: str | None) -> list[Memory]:
    """Archive a fact, or all of them."""
    with ctx.reading() as session:
        found = _select_facts(ctx, session, principal, key, deleted=False)
    if key is not None and not found:
        raise NotFound(f"No fact {key!r} about {principal!r}.")
    put = lifecycle.archive(ctx, [memory.id for memory in found], DELETE_REASON)
    if put.refused:
        raise put.refused[0][1]
    return put.archived


def restore_fact(ctx: Context, principal: str, key: str) -> Memory:
    """Restore the most recently deleted fact of a key."""
    found = [memory for memory in list_facts(ctx, principal, deleted=True) if memory.title == key]
    if not found:
        raise NotFound(f"No deleted fact {key!r} about {principal!r}.")
    return lifecycle.restore(ctx, max(found, key=lambda memory: memory.updated_at).id)


def list_past_values(ctx: Context, principal: str, key: str) -> list[PastValue]:
    """List the values of a fact in order, under all names of the principal."""
    with ctx.reading() as session:
        found = [
            memory
            for is_deleted in (False, True)
            for memory in _select_facts(ctx, session, principal, key, deleted=is_deleted)
        ]
        if not found:
            raise NotFound(f"No fact {key!r} about {principal!r} was ever set.")
        rows = [row for memory in found for row in session.rows("journal_known", record=memory.id, known_at=ctx.now())]
    entries = sorted((journal.Entry(*row) for row in rows), key=lambda entry: entry.recorded_at)
    return [_past_value(entry) for entry in entries if entry.kind == "memory" and entry.body is not None]


def _past_value(entry: journal.Entry) -> PastValue:
    memory = body_of(MEMORY, entry)
    is_deleted = memory.state != "live"
    return PastValue(
        None if is_deleted else memory.content,
        entry.recorded_at,
        entry.actor,
        None if is_deleted else memory.confidence,
    )
