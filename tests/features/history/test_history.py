"""The past of a memory: shown, asked for, and taken back one change at a time."""

from typing import Any

import pytest

import holdfast
from holdfast.kernel.errors import ChangedSince, Forbidden, NotFound, TitleTaken


@pytest.fixture
def hold(timed: holdfast.Holdfast) -> holdfast.Holdfast:
    return timed


@pytest.fixture
def plan(hold: Any) -> Any:
    return hold.store(title="Plan", content="first", tags=["a", "b"], metadata={"k": 1}, namespace="team", tier="long")


def last(hold: Any) -> int:
    return int(hold.events(limit=1000).events[-1].seq)


def state(hold: Any, id: str) -> Any:
    """All that an undo brings back: a memory without what every change moves on."""
    shown = hold.history(id, limit=1000).changes[-1].memory
    return {name: value for name, value in shown.items() if name not in ("version", "updated_at")}


def test_every_change_is_told_oldest_first_with_the_whole_memory_after_it(hold: Any, plan: Any, clock: Any) -> None:
    at = clock.move(hours=1)
    hold.update(plan.id, content="second")
    stored, updated = hold.history(plan.id).changes
    assert [(one.seq, one.op, one.kind, one.record, one.actor, one.at, one.number) for one in (stored, updated)] == [
        (1, "store", "memory", plan.id, "ai:tester@here", plan.created_at, 1),
        (2, "update", "memory", plan.id, "ai:tester@here", at, 2),
    ]
    assert (stored.memory["content"], updated.memory["content"]) == ("first", "second")
    assert (stored.version, updated.version) == (1, 2)
    assert stored.origin == updated.origin
    assert stored.hash != updated.hash


def test_a_history_is_paged_by_sequence(hold: Any, plan: Any) -> None:
    for number in range(4):
        hold.update(plan.id, content=f"edit {number}")
    first = hold.history(plan.id, limit=3)
    rest = hold.history(plan.id, after=first.changes[-1].seq)
    assert [one.seq for one in (*first.changes, *rest.changes)] == [1, 2, 3, 4, 5]


def test_a_history_is_found_by_the_beginning_of_an_id_also_after_a_deletion(hold: Any, plan: Any) -> None:
    hold.delete(plan.id)
    assert [one.op for one in hold.history(plan.id[:20]).changes] == ["store", "delete"]


def test_a_memory_can_be_read_as_this_store_knew_it_then(hold: Any, plan: Any, clock: Any) -> None:
    then = clock.move(hours=1)
    clock.move(hours=1)
    hold.update(plan.id, content="second")
    assert hold.get(plan.id, known_at=then).content == "first"
    assert hold.get(plan.id, known_at=clock.move(hours=1)).content == "second"
    with pytest.raises(NotFound):
        hold.get(plan.id, known_at="2026-01-01")


def test_a_deleted_memory_can_still_be_read_as_it_was_known(hold: Any, plan: Any, clock: Any) -> None:
    then = clock.move(hours=1)
    clock.move(hours=1)
    hold.delete(plan.id)
    assert hold.get(plan.id, known_at=then).content == "first"
    with pytest.raises(NotFound):
        hold.get(plan.id, known_at=clock.move(hours=1))


def test_a_memory_can_be_read_as_it_was_true_then(hold: Any) -> None:
    office = hold.store(
        title="Office", content="Berlin", valid_from="2020-01-01", valid_until="2024-01-01", tier="long"
    )
    assert hold.get(office.id, as_of="2022-06-01").content == "Berlin"
    for not_then in ("2019-12-31", "2024-01-01"):
        with pytest.raises(NotFound):
            hold.get(office.id, as_of=not_then)
    hold.update(office.id, content="Paris", valid_from="2024-01-01", valid_until="2030-01-01")
    assert hold.get(office.id, as_of="2022-06-01").content == "Berlin"
    assert hold.get(office.id, as_of="2025-06-01").content == "Paris"


def test_what_was_true_then_can_be_asked_as_it_was_known_at_another_time(hold: Any, clock: Any) -> None:
    office = hold.store(title="Office", content="Berlin", valid_from="2020-01-01", tier="long")
    before = clock.move(hours=1)
    clock.move(hours=1)
    hold.update(office.id, content="Munich")
    assert hold.get(office.id, as_of="2022-06-01").content == "Munich"
    assert hold.get(office.id, as_of="2022-06-01", known_at=before).content == "Berlin"


def do_update(hold: Any, id: str) -> None:
    hold.update(id, content="second", tags=["b", "c"], metadata={"k": False, "l": 2}, priority=9)


def do_delete(hold: Any, id: str) -> None:
    hold.delete(id)


def do_archive(hold: Any, id: str) -> None:
    hold.archive(ids=[id], reason="done")


def do_forget(hold: Any, id: str) -> None:
    hold.forget(namespace="team")


def do_rename(hold: Any, id: str) -> None:
    hold.update(id, title="Renamed", namespace="elsewhere")


def do_merge(hold: Any, id: str) -> None:
    hold.store(title="Plan", content="merged", namespace="team", tags=["c"], metadata={"l": 2}, priority=8)


@pytest.mark.parametrize("change", [do_update, do_delete, do_archive, do_forget, do_rename, do_merge])
def test_a_change_is_taken_back_wholly_and_its_undoing_too(hold: Any, plan: Any, clock: Any, change: Any) -> None:
    before = state(hold, plan.id)
    clock.move(hours=1)
    change(hold, plan.id)
    after = state(hold, plan.id)
    assert after != before
    undone = hold.undo(last(hold))
    assert (undone.record, undone.kind, undone.change, undone.version) == (plan.id, "memory", 3, 3)
    assert state(hold, plan.id) == before
    assert hold.undo(undone.change).change == 4
    assert state(hold, plan.id) == after | {"tags": state(hold, plan.id)["tags"]}
    assert sorted(state(hold, plan.id)["tags"]) == sorted(after["tags"])
    assert [one.op for one in hold.history(plan.id).changes][2:] == ["undo", "undo"]
    assert hold.verify().intact


def test_a_restored_memory_is_archived_again_by_undo(hold: Any, plan: Any) -> None:
    hold.archive(ids=[plan.id], reason="done")
    archived = state(hold, plan.id)
    hold.archive_restore(plan.id)
    hold.undo(last(hold))
    assert state(hold, plan.id) == archived
    assert hold.list().count == 0


def test_a_promotion_is_taken_back_with_the_end_it_cleared(hold: Any) -> None:
    mid = hold.store(title="Mid", content="x", tier="mid")
    hold.promote(mid.id)
    hold.undo(last(hold))
    assert (hold.get(mid.id).tier, hold.get(mid.id).expires_at) == ("mid", mid.expires_at)


def test_undoing_a_store_deletes_the_memory_and_undoing_that_has_it_again(hold: Any, plan: Any) -> None:
    undone = hold.undo(1)
    assert hold.list().count == 0
    hold.undo(undone.change)
    assert hold.get(plan.id).content == "first"
    assert [one.id for one in hold.recall("first").memories] == [plan.id]


def test_undoing_a_grant_takes_it_back_and_undoing_a_revocation_gives_it(hold: Any, plan: Any, seen_by: Any) -> None:
    hold.update(plan.id, scope="private")
    other = seen_by("ai:other@here")
    hold.grant(plan.id, agent_id="ai:other@here", permission="write")
    granted = last(hold)
    assert other.get(plan.id).content == "first"
    hold.undo(granted)
    with pytest.raises(NotFound):
        other.get(plan.id)
    hold.grant(plan.id, agent_id="ai:other@here", permission="read")
    hold.revoke(plan.id, agent_id="ai:other@here")
    hold.undo(last(hold))
    assert other.get(plan.id).content == "first"


def test_undoing_a_registration_takes_the_agent_off_the_list(hold: Any) -> None:
    hold.agent_register(agent_id="ai:scout@here", agent_type="ai:scout", capabilities=["a"])
    hold.agent_register(agent_id="ai:scout@here", agent_type="ai:scout", capabilities=["a", "b"])
    hold.undo(2)
    assert [agent.capabilities for agent in hold.agent_list().agents] == [["a"]]
    hold.undo(1)
    assert hold.agent_list().count == 0


def test_a_change_of_the_same_field_since_stands_against_an_undo_and_is_named(hold: Any, plan: Any) -> None:
    hold.update(plan.id, content="second")
    hold.update(plan.id, content="third")
    with pytest.raises(ChangedSince) as refused:
        hold.undo(2)
    assert refused.value.details == {"change": 2, "fields": ["content"]}
    assert hold.get(plan.id).content == "third"
    hold.undo(3)
    hold.undo(2)
    assert hold.get(plan.id).content == "first"


@pytest.mark.parametrize(
    ("first", "then", "kept"),
    [
        ({"content": "second"}, {"priority": 9}, {"priority": 9}),
        ({"tags": ["a", "b", "c"]}, {"tags": ["b", "c", "d"]}, {"tags": ("b", "d")}),
        ({"metadata": {"k": 1, "l": False}}, {"metadata": {"k": 2, "l": False}}, {"metadata": {"k": 2}}),
    ],
    ids=["another-field", "another-tag", "another-key"],
)
def test_a_change_of_something_else_since_stays(
    hold: Any, plan: Any, first: dict[str, Any], then: dict[str, Any], kept: dict[str, Any]
) -> None:
    hold.update(plan.id, **first)
    hold.update(plan.id, **then)
    hold.undo(2)
    after = hold.get(plan.id)
    assert after.content == "first"
    assert {name: getattr(after, name) for name in kept} == kept


def test_an_edit_is_taken_back_in_the_archive_without_leaving_it(hold: Any, plan: Any) -> None:
    hold.update(plan.id, content="second")
    hold.archive(ids=[plan.id])
    hold.undo(2)
    assert (hold.get(plan.id).content, hold.get(plan.id).state) == ("first", "archived")


def test_undoing_a_store_is_refused_once_somebody_built_upon_it(hold: Any, plan: Any, seen_by: Any) -> None:
    seen_by("ai:other@here").update(plan.id, content="built upon")
    with pytest.raises(ChangedSince):
        hold.undo(1)
    assert hold.list().count == 1


def test_the_same_change_is_not_taken_back_twice(hold: Any, plan: Any) -> None:
    hold.update(plan.id, content="second")
    hold.undo(2)
    with pytest.raises(ChangedSince):
        hold.undo(2)


def test_undoing_a_deletion_is_refused_once_the_title_is_taken(hold: Any, plan: Any) -> None:
    hold.delete(plan.id)
    other = hold.store(title="Plan", content="other", namespace="team")
    with pytest.raises(TitleTaken) as refused:
        hold.undo(2)
    assert refused.value.details == {"existing_id": other.id}


def test_there_is_no_undo_of_what_never_was(hold: Any, plan: Any) -> None:
    for unknown in (2, 999_999):
        with pytest.raises(NotFound):
            hold.undo(unknown)


def test_a_change_that_the_caller_may_not_see_is_no_change(hold: Any, plan: Any, seen_by: Any) -> None:
    hold.update(plan.id, scope="private")
    with pytest.raises(NotFound):
        seen_by("ai:other@here").undo(2)
    hold.grant(plan.id, agent_id="ai:other@here", permission="read")
    with pytest.raises(NotFound):
        seen_by("ai:other@here").undo(2)


def test_undo_is_no_way_to_a_right_that_was_taken(hold: Any, plan: Any, seen_by: Any) -> None:
    hold.update(plan.id, scope="private")
    hold.grant(plan.id, agent_id="ai:other@here", permission="admin")
    hold.grant(plan.id, agent_id="ai:other@here", permission="write")
    lowered = last(hold)
    with pytest.raises(Forbidden):
        seen_by("ai:other@here").undo(lowered)
    with pytest.raises(Forbidden):
        seen_by("ai:other@here").undo(2)
    assert hold.get(plan.id).scope == "private"


def test_undo_is_no_way_into_a_namespace_out_of_reach(hold: Any, plan: Any, seen_by: Any) -> None:
    hold.update(plan.id, namespace="open")
    with pytest.raises(NotFound):
        seen_by("ai:key@here", right="write", namespaces=("open",)).undo(2)
    assert hold.get(plan.id).namespace == "open"


def test_what_a_memory_said_while_it_was_private_stays_private(hold: Any, clock: Any, seen_by: Any) -> None:
    secret = hold.store(title="Plan", content="CANARY", scope="private", tier="long")
    then = clock.move(hours=1)
    clock.move(hours=1)
    hold.update(secret.id, content="public", scope="collective")
    other = seen_by("ai:other@here")
    assert other.get(secret.id).content == "public"
    told = [other.history(secret.id), other.events()]
    assert "CANARY" not in str(told)
    assert [one.op for one in told[0].changes] == ["store", "update"]
    with pytest.raises(NotFound):
        other.get(secret.id, known_at=then)
    with pytest.raises(NotFound):
        other.undo(2)
    assert hold.history(secret.id).changes[0].memory["content"] == "CANARY"
    hold.grant(secret.id, agent_id="ai:other@here")
    assert other.get(secret.id, known_at=then).content == "CANARY"


def test_what_a_memory_said_in_a_namespace_out_of_reach_stays_there(hold: Any, seen_by: Any) -> None:
    moved = hold.store(title="Plan", content="CANARY", namespace="closed", tier="long")
    hold.update(moved.id, content="public", namespace="open")
    key = seen_by("ai:key@here", right="read", namespaces=("open",))
    assert key.get(moved.id).content == "public"
    assert "CANARY" not in str([key.history(moved.id), key.events()])


def test_events_are_paged_by_sequence_without_gaps(hold: Any) -> None:
    for number in range(5):
        hold.store(title=f"{number}", content="x")
    seen, after = [], 0
    while (page := hold.events(after=after, limit=2)).count:
        seen += [one.seq for one in page.events]
        after = page.next
    assert (seen, after) == ([1, 2, 3, 4, 5], 5)


def test_events_that_the_caller_may_not_see_are_passed_over(hold: Any, plan: Any, seen_by: Any) -> None:
    hold.store(title="Hidden", content="CANARY", scope="private")
    hold.store(title="After", content="x")
    page = seen_by("ai:other@here").events()
    assert ([one.seq for one in page.events], page.next) == ([1, 3], 3)


def test_a_link_to_what_the_caller_may_not_see_is_passed_over(hold: Any, plan: Any, seen_by: Any) -> None:
    hidden = hold.store(title="Hidden", content="x", scope="private")
    hold.link(source_id=plan.id, target_id=hidden.id)
    assert hidden.id not in str(seen_by("ai:other@here").events())


def test_an_untouched_journal_is_intact_and_its_head_can_be_noted(hold: Any, plan: Any) -> None:
    head = hold.verify().head
    hold.update(plan.id, content="second")
    verified = hold.verify(witness=head)
    assert (verified.intact, verified.entries, verified.findings) == (True, 2, [])
    assert not hold.verify(witness="1:" + "0" * 64).intact
    assert not hold.verify(witness="9:" + "0" * 64).intact


def test_one_transaction_is_one_batch(hold: Any) -> None:
    hold.bulk_store(memories=[{"title": "a", "content": "x"}, {"title": "b", "content": "x"}])
    hold.store(title="c", content="x")
    assert [one.batch for one in hold.events().events] == [1, 1, 3]
