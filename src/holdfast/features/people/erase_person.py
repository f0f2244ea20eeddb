"""Erase a person: all data goes; digests of the names, the time and the counts remain.

The order is replicated to other stores as a digest of each name; `erasure.py` applies it there.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.memories.lifecycle import purge_memory
from holdfast.features.people.model import (
    ERASED_NAMESPACE,
    ERASURE,
    INTERACTION,
    PEOPLE_ROOT,
    PRINCIPAL,
    PRINCIPAL_KEY,
    ErasureOrder,
    Interaction,
    Principal,
    name_from_namespace,
    people_namespace,
    principal_id,
    validate_name,
)
from holdfast.features.people.personal_records import PersonalRecord, list_people_of
from holdfast.features.people.resolve_names import list_names
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Forbidden, NotFound
from holdfast.kernel.journal import title_groups
from holdfast.kernel.journal.kinds import MEMORY, Kind, load_memory, tombstone_of
from holdfast.kernel.journal.redact import clear_derived_text
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.fields import Agent, Count, RowId, Timestamp
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.local_table import Export, LocalTable, list_tables
from holdfast.kernel.storage.port import Session

FAR_FUTURE = (1 << 62) - 1


class ErasedPerson(Struct, frozen=True, kw_only=True):
    """An erasure that was done here, under one name of the person."""

    id: RowId
    """A digest of the name, never the name."""
    at: Timestamp
    agent: Agent
    counts: dict[str, Count]
    ordered_at: Timestamp | None = None


ERASED_PEOPLE = LocalTable(
    ErasedPerson,
    "erased_person",
    export=Export(
        "forgotten",
        latest=lambda one: one.at,
        validate=lambda one: one if one.ordered_at is not None else replace(one, ordered_at=one.at),
    ),
)


def get_order_time(session: Session, id: str) -> int | None:
    """Return the time up to which a name was erased here, or None."""
    erased = ERASED_PEOPLE.get(session, id)
    return None if erased is None else erased.ordered_at or 0


class ErasureResult(Struct, frozen=True):
    """Record of an erasure, without any of the erased data."""

    ids: list[str]
    """A digest of each name; the names themselves are erased."""
    at: Timestamp
    agent: Agent
    """The agent that erased it."""
    counts: dict[str, int]
    """Number of erased records by kind."""


def erase_everywhere(ctx: Context, name: str) -> ErasureResult:
    """Erase a person under all names, here and in every store that receives the order."""
    if "*" not in ctx.caller.namespaces:
        raise Forbidden("Erasing a person needs a key that reaches every namespace.")
    with ctx.transaction() as write:
        names = list_names(write.session, validate_name(name, "name"))
        ids = [principal_id(one) for one in names]
        order = ErasureOrder(
            "", _next_order_time(write, ids), ctx.caller.agent, {}, write.now, write.now, write.origin, 1
        )
        for id in ids:
            record_order(write, id, order)
        counts = erase_all(write, names, replace(order, ordered_at=FAR_FUTURE))
        if not any(counts.values()):
            raise NotFound(f"Nothing is stored about {name!r}.")
        record_erasure(write, ids, order, counts)
    return ErasureResult(ids, write.now, ctx.caller.agent, counts)


def show_erasure(ctx: Context, name: str) -> ErasureResult:
    """Return the record of an erasure, given the name."""
    id = principal_id(validate_name(name, "name"))
    with ctx.reading() as session:
        erased = ERASED_PEOPLE.get(session, id)
    if erased is None:
        raise NotFound(f"No erasure of {name!r} is recorded here.")
    return ErasureResult([id], erased.at, erased.agent, erased.counts)


def _next_order_time(write: Transaction, ids: list[str]) -> int:
    """Return a time after any earlier order."""
    orders = [write.get(ERASURE, id) for id in ids]
    return max([write.now, *(one.ordered_at + 1 for one in orders if one)])


def record_order(write: Transaction, id: str, order: ErasureOrder) -> None:
    """Journal an order for a name and this store's acknowledgement of it."""
    existing, here = write.get(ERASURE, id), {write.origin: order.ordered_at}
    if existing is None:
        fresh = ErasureOrder(id, order.ordered_at, order.agent, here, write.now, write.now, write.origin, 1)
        write.add(ERASURE, fresh, "forget")
    elif existing.ordered_at <= order.ordered_at:
        changes = {"ordered_at": order.ordered_at, "agent": order.agent}
        write.change(ERASURE, existing, replace(existing, heard={**existing.heard, **here}, **changes), "forget")


def record_erasure(write: Transaction, ids: list[str], order: ErasureOrder, counts: Mapping[str, int]) -> None:
    """Record the erasure and its counts locally.

    Later finds under the same order are added; a later order that finds nothing changes no counts.
    """
    for id in ids:
        before, upto = ERASED_PEOPLE.get(write.session, id), order.ordered_at
        if before is None or ((before.ordered_at or 0) < upto and any(counts.values())):
            before = ErasedPerson(id=id, at=write.now, agent=order.agent, counts={})
        total = Counter(before.counts)
        total.update(counts)
        ERASED_PEOPLE.put(
            write.session, replace(before, counts=dict(total), ordered_at=max(upto, before.ordered_at or 0))
        )
    clear_derived_text(write.session)


# Finding and erasing what is stored

PAGE = 5000
COUNT_KEYS = {"memory": "memories", "interaction": "interactions", "principal": "names"}
"""Names of the record kinds in erasure counts."""


def erase_all(
    write: Transaction, names: tuple[str, ...], order: ErasureOrder, arrived: Collection[tuple[str, str]] = ()
) -> dict[str, int]:
    """Erase everything an order covers; return the counts, without records that only just arrived."""
    found = _find_memories(write.session, names, order)
    for memory in found:
        erase_memory(write, memory)
    title_groups.regroup(write, (), {title_groups.title_key(memory) for memory in found})
    interactions = _erase_interactions(write, names, order)
    rows = {
        name: count
        for table in list_tables()
        if table.owner is not None
        for name, count in table.erase_person(write.session, names, order.ordered_at).items()
    }
    principals = _erase_names(write, names, order)
    erased = ((MEMORY, found), (INTERACTION, interactions), (PRINCIPAL, principals))
    counts = count_records(((kind, one) for kind, some in erased for one in some), arrived)
    return {"memories": counts["memories"], "interactions": counts["interactions"], **rows, "names": counts["names"]}


def count_records(erased: Iterable[tuple[Kind[Any], Any]], arrived: Collection[tuple[str, str]]) -> Counter[str]:
    """Count records by kind, without those that only just arrived."""
    return Counter(COUNT_KEYS[kind.name] for kind, one in erased if (kind.name, one.id) not in arrived)


class PersonConversations(NamedTuple):
    """Ids of a person's conversation threads and their summaries."""

    threads: set[str]
    summaries: set[str]

    def includes(self, one: PersonalRecord) -> bool:
        return isinstance(one, Memory) and (one.thread in self.threads or one.id in self.summaries)


def find_conversations(session: Session, names: tuple[str, ...], order: ErasureOrder) -> PersonConversations:
    talked = session.rows("conversations_of", names=list(names), upto=order.ordered_at)
    return PersonConversations({row[0] for row in talked}, {row[1] for row in talked if row[1] is not None})


def _find_memories(session: Session, names: tuple[str, ...], order: ErasureOrder) -> list[Memory]:
    """Find memories about a person: facts, turns, summaries, lessons and tagged memories."""
    talks = find_conversations(session, names, order)
    tagged = {id for id, name in _iterate_tagged(session) if name in names}
    places, ids = [people_namespace(name) for name in names], sorted(talks.summaries | tagged)
    rows = session.rows("memory_of_people", places=places, threads=sorted(talks.threads), ids=ids)
    found = map(load_memory, rows)
    return [one for one in found if talks.includes(one) or order.covers(one.created_at, one.origin)]


def _iterate_tagged(session: Session) -> Iterator[tuple[str, Any]]:
    """Iterate memories whose metadata names a person, with that name."""
    after, mark = "", f'%"{PRINCIPAL_KEY}":%'
    while page := session.rows("memory_metadata_like", mark=mark, after=after, limit=PAGE):
        yield from ((id, msgspec.json.decode(metadata).get(PRINCIPAL_KEY)) for id, metadata in page)
        after = page[-1][0]


def names_for_digests(session: Session, ids: Collection[str], erased: Iterable[PersonalRecord]) -> dict[str, set[str]]:
    """Find the names behind digests among all people known here, including those just erased."""
    places = (name_from_namespace(row[0]) for row in session.rows("namespaces_with_memories", root=PEOPLE_ROOT))
    names = {
        *places,
        *(row[0] for row in session.rows("names_with_records")),
        *(name for table in list_tables() for name in table.list_owners(session)),
        *(name for _, name in _iterate_tagged(session)),
    }
    names.update(name for one in erased for name in list_people_of(one))
    found: dict[str, set[str]] = {}
    for name in names:
        if isinstance(name, str) and (id := principal_id(name)) in ids:
            found.setdefault(id, set()).add(name)
    return found


def erase_memory(write: Transaction, memory: Memory, taken: Mapping[str, int] | None = None) -> None:
    """Erase a memory; its tombstone moves to a namespace without the person's name."""
    purge_memory(write, memory, replace(tombstone_of(memory), namespace=ERASED_NAMESPACE), taken)


def _erase_interactions(write: Transaction, names: tuple[str, ...], order: ErasureOrder) -> list[Interaction]:
    rows = write.session.rows("interaction_of_people", names=list(names))
    found = [one for one in map(INTERACTION.load, rows) if order.covers(one.created_at, one.origin)]
    for one in found:
        write.purge(INTERACTION, one)
    return found


def _erase_names(write: Transaction, names: tuple[str, ...], order: ErasureOrder) -> list[Principal]:
    records = [write.get(PRINCIPAL, principal_id(name)) for name in names]
    erased = [one for one in records if one is not None and one.name and is_covered(write, order, one)]
    for one in erased:
        write.purge(PRINCIPAL, one)
    return erased


def is_covered(write: Transaction, order: ErasureOrder, one: PersonalRecord) -> bool:
    """Return whether an order covers a record. A name counts by its last write: it may have been written again."""
    if isinstance(one, Principal):
        return was_written_before(write, order, one, "name")
    return order.covers(one.created_at, one.origin)


def was_written_before(write: Transaction, order: ErasureOrder, one: Principal, field: str) -> bool:
    """Return whether a field of a name was last written before an order."""
    last = max(write.get_field_versions(PRINCIPAL, one).state_of(field, getattr(one, field)).values)
    return order.covers((last.time >> 16) * 1000, last.origin)
