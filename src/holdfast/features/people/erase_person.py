"""Find and erase everything stored about a person."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from holdfast.features.access.interaction import INTERACTION, Interaction
from holdfast.features.memories.lifecycle import erase
from holdfast.features.people.erasure_order import Erasure
from holdfast.features.people.person_namespace import BESIDE, FORGOTTEN, ROOT, name_of, place_of
from holdfast.features.people.principal import PRINCIPAL, Principal, id_of
from holdfast.features.sync.apply_changes import OfSomebody, whose
from holdfast.kernel.journal import title_groups as titles
from holdfast.kernel.journal.kinds import MEMORY, Kind, memory_of
from holdfast.kernel.journal.kinds import tombstone_of as stub
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session

PAGE = 5000
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
"""Erase statements for other records than memories, in deletion order."""
COUNTED = {"memory": "memories", "interaction": "interactions", "principal": "names"}
"""Names of the record kinds in erasure counts."""


def erase_all(
    write: Transaction, names: tuple[str, ...], order: Erasure, came: Collection[tuple[str, str]] = ()
) -> dict[str, int]:
    """Erase everything an order covers; return the counts, without records that only just arrived."""
    found = _memories(write.session, names, order)
    for memory in found:
        erase_memory(write, memory)
    titles.settle(write, (), {titles.slot_of(memory) for memory in found})
    asked = _forget_interactions(write, names, order)
    rows = {
        what: len(write.session.rows(statement, names=list(names), upto=order.ordered_at))
        for what, statement in ROWS.items()
    }
    called = _forget_names(write, names, order)
    gone = ((MEMORY, found), (INTERACTION, asked), (PRINCIPAL, called))
    held = counted(((kind, one) for kind, some in gone for one in some), came)
    return {"memories": held["memories"], "interactions": held["interactions"], **rows, "names": held["names"]}


def counted(gone: Iterable[tuple[Kind[Any], Any]], came: Collection[tuple[str, str]]) -> Counter[str]:
    """Count records by kind, without those that only just arrived."""
    return Counter(COUNTED[kind.name] for kind, one in gone if (kind.name, one.id) not in came)


class Talks(NamedTuple):
    """Ids of a person's conversation threads and their summaries."""

    threads: set[str]
    summaries: set[str]

    def hold(self, one: OfSomebody) -> bool:
        return isinstance(one, Memory) and (one.thread in self.threads or one.id in self.summaries)


def talks_of(session: Session, names: tuple[str, ...], order: Erasure) -> Talks:
    talked = session.rows("conversations_of", names=list(names), upto=order.ordered_at)
    return Talks({row[0] for row in talked}, {row[1] for row in talked if row[1] is not None})


def _memories(session: Session, names: tuple[str, ...], order: Erasure) -> list[Memory]:
    """Find memories about a person: facts, turns, summaries, lessons and tagged memories."""
    talks = talks_of(session, names, order)
    told = {id for id, name in _told_of(session) if name in names}
    places, ids = [place_of(name) for name in names], sorted(talks.summaries | told)
    rows = session.rows("memory_of_people", places=places, threads=sorted(talks.threads), ids=ids)
    found = map(memory_of, rows)
    return [one for one in found if talks.hold(one) or order.reaches(one.created_at, one.origin)]


def _told_of(session: Session) -> Iterator[tuple[str, Any]]:
    """Iterate memories whose metadata names a person, with that name."""
    after, mark = "", f'%"{BESIDE}":%'
    while page := session.rows("memory_saying", mark=mark, after=after, limit=PAGE):
        yield from ((id, msgspec.json.decode(metadata).get(BESIDE)) for id, metadata in page)
        after = page[-1][0]


def names_behind(session: Session, ids: Collection[str], lost: Iterable[OfSomebody]) -> dict[str, set[str]]:
    """Find the names behind digests among all people known here, including those just erased."""
    places = (name_of(row[0]) for row in session.rows("places_kept", root=ROOT))
    known = {*places, *(row[0] for row in session.rows("names_kept")), *(name for _, name in _told_of(session))}
    known.update(name for one in lost for name in whose(one))
    found: dict[str, set[str]] = {}
    for name in known:
        if isinstance(name, str) and (id := id_of(name)) in ids:
            found.setdefault(id, set()).add(name)
    return found


def erase_memory(write: Transaction, memory: Memory, taken: Mapping[str, int] | None = None) -> None:
    """Erase a memory; its tombstone moves to a namespace without the person's name."""
    erase(write, memory, replace(stub(memory), namespace=FORGOTTEN), taken)


def _forget_interactions(write: Transaction, names: tuple[str, ...], order: Erasure) -> list[Interaction]:
    rows = write.session.rows("interaction_of_people", names=list(names))
    found = [one for one in map(INTERACTION.load, rows) if order.reaches(one.created_at, one.origin)]
    for one in found:
        write.purge(INTERACTION, one)
    return found


def _forget_names(write: Transaction, names: tuple[str, ...], order: Erasure) -> list[Principal]:
    known = [write.get(PRINCIPAL, id_of(name)) for name in names]
    gone = [one for one in known if one is not None and one.name and is_reached(write, order, one)]
    for one in gone:
        write.purge(PRINCIPAL, one)
    return gone


def is_reached(write: Transaction, order: Erasure, one: OfSomebody) -> bool:
    """Return whether an order covers a record. A name counts by its last write: it may have been written again."""
    if isinstance(one, Principal):
        return is_written(write, order, one, "name")
    return order.reaches(one.created_at, one.origin)


def is_written(write: Transaction, order: Erasure, one: Principal, field: str) -> bool:
    """Return whether a field of a name was last written before an order."""
    last = max(write.cells_of(PRINCIPAL, one).cell(field, getattr(one, field)).values)
    return order.reaches((last.time >> 16) * 1000, last.origin)
