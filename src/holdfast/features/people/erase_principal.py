"""Forgetting a person: everything that is kept of them is erased, and what remains is that it was, and when.

An order to forget somebody goes to other stores as a record of its own, by a digest of each name: `heed` says what
they make of it.
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
    """That somebody was forgotten: no word of what was known."""

    ids: list[str]
    """A digest of each name."""
    at: int
    agent: str
    counts: dict[str, int]


def forget(hold: Hold, name: str) -> Tombstone:
    """Erase what is kept of a person under any of their names, here and wherever this order comes to."""
    if "*" not in hold.caller.namespaces:
        raise Forbidden("A person is forgotten everywhere: that takes a key that reaches every namespace.")
    with hold.writing() as write:
        names = known_as(write.session, admit_name(name, "name"))
        ids = [id_of(one) for one in names]
        order = Erasure("", _after_all(write, ids), hold.caller.agent, {}, write.now, write.now, write.origin, 1)
        for id in ids:
            pass_on(write, id, order)
        counts = erase_all(write, names, replace(order, ordered_at=NO_END))
        if not any(counts.values()):
            raise NotFound(f"Nothing is kept of {name!r}.")
        bury(write, ids, order, counts)
    return Tombstone(ids, write.now, hold.caller.agent, counts)


def remembered(hold: Hold, name: str) -> Tombstone:
    """That somebody was forgotten, for whoever still knows the name."""
    id = id_of(admit_name(name, "name"))
    with hold.reading() as session:
        row = session.row("forgotten_get", id=id)
    if row is None:
        raise NotFound(f"Nobody of the name {name!r} was forgotten here.")
    return Tombstone([id], row[0], row[1], msgspec.json.decode(row[2], type=dict[str, int]))


def _after_all(write: Transaction, ids: list[str]) -> int:
    """A moment that is later than that of any order before."""
    known = [write.get(ERASURE, id) for id in ids]
    return max([write.now, *(one.ordered_at + 1 for one in known if one)])


def pass_on(write: Transaction, id: str, order: Erasure) -> None:
    """Journal an order for a name, and that this store has heard of it."""
    known, here = write.get(ERASURE, id), {write.origin: order.ordered_at}
    if known is None:
        fresh = Erasure(id, order.ordered_at, order.agent, here, write.now, write.now, write.origin, 1)
        write.add(ERASURE, fresh, "forget")
    elif known.ordered_at <= order.ordered_at:
        said = {"ordered_at": order.ordered_at, "agent": order.agent}
        write.change(ERASURE, known, replace(known, heard={**known.heard, **here}, **said), "forget")


def bury(write: Transaction, ids: list[str], order: Erasure, counts: Mapping[str, int]) -> None:
    """Keep that it was done here, and how much there was.

    More that comes up under the same order is added, and a later one that finds nothing changes nothing of that.
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
