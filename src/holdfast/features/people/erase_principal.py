"""Erase a person: all data goes; digests of the names, the time and the counts remain.

The order is replicated to other stores as a digest of each name; `erasure.py` applies it there.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from holdfast.features.llm import store as consulted
from holdfast.features.people.erase_person import erase_all
from holdfast.features.people.erasure_order import ERASURE, Erasure
from holdfast.features.people.principal import admit_name, id_of
from holdfast.features.people.store import known_as
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Forbidden, NotFound
from holdfast.kernel.journal.transaction import Transaction

NO_END = (1 << 62) - 1


class Tombstone(NamedTuple):
    """Record of an erasure, without any of the erased data."""

    ids: list[str]
    """A digest of each name."""
    at: int
    agent: str
    counts: dict[str, int]


def forget(hold: Hold, name: str) -> Tombstone:
    """Erase a person under all names, here and in every store that receives the order."""
    if "*" not in hold.caller.namespaces:
        raise Forbidden("Erasing a person needs a key that reaches every namespace.")
    with hold.writing() as write:
        names = known_as(write.session, admit_name(name, "name"))
        ids = [id_of(one) for one in names]
        order = Erasure("", _after_all(write, ids), hold.caller.agent, {}, write.now, write.now, write.origin, 1)
        for id in ids:
            pass_on(write, id, order)
        counts = erase_all(write, names, replace(order, ordered_at=NO_END))
        if not any(counts.values()):
            raise NotFound(f"Nothing is stored about {name!r}.")
        bury(write, ids, order, counts)
    return Tombstone(ids, write.now, hold.caller.agent, counts)


def remembered(hold: Hold, name: str) -> Tombstone:
    """Return the record of an erasure, given the name."""
    id = id_of(admit_name(name, "name"))
    with hold.reading() as session:
        row = session.row("forgotten_get", id=id)
    if row is None:
        raise NotFound(f"No erasure of {name!r} is recorded here.")
    return Tombstone([id], row[0], row[1], msgspec.json.decode(row[2], type=dict[str, int]))


def _after_all(write: Transaction, ids: list[str]) -> int:
    """Return a time after any earlier order."""
    known = [write.get(ERASURE, id) for id in ids]
    return max([write.now, *(one.ordered_at + 1 for one in known if one)])


def pass_on(write: Transaction, id: str, order: Erasure) -> None:
    """Journal an order for a name and this store's acknowledgement of it."""
    known, here = write.get(ERASURE, id), {write.origin: order.ordered_at}
    if known is None:
        fresh = Erasure(id, order.ordered_at, order.agent, here, write.now, write.now, write.origin, 1)
        write.add(ERASURE, fresh, "forget")
    elif known.ordered_at <= order.ordered_at:
        said = {"ordered_at": order.ordered_at, "agent": order.agent}
        write.change(ERASURE, known, replace(known, heard={**known.heard, **here}, **said), "forget")


def bury(write: Transaction, ids: list[str], order: Erasure, counts: Mapping[str, int]) -> None:
    """Record the erasure and its counts locally.

    Later finds under the same order are added; a later order that finds nothing changes no counts.
    """
    for id in ids:
        row, upto = write.session.row("forgotten_get", id=id), order.ordered_at
        told = row is not None and (row[3] >= upto or not any(counts.values()))
        at, agent, had, before = row if row and told else (write.now, order.agent, "{}", 0)
        total = Counter(msgspec.json.decode(had, type=dict[str, int]))
        total.update(counts)
        said = {"counts": msgspec.json.encode(total).decode(), "ordered_at": max(upto, before)}
        write.session.do("forgotten_put", id=id, at=at, agent=agent, **said)
    forget_words(write)


def forget_words(write: Transaction) -> None:
    consulted.forget(write.session)
    write.session.forget_words()
