"""Apply erasure orders replicated from peers.

A store that receives an erasure deletes the person's data and rejects older copies of it afterwards.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.features.people.erase_person import (
    COUNT_KEYS,
    ERASED_PEOPLE,
    count_records,
    erase_all,
    erase_memory,
    find_conversations,
    get_order_time,
    is_covered,
    names_for_digests,
    record_erasure,
    record_order,
    was_written_before,
)
from holdfast.features.people.model import ERASED_NAMESPACE, ERASURE, PRINCIPAL, ErasureOrder, Principal, principal_id
from holdfast.features.people.personal_records import PersonalRecords, list_people_of
from holdfast.kernel.journal import title_groups
from holdfast.kernel.journal.kinds import KINDS, Kind, tombstone_of
from holdfast.kernel.journal.redact import clear_derived_text
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import field_versions
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.merge import AWAITED, canonical_json
from holdfast.kernel.records.tombstone import has_content
from holdfast.kernel.timestamps import RECORD_SNAPSHOT


def apply_remote_erasures(write: Transaction, received: PersonalRecords) -> None:
    """Apply erasure orders from peers and reject older data of erased people. Idempotent.

    Orders for the people with most erased names come first, so that the counts are recorded under each name.
    """
    erased_again = [
        _erase_again(write, KINDS[kind], id, back) for (kind, id), back in sorted(received.forgotten.items())
    ]
    orders = [order for id in sorted(received.orders) if (order := write.get(ERASURE, id)) and _is_due(write, order)]
    known_names = {order.id: received.former_names.get(order.id, ()) for order in orders}
    names_by_id = names_for_digests(write.session, known_names.keys(), received.before.values()) if orders else {}
    for order in sorted(orders, key=lambda one: -len(known_names[one.id])):
        if _is_due(write, order):
            _apply_order(write, order, (*known_names[order.id], *names_by_id.get(order.id, ())), received)
    _reject_older(write, received)
    if any(erased_again):
        clear_derived_text(write.session)


def _is_due(write: Transaction, order: ErasureOrder) -> bool:
    erased_to = get_order_time(write.session, order.id)
    return erased_to is None or erased_to < order.ordered_at


def _apply_order(
    write: Transaction, order: ErasureOrder, names_found: Iterable[str], received: PersonalRecords
) -> None:
    """Erase a person under every name known here."""
    names = _collect_names(write, order, names_found)
    ids = sorted({order.id, *map(principal_id, names)})
    for id in ids:
        record_order(write, id, order)
    lost = _count_lost(write, names, order, received)
    counts = Counter(erase_all(write, names, order, received.new))
    counts.update(lost)
    record_erasure(write, ids, order, counts)


def _count_lost(
    write: Transaction, names: tuple[str, ...], order: ErasureOrder, received: PersonalRecords
) -> Counter[str]:
    """Count a person's records that the incoming changes erased; each counts once."""
    talks = find_conversations(write.session, names, order)
    erased = [
        (kind, id)
        for (kind, id), one in received.before.items()
        if (list_people_of(one).intersection(names) or talks.includes(one)) and _is_gone(write, KINDS[kind], id)
    ]
    for key in erased:
        del received.before[key]
    return Counter(COUNT_KEYS[kind] for kind, _ in erased)


def _is_gone(write: Transaction, kind: Kind[Any], id: str) -> bool:
    record = write.get(kind, id)
    return record is None or not has_content(record)


def _collect_names(write: Transaction, order: ErasureOrder, found: Iterable[str]) -> tuple[str, ...]:
    """Return all names of a person, using only aliases that are older than the order."""
    names = list(dict.fromkeys(found))
    for name in names:
        behind = [row[0] for row in write.session.rows("principal_aliases", names=[name])]
        links = [link for one in (name, *behind) if (link := write.get(PRINCIPAL, principal_id(one)))]
        older = [link for link in links if link.stands_for and was_written_before(write, order, link, "stands_for")]
        ends = dict.fromkeys(end for link in older for end in (link.name, link.stands_for))
        names += [end for end in ends if end and end not in names]
    return tuple(names)


def _reject_older(write: Transaction, received: PersonalRecords) -> None:
    """Erase incoming data that is older than an order applied here before."""
    by_person = received.by_person()
    ids = {principal_id(name): name for name in by_person}
    for erased in ERASED_PEOPLE.get_many(write.session, sorted(ids)):
        _reject_older_of(write, erased.id, by_person[ids[erased.id]], received)


def _reject_older_of(
    write: Transaction, id: str, records: Collection[tuple[str, str]], received: PersonalRecords
) -> None:
    order = write.get(ERASURE, id) or _local_order(write, id)
    current = [(KINDS[kind], write.get(KINDS[kind], one)) for kind, one in sorted(records)]
    older = [(kind, one) for kind, one in current if one and has_content(one) and is_covered(write, order, one)]
    if names := [one.name for kind, one in older if kind is PRINCIPAL]:
        _apply_order(write, order, names, received)
        return
    for kind, one in older:
        erase_memory(write, one) if isinstance(one, Memory) else write.purge(kind, one)
    title_groups.regroup(write, (), {title_groups.title_key(one) for _, one in older if isinstance(one, Memory)})
    if older:
        record_erasure(write, [id], order, count_records(older, received.new))


def _local_order(write: Transaction, id: str) -> ErasureOrder:
    """Rebuild an order from the local erasure table, for stores restored from a file."""
    erased = ERASED_PEOPLE.get(write.session, id)
    assert erased is not None, "its erasure was found above"
    return ErasureOrder(id, erased.ordered_at or 0, erased.agent, {}, erased.at, erased.at, write.origin, 1)


def _erase_again(write: Transaction, kind: Kind[Any], id: str, returned: Mapping[str, int]) -> bool:
    """Erase content that peers unaware of the order added to an erased record. Names written again later are kept."""
    record = write.get(kind, id)
    if record is None or (isinstance(record, Principal) and record.name):
        return False
    if field_versions.PURGED not in write.get_field_versions(kind, record).own:
        return False
    if not (returned or _is_in_journal(write, kind, id) or _has_new_content(write, kind, record)):
        return False
    erase_memory(write, record, returned) if isinstance(record, Memory) else write.purge(kind, record, taken=returned)
    return True


def _is_in_journal(write: Transaction, kind: Kind[Any], id: str) -> bool:
    """Return whether the journal still has content of an erased record; snapshots of erased records have none."""
    rows = write.session.rows("record_bodies", id=id, kind=kind.name)
    whole = [msgspec.json.decode(body, type=kind.type) for origin, body in rows if origin == RECORD_SNAPSHOT and body]
    return len(whole) < len(rows) or any(one.state != "deleted" for one in whole)


def _has_new_content(write: Transaction, kind: Kind[Any], record: Any) -> bool:
    """Return whether any field of an erased record differs from its tombstone."""
    versions = write.get_field_versions(kind, record)
    bare = (
        replace(tombstone_of(record), namespace=ERASED_NAMESPACE)
        if isinstance(record, Memory)
        else tombstone_of(record)
    )
    left = field_versions.flatten(kind.merge_schema, bare)
    parts = (*kind.merge_schema.set_fields, *kind.merge_schema.map_fields)
    return any(
        canonical_json(value) not in (canonical_json(left.get(name)), canonical_json(None), canonical_json(False))
        for name, cell in versions.own.items()
        if name in left or name.split(":", 1)[0] in parts
        for value in cell.values.values()
        if value is not AWAITED
    )
