"""Erasing a person leaves no data in any table, and a record of the erasure."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.kernel.errors import Conflict, Forbidden, NotFound
from person_data import tell_of

NAMES = ("quetzalcoatlus", "slack:Uxochitl")
WORDS = ("quetzalcoatlus", "xochitl", "tlaloc", "cuauhtemoc")


@pytest.fixture
def people_store(clocked_store: holdfast.Holdfast, clock: Any) -> holdfast.Holdfast:
    """A store with every kind of record about a person, under two names, and about another person."""
    clocked_store.principal_merge(alias=NAMES[1], principal=NAMES[0])
    clocked_store.principal_describe(name=NAMES[0], display="cuauhtemoc")
    for who in (*NAMES, "bob"):
        word = "tlaloc" if who in NAMES else "sunflower"
        tell_of(clocked_store, who, word)
        clocked_store.fact_set(key=f"{word} city", value=f"moved to {word}", principal=who)
    clocked_store.onboarding_tell(step="introduce", principal=NAMES[0])
    clock.move(hours=3)
    clocked_store.conversation_reap()
    return clocked_store


def dump(hold: holdfast.Holdfast) -> str:
    """Return the contents of all tables as text."""
    with hold.ctx.store.reading() as session:
        return "\n".join(str(row).lower() for name in TABLES for row in session.query_sql(f"select * from {name}", {}))


TABLES = (
    "memory",
    "journal",
    "principal",
    "conversation",
    "task",
    "task_run",
    "usage",
    "budget",
    "run",
    "run_phase",
    "provider_session",
    "outcome",
    "interaction",
    "onboarding",
    "erased_person",
    "memory_tag",
)


def test_an_erasure_leaves_nothing_of_the_person_and_everything_of_others(people_store: holdfast.Holdfast) -> None:
    assert all(word in dump(people_store) for word in WORDS)
    gone = people_store.principal_purge(name=NAMES[1])
    assert gone.counts["memories"] == 5
    assert {
        "tasks": 1,
        "usage": 2,
        "runs": 2,
        "budgets": 2,
        "names": 2,
        "interactions": 2,
        "onboarding": 1,
    }.items() <= gone.counts.items()
    left = dump(people_store)
    assert [word for word in WORDS if word in left] == []
    assert people_store.recall("tlaloc").count == 0
    assert people_store.fact_list(principal="bob").count == 1
    assert people_store.task_list(principal=["bob"]).count == 1
    assert people_store.recall("sunflower").count > 0
    assert people_store.verify().intact
    assert people_store.ctx.store.faults() == []


def test_an_erasure_can_be_shown_by_name(people_store: holdfast.Holdfast) -> None:
    with pytest.raises(NotFound):
        people_store.principal_forgotten(name=NAMES[0])
    gone = people_store.principal_purge(name=NAMES[0])
    for name in NAMES:
        shown = people_store.principal_forgotten(name=name)
        assert (shown.counts, shown.at) == (gone.counts, gone.at)
    with pytest.raises(NotFound):
        people_store.principal_purge(name=NAMES[0])
    order = next(one for one in people_store.events(after=0, limit=1000).events if one.kind == "erasure")
    with pytest.raises(Conflict):
        people_store.undo(change=order.seq)
    people_store.principal_merge(alias=NAMES[1], principal=NAMES[0])
    assert people_store.principal_show(name=NAMES[1]).names == list(NAMES)
    people_store.fact_set(key="city", value="back again", principal=NAMES[0])
    assert people_store.fact_get(key="city", principal=NAMES[0]).value == "back again"


def test_the_file_contains_no_word_of_an_erased_person(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with holdfast.open(str(path)) as hold:
        hold.fact_set(key="city", value="tlaloc", principal="xochitl")
        hold.principal_merge(alias="slack:xochitl", principal="xochitl")
        hold.principal_purge(name="xochitl")
    content = path.read_bytes().lower()
    assert b"tlaloc" not in content
    assert b"xochitl" not in content


def test_erasing_a_person_requires_access_to_every_namespace(
    people_store: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    with pytest.raises(Forbidden):
        seen_by("ai:key@here", right="admin", namespaces=("people",)).principal_purge(name="bob")
    with pytest.raises(Forbidden):
        seen_by("ai:key@here", right="write").principal_purge(name="bob")
    assert people_store.fact_list(principal="bob").count == 1
