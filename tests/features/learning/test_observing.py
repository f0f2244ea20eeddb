"""What was seen and what was found lacking: kept part by part, found by its words, open until it is resolved."""

from typing import Any

import pytest
from msgspec import UNSET

import holdfast
from holdfast.kernel.errors import Conflict, Invalid, NotFound


def save(hold: Any, title: str = "Lock held over a request", **more: Any) -> Any:
    return hold.observation_save(**{"title": title, "type": "bugfix", **more})


def test_an_observation_comes_back_part_by_part_and_is_found_by_any(timed: holdfast.Holdfast) -> None:
    made = save(timed, what="The pool waited.", why="A timeout was missing.", where="pool.py", learned="Set timeouts.")
    assert (made.what, made.why, made.where, made.learned) == (
        "The pool waited.",
        "A timeout was missing.",
        "pool.py",
        "Set timeouts.",
    )
    assert made.created_at == made.updated_at
    for words in ("lock request", "pool waited", "timeout missing", "pool.py", "timeouts"):
        assert [one.id for one in timed.observation_search(query=words).observations] == [made.id]
    assert timed.recall("why did the pool wait").memories[0].id == made.id
    assert save(timed, "Only a title").what is UNSET


def test_observations_are_of_seven_sorts_and_each_is_of_its_own_time(timed: holdfast.Holdfast, clock: Any) -> None:
    first, second = save(timed), save(timed, type="decision")
    assert first.id != second.id
    assert [one.id for one in timed.observation_search(type=["decision"]).observations] == [second.id]
    clock.move(days=1)
    third = save(timed, "Another")
    assert [one.id for one in timed.observation_search(since=clock.after()).observations] == [third.id]
    for bad in ("Bugfix", "chore", ""):
        with pytest.raises(Invalid):
            save(timed, type=bad)
    with pytest.raises(Invalid):
        save(timed, "")


def test_an_observation_is_revised_deleted_and_brought_back(timed: holdfast.Holdfast) -> None:
    made = save(timed, what="The pool waited.", why="Unknown.")
    changed = timed.observation_update(id=made.id, why="A timeout was missing.", what="")
    assert (changed.what, changed.why, changed.title) == (UNSET, "A timeout was missing.", made.title)
    assert timed.observation_search(query="unknown").count == 0
    timed.archive(ids=[made.id])
    assert timed.observation_search().count == 0
    timed.archive_restore(id=made.id)
    assert timed.observation_search(query="timeout").count == 1
    note = timed.store(title="A note", content="Not an observation of a sort.")
    with pytest.raises(NotFound):
        timed.observation_update(id=note.id, what="x")


def test_a_limitation_is_noted_once_and_gains_evidence(timed: holdfast.Holdfast) -> None:
    first = timed.limitation_add(title="Cannot read scans", description="No text recognition.", plan="Add one.")
    again = timed.limitation_add(title="cannot READ scans", evidence="A scanned letter came.")
    assert (first.created, again.created, again.limitation.id) == (True, False, first.limitation.id)
    assert (again.limitation.seen, again.limitation.plan, again.limitation.description) == (
        2,
        "Add one.",
        "No text recognition.",
    )
    assert timed.limitation_add(title="Cannot read scans", namespace="shop").created


def test_a_limitation_is_open_until_it_is_resolved_and_again_when_it_is_met(
    timed: holdfast.Holdfast, clock: Any
) -> None:
    one = timed.limitation_add(title="One").limitation
    clock.move(seconds=1)
    two = timed.limitation_add(title="Two").limitation
    assert [each.title for each in timed.limitation_list().limitations] == ["One", "Two"]
    done = timed.limitation_resolve(id=one.id, how="Bought a scanner.")
    assert (done.status, done.how) == ("resolved", "Bought a scanner.")
    with pytest.raises(Conflict):
        timed.limitation_resolve(id=one.id)
    assert [each.id for each in timed.limitation_list().limitations] == [two.id]
    assert timed.limitation_list(status="all").count == 2
    assert timed.limitation_add(title="one").limitation.status == "open"
    with pytest.raises(NotFound):
        timed.limitation_resolve(id="no-such-limitation")
