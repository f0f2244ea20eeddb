"""Forgetting a person: everything that is kept of them is erased, and what remains is that it was, and when."""

from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from ..domain.errors import Forbidden, NotFound
from ..domain.memory import Memory
from ..domain.people import FORGOTTEN, place_of
from ..domain.principal import admit_name, id_of
from ..domain.purged import stub
from ..storage import consulted
from ..storage.port import Session
from ..storage.principals import known_as
from ..storage.records import INTERACTION, PRINCIPAL, Writing, memory_of
from .hold import Hold
from .lifecycle import erase

PAGE = 500
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
    """Erase what is kept of a person under any of their names: rows, history, index entries and vectors."""
    if "*" not in hold.caller.namespaces:
        raise Forbidden("A person is forgotten everywhere: that takes a key that reaches every namespace.")
    with hold.writing() as write:
        names = known_as(write.session, admit_name(name, "name"))
        found = _memories(write.session, names)
        for memory in found:
            _erase(write, memory)
        counts = {"memories": len(found), "interactions": _forget_interactions(write, names)}
        for what, statement in ROWS.items():
            counts[what] = len(write.session.rows(statement, names=list(names)))
        counts["names"] = _forget_names(write, names)
        if not any(counts.values()):
            raise NotFound(f"Nothing is kept of {name!r}.")
        consulted.forget(write.session)
        write.session.forget_words()
        ids = [id_of(one) for one in names]
        for id in ids:
            told = {"at": write.now, "agent": hold.caller.agent, "counts": msgspec.json.encode(counts).decode()}
            write.session.do("forgotten_put", id=id, **told)
    return Tombstone(ids, write.now, hold.caller.agent, counts)


def _memories(session: Session, names: tuple[str, ...]) -> list[Memory]:
    """What is said of a person, by them or to them, and what was summed up or learned for them."""
    talked = session.rows("conversations_of", names=list(names))
    rows = session.rows(
        "memory_of_people",
        places=[place_of(name) for name in names],
        threads=[row[0] for row in talked],
        ids=[row[1] for row in talked if row[1] is not None],
    )
    found = {row[0]: memory_of(row) for row in rows}
    after = ""
    while page := session.rows("memory_of_kind", kind="lesson", after=after, limit=PAGE):
        lessons = [memory_of(row) for row in page]
        found |= {one.id: one for one in lessons if one.metadata.get("principal") in names}
        after = lessons[-1].id
    return list(found.values())


def _erase(write: Writing, memory: Memory) -> None:
    """What remains lies where nobody's name is."""
    erase(write, memory, replace(stub(memory), namespace=FORGOTTEN))


def _forget_interactions(write: Writing, names: tuple[str, ...]) -> int:
    found = [INTERACTION.load(row) for row in write.session.rows("interaction_of_people", names=list(names))]
    for one in found:
        write.purge(INTERACTION, one)
    return len(found)


def _forget_names(write: Writing, names: tuple[str, ...]) -> int:
    known = [write.get(PRINCIPAL, id_of(name)) for name in names]
    gone = [one for one in known if one is not None and one.name]
    for one in gone:
        write.purge(PRINCIPAL, one)
    return len(gone)


def remembered(hold: Hold, name: str) -> Tombstone:
    """That somebody was forgotten, for whoever still knows the name."""
    id = id_of(admit_name(name, "name"))
    with hold.reading() as session:
        row = session.row("forgotten_get", id=id)
    if row is None:
        raise NotFound(f"Nobody of the name {name!r} was forgotten here.")
    return Tombstone([id], row[0], row[1], msgspec.json.decode(row[2], type=dict[str, int]))
