"""Rollback to an earlier version; deletion keeps the history."""

from typing import Any

import pytest
from skill_samples import TEXT, count_entries, skill_text

import holdfast
from holdfast.kernel.errors import Conflict, Invalid, NotFound


def test_a_rollback_makes_the_previous_version_current(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    ids = []
    for body in ("One", "Two", "Three"):
        ids.append(clocked_store.skill_register(inline_skill=skill_text(body)).id)
        clock.move(hours=1)
    turned = clocked_store.skill_rollback("deploy")
    assert (turned.id, turned.before) == (ids[1], ids[2])
    assert clocked_store.skill_rollback("deploy").id == ids[0]
    with pytest.raises(NotFound):
        clocked_store.skill_rollback("deploy")
    assert clocked_store.skill_rollback("deploy", version=ids[2]).id == ids[2]
    with pytest.raises(Conflict):
        clocked_store.skill_rollback("deploy", version=ids[2])
    other = clocked_store.skill_register(inline_skill=skill_text("x", name="cook")).id
    with pytest.raises(Invalid):
        clocked_store.skill_rollback("deploy", version=other)
    assert clocked_store.skill_get("deploy").body == "Three"


def test_a_rollback_follows_the_order_of_use_and_not_of_creation(hold: holdfast.Holdfast) -> None:
    one = hold.skill_register(inline_skill=skill_text("One")).id
    two = hold.skill_register(inline_skill=skill_text("Two")).id
    hold.skill_register(inline_skill=skill_text("One"))
    assert hold.skill_rollback("deploy").id == two
    assert hold.skill_rollback("global/deploy").id == one
    with pytest.raises(NotFound, match="skill rollback VERSION_ID"):
        hold.skill_rollback("deploy")
    three = hold.skill_register(inline_skill=skill_text("Three")).id
    hold.skill_rollback("deploy", version=two)
    assert hold.skill_rollback("deploy").id == three
    hold.skill_delete("deploy")
    hold.undo(change=count_entries(hold))
    assert hold.skill_rollback("deploy").id == one


def test_a_rollback_to_a_version_id_makes_it_current(hold: holdfast.Holdfast) -> None:
    ids = [hold.skill_register(inline_skill=skill_text(body)).id for body in ("One", "Two", "Three")]
    turned = hold.skill_rollback(ids[0])
    assert (turned.id, turned.before) == (ids[0], ids[2])
    with pytest.raises(Conflict, match="already the current version of global/deploy"):
        hold.skill_rollback(ids[0])
    assert hold.skill_get("deploy").body == "One"


def test_a_deleted_skill_is_unlisted_and_its_history_stays(hold: holdfast.Holdfast) -> None:
    made = hold.skill_register(inline_skill=TEXT, namespace="team")
    assert hold.skill_delete("deploy").deleted
    assert hold.skill_list().total == 0
    for id in (made.id, "team/deploy", "deploy"):
        with pytest.raises(NotFound):
            hold.skill_get(id)
    for id in (made.id, "team/deploy", "deploy"):
        past = hold.skill_history(id)
        assert [change.op for change in past.changes] == ["delete", "register"]
        assert past.changes[0].state == "deleted"
    again = hold.skill_register(inline_skill=TEXT, namespace="team")
    assert (again.id, again.outcome) == (made.id, "restored")
    assert hold.skill_get("deploy").current


def test_changes_of_a_skill_can_be_undone(hold: holdfast.Holdfast) -> None:
    first = hold.skill_register(inline_skill=skill_text("One"))
    hold.skill_register(inline_skill=skill_text("Two"))
    hold.undo(hold.skill_history("deploy").changes[0].change)
    assert hold.skill_get("deploy").id == first.id
    hold.skill_delete("deploy")
    hold.undo(hold.skill_history(first.id).changes[0].change)
    assert hold.skill_get("deploy").id == first.id


def test_creating_a_version_cannot_be_undone(hold: holdfast.Holdfast) -> None:
    hold.skill_register(inline_skill=TEXT)
    made = next(change for change in hold.events(after=0, limit=10).events if change.kind == "skill_version")
    with pytest.raises(Conflict):
        hold.undo(made.seq)
