"""Forgetting a person: everything that is kept of them is erased, and what remains is that it was, and when.

An order to forget somebody goes to other stores as a record of its own, by a digest of each name. Whoever takes it
erases what is kept there under such a name, and keeps nothing older out of what is told later.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from ..domain import cells
from ..domain.clock import STATE
from ..domain.erasure import Erasure
from ..domain.errors import Forbidden, NotFound
from ..domain.interaction import Interaction
from ..domain.memory import Memory
from ..domain.merge import AWAITED, canonical
from ..domain.people import BESIDE, FORGOTTEN, ROOT, name_of, place_of
from ..domain.principal import Principal, admit_name, id_of
from ..domain.purged import says, stub
from ..storage import consulted, titles
from ..storage.port import Session
from ..storage.principals import known_as
from ..storage.records import ERASURE, INTERACTION, KINDS, MEMORY, PRINCIPAL, Kind, Writing, memory_of
from ..storage.taking import OfSomebody, Taking, whose
from .hold import Hold
from .lifecycle import erase

PAGE = 5000
NO_END = (1 << 62) - 1
ROWS = {
    "task_runs": "forget_task_runs",
    "tasks": "forget_tasks",
    "phases": "forget_phases",
    "runs": "forget_runs",
    "usage": "forget_usage",
    "budgets": "forget_budgets",
    "sessions": "forget_sessions",
    "outcomes": "forget_outcomes",
    "conversations": "forget_conversations",
    "onboarding": "forget_onboarding",
}
"""What is kept of a person beside memories, in an order in which it can be taken away."""


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
            _pass_on(write, id, order)
        counts = _erase_all(write, names, replace(order, ordered_at=NO_END))
        if not any(counts.values()):
            raise NotFound(f"Nothing is kept of {name!r}.")
        _bury(write, ids, order, counts)
    return Tombstone(ids, write.now, hold.caller.agent, counts)


def heed(write: Writing, taking: Taking) -> None:
    """Forget whom other stores ordered to forget, and let nothing older of the forgotten come back.

    An order that was heeded already changes nothing. One for somebody whose other names were just erased comes first,
    so that what there was is told under each of the names.
    """
    swept = [_sweep(write, KINDS[kind], id, back) for (kind, id), back in sorted(taking.remains.items())]
    orders = [order for id in sorted(taking.erasures) if (order := write.get(ERASURE, id)) and _is_due(write, order)]
    known = {order.id: taking.known.get(order.id, ()) for order in orders}
    called = _called(write.session, known.keys(), taking.lost.values()) if orders else {}
    for order in sorted(orders, key=lambda one: -len(known[one.id])):
        if _is_due(write, order):
            _carry_out(write, order, (*known[order.id], *called.get(order.id, ())), taking)
    _keep_out(write, taking)
    if any(swept):
        _forget_words(write)


def _after_all(write: Writing, ids: list[str]) -> int:
    """A moment that is later than that of any order before."""
    known = [write.get(ERASURE, id) for id in ids]
    return max([write.now, *(one.ordered_at + 1 for one in known if one)])


def _pass_on(write: Writing, id: str, order: Erasure) -> None:
    """Journal an order for a name, and that this store has heard of it."""
    known, here = write.get(ERASURE, id), {write.origin: order.ordered_at}
    if known is None:
        fresh = Erasure(id, order.ordered_at, order.agent, here, write.now, write.now, write.origin, 1)
        write.add(ERASURE, fresh, "forget")
    elif known.ordered_at <= order.ordered_at:
        said = {"ordered_at": order.ordered_at, "agent": order.agent}
        write.change(ERASURE, known, replace(known, heard={**known.heard, **here}, **said), "forget")


def _is_due(write: Writing, order: Erasure) -> bool:
    row = write.session.row("forgotten_get", id=order.id)
    return row is None or row[3] < order.ordered_at


def _carry_out(write: Writing, order: Erasure, found: Iterable[str], taking: Taking) -> None:
    """Forget somebody here, under every name that they have here."""
    names = _linked(write, order, found)
    ids = sorted({order.id, *map(id_of, names)})
    for id in ids:
        _pass_on(write, id, order)
    lost = _lost(write, names, order, taking)
    held = Counter(_erase_all(write, names, order, taking.came))
    held.update(lost)
    _bury(write, ids, order, held)


def _lost(write: Writing, names: tuple[str, ...], order: Erasure, taking: Taking) -> Counter[str]:
    """How much there was of a person that was erased by what was just taken; each is counted once."""
    talks = _talks(write.session, names, order)
    gone = [
        (kind, id)
        for (kind, id), one in taking.lost.items()
        if (whose(one).intersection(names) or talks.hold(one)) and _is_gone(write, KINDS[kind], id)
    ]
    for key in gone:
        del taking.lost[key]
    return Counter(_COUNTED[kind] for kind, _ in gone)


def _is_gone(write: Writing, kind: Kind[Any], id: str) -> bool:
    record = write.get(kind, id)
    return record is None or not says(record)


def _linked(write: Writing, order: Erasure, found: Iterable[str]) -> tuple[str, ...]:
    """Every name of whoever has some: as they were known when it was ordered, not as they were called since."""
    names = list(dict.fromkeys(found))
    for name in names:
        behind = [row[0] for row in write.session.rows("principal_behind", names=[name])]
        links = [link for one in (name, *behind) if (link := write.get(PRINCIPAL, id_of(one)))]
        older = [link for link in links if link.stands_for and _is_written(write, order, link, "stands_for")]
        ends = dict.fromkeys(end for link in older for end in (link.name, link.stands_for))
        names += [end for end in ends if end and end not in names]
    return tuple(names)


def _bury(write: Writing, ids: list[str], order: Erasure, counts: Mapping[str, int]) -> None:
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
    _forget_words(write)


def _forget_words(write: Writing) -> None:
    consulted.forget(write.session)
    write.session.forget_words()


def _erase_all(
    write: Writing, names: tuple[str, ...], order: Erasure, came: Collection[tuple[str, str]] = ()
) -> dict[str, int]:
    """Erase all that an order reaches; how much that was, without what only just came."""
    found = _memories(write.session, names, order)
    for memory in found:
        _erase(write, memory)
    titles.settle(write, (), {titles.slot_of(memory) for memory in found})
    asked = _forget_interactions(write, names, order)
    rows = {
        what: len(write.session.rows(statement, names=list(names), upto=order.ordered_at))
        for what, statement in ROWS.items()
    }
    called = _forget_names(write, names, order)
    gone = ((MEMORY, found), (INTERACTION, asked), (PRINCIPAL, called))
    held = _held(((kind, one) for kind, some in gone for one in some), came)
    return {"memories": held["memories"], "interactions": held["interactions"], **rows, "names": held["names"]}


class _Talks(NamedTuple):
    """What was said to somebody, and summed up of it."""

    threads: set[str]
    summaries: set[str]

    def hold(self, one: OfSomebody) -> bool:
        return isinstance(one, Memory) and (one.thread in self.threads or one.id in self.summaries)


def _talks(session: Session, names: tuple[str, ...], order: Erasure) -> _Talks:
    talked = session.rows("conversations_of", names=list(names), upto=order.ordered_at)
    return _Talks({row[0] for row in talked}, {row[1] for row in talked if row[1] is not None})


def _memories(session: Session, names: tuple[str, ...], order: Erasure) -> list[Memory]:
    """What is said of a person, by them or to them, and what was summed up or learned for them."""
    talks = _talks(session, names, order)
    told = {id for id, name in _told_of(session) if name in names}
    places, ids = [place_of(name) for name in names], sorted(talks.summaries | told)
    rows = session.rows("memory_of_people", places=places, threads=sorted(talks.threads), ids=ids)
    found = map(memory_of, rows)
    return [one for one in found if talks.hold(one) or order.reaches(one.created_at, one.origin)]


def _told_of(session: Session) -> Iterator[tuple[str, Any]]:
    """Memories beside which it is noted of whom they are, and of whom."""
    after, mark = "", f'%"{BESIDE}":%'
    while page := session.rows("memory_saying", mark=mark, after=after, limit=PAGE):
        yield from ((id, msgspec.json.decode(metadata).get(BESIDE)) for id, metadata in page)
        after = page[-1][0]


def _called(session: Session, ids: Collection[str], lost: Iterable[OfSomebody]) -> dict[str, set[str]]:
    """The names of some digests, among those of whom anything is kept here, or was until just now."""
    places = (name_of(row[0]) for row in session.rows("places_kept", root=ROOT))
    known = {*places, *(row[0] for row in session.rows("names_kept")), *(name for _, name in _told_of(session))}
    known.update(name for one in lost for name in whose(one))
    found: dict[str, set[str]] = {}
    for name in known:
        if isinstance(name, str) and (id := id_of(name)) in ids:
            found.setdefault(id, set()).add(name)
    return found


def _erase(write: Writing, memory: Memory, taken: Mapping[str, int] | None = None) -> None:
    """What remains lies where nobody's name is."""
    erase(write, memory, replace(stub(memory), namespace=FORGOTTEN), taken)


def _forget_interactions(write: Writing, names: tuple[str, ...], order: Erasure) -> list[Interaction]:
    rows = write.session.rows("interaction_of_people", names=list(names))
    found = [one for one in map(INTERACTION.load, rows) if order.reaches(one.created_at, one.origin)]
    for one in found:
        write.purge(INTERACTION, one)
    return found


def _forget_names(write: Writing, names: tuple[str, ...], order: Erasure) -> list[Principal]:
    known = [write.get(PRINCIPAL, id_of(name)) for name in names]
    gone = [one for one in known if one is not None and one.name and _is_reached(write, order, one)]
    for one in gone:
        write.purge(PRINCIPAL, one)
    return gone


def _is_reached(write: Writing, order: Erasure, one: OfSomebody) -> bool:
    """Whether a record is older than an order; a name that was erased may have been told anew."""
    if isinstance(one, Principal):
        return _is_written(write, order, one, "name")
    return order.reaches(one.created_at, one.origin)


def _is_written(write: Writing, order: Erasure, one: Principal, field: str) -> bool:
    """Whether a field of a name was last written before an order."""
    last = max(write.cells_of(PRINCIPAL, one).cell(field, getattr(one, field)).values)
    return order.reaches((last.time >> 16) * 1000, last.origin)


def _keep_out(write: Writing, taking: Taking) -> None:
    """Erase of what was just taken what is older than an order that was heeded here before."""
    ids = {id_of(name): name for name in taking.people}
    for (id,) in write.session.rows("forgotten_some", ids=sorted(ids)) if ids else []:
        _keep_one_out(write, id, taking.people[ids[id]], taking)


def _keep_one_out(write: Writing, id: str, records: Collection[tuple[str, str]], taking: Taking) -> None:
    order = write.get(ERASURE, id) or _once_ordered(write, id)
    held = [(KINDS[kind], write.get(KINDS[kind], one)) for kind, one in sorted(records)]
    late = [(kind, one) for kind, one in held if one and says(one) and _is_reached(write, order, one)]
    if names := [one.name for kind, one in late if kind is PRINCIPAL]:
        _carry_out(write, order, names, taking)
        return
    for kind, one in late:
        _erase(write, one) if isinstance(one, Memory) else write.purge(kind, one)
    titles.settle(write, (), {titles.slot_of(one) for _, one in late if isinstance(one, Memory)})
    if late:
        _bury(write, [id], order, _held(late, taking.came))


def _once_ordered(write: Writing, id: str) -> Erasure:
    """What a store was ordered whose records were brought here by a file."""
    at, agent, _, ordered_at = write.session.row("forgotten_get", id=id) or (0, "", "", 0)
    return Erasure(id, ordered_at, agent, {}, at, at, write.origin, 1)


_COUNTED = {"memory": "memories", "interaction": "interactions", "principal": "names"}


def _held(gone: Iterable[tuple[Kind[Any], Any]], came: Collection[tuple[str, str]]) -> Counter[str]:
    """How many of some records were here before what was just taken."""
    return Counter(_COUNTED[kind.name] for kind, one in gone if (kind.name, one.id) not in came)


def _sweep(write: Writing, kind: Kind[Any], id: str, back: Mapping[str, int]) -> bool:
    """Erase again what who had not heard of it said meanwhile about what was erased with a person.

    A name that was told anew is not among that.
    """
    record = write.get(kind, id)
    if record is None or (isinstance(record, Principal) and record.name):
        return False
    if cells.PURGED not in write.cells_of(kind, record).own:
        return False
    if not (back or _is_told_of(write, kind, id) or _came_back(write, kind, record)):
        return False
    _erase(write, record, back) if isinstance(record, Memory) else write.purge(kind, record, taken=back)
    return True


def _is_told_of(write: Writing, kind: Kind[Any], id: str) -> bool:
    """Whether the journal holds what an erased record said; one that came whole and erased said nothing."""
    said = write.session.rows("record_said", id=id, kind=kind.name)
    whole = [msgspec.json.decode(body, type=kind.type) for origin, body in said if origin == STATE and body]
    return len(whole) < len(said) or any(one.state != "deleted" for one in whole)


def _came_back(write: Writing, kind: Kind[Any], record: Any) -> bool:
    """Whether any cell of an erased record holds something else than was left of it."""
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


def remembered(hold: Hold, name: str) -> Tombstone:
    """That somebody was forgotten, for whoever still knows the name."""
    id = id_of(admit_name(name, "name"))
    with hold.reading() as session:
        row = session.row("forgotten_get", id=id)
    if row is None:
        raise NotFound(f"Nobody of the name {name!r} was forgotten here.")
    return Tombstone([id], row[0], row[1], msgspec.json.decode(row[2], type=dict[str, int]))
