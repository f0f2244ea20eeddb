"""Apply erasure orders replicated from peers.

A store that receives an erasure deletes the person's data and rejects older copies of it afterwards.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.features.people.erase_person import (
    COUNTED,
    counted,
    erase_all,
    erase_memory,
    is_reached,
    is_written,
    names_behind,
    talks_of,
)
from holdfast.features.people.erase_principal import bury, forget_words, pass_on
from holdfast.features.people.erasure_order import ERASURE, Erasure
from holdfast.features.people.person_namespace import FORGOTTEN
from holdfast.features.people.principal import PRINCIPAL, Principal, id_of
from holdfast.features.sync.apply_changes import Taking, whose
from holdfast.kernel.clock import STATE
from holdfast.kernel.journal import title_groups as titles
from holdfast.kernel.journal.kinds import KINDS, Kind
from holdfast.kernel.journal.kinds import tombstone_of as stub
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import field_versions as cells
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.merge import AWAITED, canonical
from holdfast.kernel.records.tombstone import has_content as says


def heed(write: Transaction, taking: Taking) -> None:
    """Apply erasure orders from peers and reject older data of erased people. Idempotent.

    Orders for the people with most erased names come first, so that the counts are recorded under each name.
    """
    swept = [_sweep(write, KINDS[kind], id, back) for (kind, id), back in sorted(taking.remains.items())]
    orders = [order for id in sorted(taking.erasures) if (order := write.get(ERASURE, id)) and _is_due(write, order)]
    known = {order.id: taking.known.get(order.id, ()) for order in orders}
    called = names_behind(write.session, known.keys(), taking.lost.values()) if orders else {}
    for order in sorted(orders, key=lambda one: -len(known[one.id])):
        if _is_due(write, order):
            _carry_out(write, order, (*known[order.id], *called.get(order.id, ())), taking)
    _keep_out(write, taking)
    if any(swept):
        forget_words(write)


def _is_due(write: Transaction, order: Erasure) -> bool:
    row = write.session.row("forgotten_get", id=order.id)
    return row is None or row[3] < order.ordered_at


def _carry_out(write: Transaction, order: Erasure, found: Iterable[str], taking: Taking) -> None:
    """Erase a person under every name known here."""
    names = _linked(write, order, found)
    ids = sorted({order.id, *map(id_of, names)})
    for id in ids:
        pass_on(write, id, order)
    lost = _lost(write, names, order, taking)
    held = Counter(erase_all(write, names, order, taking.came))
    held.update(lost)
    bury(write, ids, order, held)


def _lost(write: Transaction, names: tuple[str, ...], order: Erasure, taking: Taking) -> Counter[str]:
    """Count a person's records that the incoming changes erased; each counts once."""
    talks = talks_of(write.session, names, order)
    gone = [
        (kind, id)
        for (kind, id), one in taking.lost.items()
        if (whose(one).intersection(names) or talks.hold(one)) and _is_gone(write, KINDS[kind], id)
    ]
    for key in gone:
        del taking.lost[key]
    return Counter(COUNTED[kind] for kind, _ in gone)


def _is_gone(write: Transaction, kind: Kind[Any], id: str) -> bool:
    record = write.get(kind, id)
    return record is None or not says(record)


def _linked(write: Transaction, order: Erasure, found: Iterable[str]) -> tuple[str, ...]:
    """Return all names of a person, using only aliases that are older than the order."""
    names = list(dict.fromkeys(found))
    for name in names:
        behind = [row[0] for row in write.session.rows("principal_behind", names=[name])]
        links = [link for one in (name, *behind) if (link := write.get(PRINCIPAL, id_of(one)))]
        older = [link for link in links if link.stands_for and is_written(write, order, link, "stands_for")]
        ends = dict.fromkeys(end for link in older for end in (link.name, link.stands_for))
        names += [end for end in ends if end and end not in names]
    return tuple(names)


def _keep_out(write: Transaction, taking: Taking) -> None:
    """Erase incoming data that is older than an order applied here before."""
    ids = {id_of(name): name for name in taking.people}
    for (id,) in write.session.rows("forgotten_some", ids=sorted(ids)) if ids else []:
        _keep_one_out(write, id, taking.people[ids[id]], taking)


def _keep_one_out(write: Transaction, id: str, records: Collection[tuple[str, str]], taking: Taking) -> None:
    order = write.get(ERASURE, id) or _once_ordered(write, id)
    held = [(KINDS[kind], write.get(KINDS[kind], one)) for kind, one in sorted(records)]
    late = [(kind, one) for kind, one in held if one and says(one) and is_reached(write, order, one)]
    if names := [one.name for kind, one in late if kind is PRINCIPAL]:
        _carry_out(write, order, names, taking)
        return
    for kind, one in late:
        erase_memory(write, one) if isinstance(one, Memory) else write.purge(kind, one)
    titles.settle(write, (), {titles.slot_of(one) for _, one in late if isinstance(one, Memory)})
    if late:
        bury(write, [id], order, counted(late, taking.came))


def _once_ordered(write: Transaction, id: str) -> Erasure:
    """Rebuild an order from the local erasure table, for stores restored from a file."""
    at, agent, _, ordered_at = write.session.row("forgotten_get", id=id) or (0, "", "", 0)
    return Erasure(id, ordered_at, agent, {}, at, at, write.origin, 1)


def _sweep(write: Transaction, kind: Kind[Any], id: str, back: Mapping[str, int]) -> bool:
    """Erase content that peers unaware of the order added to an erased record. Names written again later are kept."""
    record = write.get(kind, id)
    if record is None or (isinstance(record, Principal) and record.name):
        return False
    if cells.PURGED not in write.cells_of(kind, record).own:
        return False
    if not (back or _is_told_of(write, kind, id) or _came_back(write, kind, record)):
        return False
    erase_memory(write, record, back) if isinstance(record, Memory) else write.purge(kind, record, taken=back)
    return True


def _is_told_of(write: Transaction, kind: Kind[Any], id: str) -> bool:
    """Return whether the journal still has content of an erased record; snapshots of erased records have none."""
    said = write.session.rows("record_said", id=id, kind=kind.name)
    whole = [msgspec.json.decode(body, type=kind.type) for origin, body in said if origin == STATE and body]
    return len(whole) < len(said) or any(one.state != "deleted" for one in whole)


def _came_back(write: Transaction, kind: Kind[Any], record: Any) -> bool:
    """Return whether any field of an erased record differs from its tombstone."""
    held = write.cells_of(kind, record)
    bare = replace(stub(record), namespace=FORGOTTEN) if isinstance(record, Memory) else stub(record)
    left = cells.flatten(kind.shape, bare)
    parts = (*kind.shape.sets, *kind.shape.maps)
    return any(
        canonical(value) not in (canonical(left.get(name)), canonical(None), canonical(False))
        for name, cell in held.own.items()
        if name in left or name.split(":", 1)[0] in parts
        for value in cell.values.values()
        if value is not AWAITED
    )
