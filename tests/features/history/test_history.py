"""History of a memory: list changes, read past states, undo."""

from typing import Any

import pytest

import holdfast
from holdfast.kernel.errors import ChangedSince, Forbidden, NotFound, TitleTaken


@pytest.fixture
def hold(clocked_store: holdfast.Holdfast) -> holdfast.Holdfast:
    return clocked_store


@pytest.fixture
def plan(hold: Any) -> Any:
    return hold.store(title="Plan", content="first", tags=["a", "b"], metadata={"k": 1}, namespace="team", tier="long")


def find_last_change(ctx: Any) -> int:
    return int(ctx.events(limit=1000).events[-1].seq)


def get_state(ctx: Any, id: str) -> Any:
    """Return the fields that an undo restores: all but version and timestamps."""
    shown = ctx.history(id, limit=1000).changes[-1].memory
    return {name: value for name, value in shown.items() if name not in ("version", "updated_at")}


def test_every_change_is_listed_oldest_first_with_the_resulting_memory(hold: Any, plan: Any, clock: Any) -> None:
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


def test_a_history_is_found_by_id_prefix_even_after_deletion(hold: Any, plan: Any) -> None:
    hold.delete(plan.id)
    assert [one.op for one in hold.history(plan.id[:20]).changes] == ["store", "delete"]


def test_a_memory_can_be_read_as_known_at_a_time(hold: Any, plan: Any, clock: Any) -> None:
    then = clock.move(hours=1)
    clock.move(hours=1)
    hold.update(plan.id, content="second")
    assert hold.get(plan.id, known_at=then).content == "first"
    assert hold.get(plan.id, known_at=clock.move(hours=1)).content == "second"
    with pytest.raises(NotFound):
        hold.get(plan.id, known_at="2026-01-01")


def test_a_deleted_memory_can_be_read_as_known_before(hold: Any, plan: Any, clock: Any) -> None:
    then = clock.move(hours=1)
    clock.move(hours=1)
    hold.delete(plan.id)
    assert hold.get(plan.id, known_at=then).content == "first"
    with pytest.raises(NotFound):
        hold.get(plan.id, known_at=clock.move(hours=1))


def test_a_memory_can_be_read_as_valid_at_a_time(hold: Any) -> None:
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


def test_as_of_and_known_at_can_be_combined(hold: Any, clock: Any) -> None:
    office = hold.store(title="Office", content="Berlin", valid_from="2020-01-01", tier="long")
    before = clock.move(hours=1)
    clock.move(hours=1)
    hold.update(office.id, content="Munich")
    assert hold.get(office.id, as_of="2022-06-01").content == "Munich"
    assert hold.get(office.id, as_of="2022-06-01", known_at=before).content == "Berlin"


def do_update(ctx: Any, id: str) -> None:
    ctx.update(id, content="second", tags=["b", "c"], metadata={"k": False, "l": 2}, priority=9)


def do_delete(ctx: Any, id: str) -> None:
    ctx.delete(id)


def do_archive(ctx: Any, id: str) -> None:
    ctx.archive(ids=[id], reason="done")


def do_forget(ctx: Any, id: str) -> None:
    ctx.forget(namespace="team")


def do_rename(ctx: Any, id: str) -> None:
    ctx.update(id, title="Renamed", namespace="elsewhere")


def do_merge(ctx: Any, id: str) -> None:
    ctx.store(title="Plan", content="merged", namespace="team", tags=["c"], metadata={"l": 2}, priority=8)


@pytest.mark.parametrize("change", [do_update, do_delete, do_archive, do_forget, do_rename, do_merge])
def test_a_change_is_undone_completely_and_so_is_the_undo(hold: Any, plan: Any, clock: Any, change: Any) -> None:
    before = get_state(hold, plan.id)
    clock.move(hours=1)
    change(hold, plan.id)
    after = get_state(hold, plan.id)
    assert after != before
    undone = hold.undo(find_last_change(hold))
    assert (undone.record, undone.kind, undone.change, undone.version) == (plan.id, "memory", 3, 3)
    assert get_state(hold, plan.id) == before
    assert hold.undo(undone.change).change == 4
    assert get_state(hold, plan.id) == after | {"tags": get_state(hold, plan.id)["tags"]}
    assert sorted(get_state(hold, plan.id)["tags"]) == sorted(after["tags"])
    assert [one.op for one in hold.history(plan.id).changes][2:] == ["undo", "undo"]
    assert hold.verify().intact


def test_a_restored_memory_is_archived_again_by_undo(hold: Any, plan: Any) -> None:
    hold.archive(ids=[plan.id], reason="done")
    archived = get_state(hold, plan.id)
    hold.archive_restore(plan.id)
    hold.undo(find_last_change(hold))
    assert get_state(hold, plan.id) == archived
    assert hold.list().count == 0


def test_undoing_a_promotion_restores_the_expiry(hold: Any) -> None:
    mid = hold.store(title="Mid", content="x", tier="mid")
    hold.promote(mid.id)
    hold.undo(find_last_change(hold))
    assert (hold.get(mid.id).tier, hold.get(mid.id).expires_at) == ("mid", mid.expires_at)


def test_undoing_a_store_deletes_the_memory_and_redo_restores_it(hold: Any, plan: Any) -> None:
    undone = hold.undo(1)
    assert hold.list().count == 0
    hold.undo(undone.change)
    assert hold.get(plan.id).content == "first"
    assert [one.id for one in hold.recall("first").memories] == [plan.id]


def test_undoing_a_grant_revokes_it_and_undoing_a_revocation_restores_it(hold: Any, plan: Any, seen_by: Any) -> None:
    hold.update(plan.id, scope="private")
    other = seen_by("ai:other@here")
    hold.grant(plan.id, agent_id="ai:other@here", permission="write")
    granted = find_last_change(hold)
    assert other.get(plan.id).content == "first"
    hold.undo(granted)
    with pytest.raises(NotFound):
        other.get(plan.id)
    hold.grant(plan.id, agent_id="ai:other@here", permission="read")
    hold.revoke(plan.id, agent_id="ai:other@here")
    hold.undo(find_last_change(hold))
    assert other.get(plan.id).content == "first"


def test_undoing_a_registration_removes_the_agent(hold: Any) -> None:
    hold.agent_register(agent_id="ai:scout@here", agent_type="ai:scout", capabilities=["a"])
    hold.agent_register(agent_id="ai:scout@here", agent_type="ai:scout", capabilities=["a", "b"])
    hold.undo(2)
    assert [agent.capabilities for agent in hold.agent_list().agents] == [["a"]]
    hold.undo(1)
    assert hold.agent_list().count == 0


def test_a_later_change_of_the_same_field_blocks_an_undo(hold: Any, plan: Any) -> None:
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
def test_later_changes_of_other_fields_are_kept(
    hold: Any, plan: Any, first: dict[str, Any], then: dict[str, Any], kept: dict[str, Any]
) -> None:
    hold.update(plan.id, **first)
    hold.update(plan.id, **then)
    hold.undo(2)
    after = hold.get(plan.id)
    assert after.content == "first"
    assert {name: getattr(after, name) for name in kept} == kept


def test_an_edit_of_an_archived_memory_is_undone_in_the_archive(hold: Any, plan: Any) -> None:
    hold.update(plan.id, content="second")
    hold.archive(ids=[plan.id])
    hold.undo(2)
    assert (hold.get(plan.id).content, hold.get(plan.id).state) == ("first", "archived")


def test_undoing_a_store_is_refused_after_a_later_change(hold: Any, plan: Any, seen_by: Any) -> None:
    seen_by("ai:other@here").update(plan.id, content="built upon")
    with pytest.raises(ChangedSince):
        hold.undo(1)
    assert hold.list().count == 1


def test_a_change_cannot_be_undone_twice(hold: Any, plan: Any) -> None:
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


def test_an_unknown_change_cannot_be_undone(hold: Any, plan: Any) -> None:
    for unknown in (2, 999_999):
        with pytest.raises(NotFound):
            hold.undo(unknown)


def test_an_invisible_change_does_not_exist_for_the_caller(hold: Any, plan: Any, seen_by: Any) -> None:
    hold.update(plan.id, scope="private")
    with pytest.raises(NotFound):
        seen_by("ai:other@here").undo(2)
    hold.grant(plan.id, agent_id="ai:other@here", permission="read")
    with pytest.raises(NotFound):
        seen_by("ai:other@here").undo(2)


def test_undo_does_not_restore_revoked_rights(hold: Any, plan: Any, seen_by: Any) -> None:
    hold.update(plan.id, scope="private")
    hold.grant(plan.id, agent_id="ai:other@here", permission="admin")
    hold.grant(plan.id, agent_id="ai:other@here", permission="write")
    lowered = find_last_change(hold)
    with pytest.raises(Forbidden):
        seen_by("ai:other@here").undo(lowered)
    with pytest.raises(Forbidden):
        seen_by("ai:other@here").undo(2)
    assert hold.get(plan.id).scope == "private"


def test_undo_does_not_reach_other_namespaces(hold: Any, plan: Any, seen_by: Any) -> None:
    hold.update(plan.id, namespace="open")
    with pytest.raises(NotFound):
        seen_by("ai:key@here", right="write", namespaces=("open",)).undo(2)
    assert hold.get(plan.id).namespace == "open"


def test_the_private_past_of_a_memory_stays_private(hold: Any, clock: Any, seen_by: Any) -> None:
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


def test_the_past_in_a_namespace_out_of_reach_stays_hidden(hold: Any, seen_by: Any) -> None:
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


def test_invisible_events_are_skipped(hold: Any, plan: Any, seen_by: Any) -> None:
    hold.store(title="Hidden", content="CANARY", scope="private")
    hold.store(title="After", content="x")
    page = seen_by("ai:other@here").events()
    assert ([one.seq for one in page.events], page.next) == ([1, 3], 3)


def test_links_to_invisible_memories_are_skipped(hold: Any, plan: Any, seen_by: Any) -> None:
    hidden = hold.store(title="Hidden", content="x", scope="private")
    hold.link(source_id=plan.id, target_id=hidden.id)
    assert hidden.id not in str(seen_by("ai:other@here").events())


def test_an_untouched_journal_verifies_against_its_head(hold: Any, plan: Any) -> None:
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
