"""Observations with searchable parts, and limitations that stay open until resolved."""

from typing import Any

import pytest

import holdfast
from holdfast.kernel.errors import Conflict, Invalid, NotFound


def save(ctx: Any, title: str = "Lock held over a request", **more: Any) -> Any:
    return ctx.observation_save(**{"title": title, "type": "bugfix", **more})


def test_an_observation_keeps_its_parts_and_is_found_by_each(clocked_store: holdfast.Holdfast) -> None:
    made = save(
        clocked_store, what="The pool waited.", why="A timeout was missing.", where="pool.py", learned="Set timeouts."
    )
    assert (made.what, made.why, made.where, made.learned) == (
        "The pool waited.",
        "A timeout was missing.",
        "pool.py",
        "Set timeouts.",
    )
    assert made.created_at == made.updated_at
    for words in ("lock request", "pool waited", "timeout missing", "pool.py", "timeouts"):
        assert [one.id for one in clocked_store.observation_search(query=words).observations] == [made.id]
    assert clocked_store.recall("why did the pool wait").memories[0].id == made.id
    assert save(clocked_store, "Only a title").what is None


def test_observations_have_seven_types_and_may_share_a_title(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    first, second = save(clocked_store), save(clocked_store, type="decision")
    assert first.id != second.id
    assert [one.id for one in clocked_store.observation_search(type=["decision"]).observations] == [second.id]
    clock.move(days=1)
    third = save(clocked_store, "Another")
    assert [one.id for one in clocked_store.observation_search(since=clock.after()).observations] == [third.id]
    for bad in ("Bugfix", "chore", ""):
        with pytest.raises(Invalid):
            save(clocked_store, type=bad)
    with pytest.raises(Invalid):
        save(clocked_store, "")


def test_an_observation_is_updated_deleted_and_restored(clocked_store: holdfast.Holdfast) -> None:
    made = save(clocked_store, what="The pool waited.", why="Unknown.")
    changed = clocked_store.observation_update(id=made.id, why="A timeout was missing.", what="")
    assert (changed.what, changed.why, changed.title) == (None, "A timeout was missing.", made.title)
    assert clocked_store.observation_search(query="unknown").count == 0
    clocked_store.archive(ids=[made.id])
    assert clocked_store.observation_search().count == 0
    clocked_store.archive_restore(id=made.id)
    assert clocked_store.observation_search(query="timeout").count == 1
    note = clocked_store.store(title="A note", content="Not an observation of a sort.")
    with pytest.raises(NotFound):
        clocked_store.observation_update(id=note.id, what="x")


def test_a_limitation_is_stored_once_and_gains_evidence(clocked_store: holdfast.Holdfast) -> None:
    first = clocked_store.limitation_add(title="Cannot read scans", description="No text recognition.", plan="Add one.")
    again = clocked_store.limitation_add(title="cannot READ scans", evidence="A scanned letter came.")
    assert (first.created, again.created, again.limitation.id) == (True, False, first.limitation.id)
    assert (again.limitation.seen, again.limitation.plan, again.limitation.description) == (
        2,
        "Add one.",
        "No text recognition.",
    )
    assert clocked_store.limitation_add(title="Cannot read scans", namespace="shop").created


def test_a_resolved_limitation_is_reopened_when_added_again(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    one = clocked_store.limitation_add(title="One").limitation
    clock.move(seconds=1)
    two = clocked_store.limitation_add(title="Two").limitation
    assert [each.title for each in clocked_store.limitation_list().limitations] == ["One", "Two"]
    done = clocked_store.limitation_resolve(id=one.id, how="Bought a scanner.")
    assert (done.status, done.how) == ("resolved", "Bought a scanner.")
    with pytest.raises(Conflict):
        clocked_store.limitation_resolve(id=one.id)
    assert [each.id for each in clocked_store.limitation_list().limitations] == [two.id]
    assert clocked_store.limitation_list(status="all").count == 2
    assert clocked_store.limitation_add(title="one").limitation.status == "open"
    with pytest.raises(NotFound):
        clocked_store.limitation_resolve(id="no-such-limitation")
