"""Erase a person: all data goes; digests of the names, the time and the counts remain.

The order is replicated to other stores as a digest of each name; `erasure.py` applies it there.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.people.erase_person import erase_all
from holdfast.features.people.erasure_order import ERASURE, ErasureOrder
from holdfast.features.people.principal import principal_id, validate_name
from holdfast.features.people.resolve_names import list_names
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Forbidden, NotFound
from holdfast.kernel.journal.redact import clear_derived_text
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.fields import Agent, Count, RowId, Timestamp
from holdfast.kernel.storage.local_table import Export, LocalTable
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


class ErasureResult(NamedTuple):
    """Record of an erasure, without any of the erased data."""

    ids: list[str]
    """A digest of each name."""
    at: int
    agent: str
    counts: dict[str, int]


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
