"""History of a memory: list changes, read past states, undo."""

from typing import Any

import pytest

import holdfast
from holdfast.kernel.errors import ChangedSince, Forbidden, NotFound, TitleTaken


@pytest.fixture
def ctx(clocked_store: holdfast.Holdfast) -> holdfast.Holdfast:
    return clocked_store


@pytest.fixture
def plan(ctx: Any) -> Any:
    return ctx.store(title="Plan", content="first", tags=["a", "b"], metadata={"k": 1}, namespace="team", tier="long")


def find_last_change(ctx: Any) -> int:
    return int(ctx.events(limit=1000).events[-1].seq)


def get_state(ctx: Any, id: str) -> Any:
    """Return the fields that an undo restores: all but version and timestamps."""
    shown = ctx.history(id, limit=1000).changes[-1].memory
    return {name: value for name, value in shown.items() if name not in ("version", "updated_at")}


def test_every_change_is_listed_oldest_first_with_the_resulting_memory(ctx: Any, plan: Any, clock: Any) -> None:
    at = clock.move(hours=1)
    ctx.update(plan.id, content="second")
    stored, updated = ctx.history(plan.id).changes
    assert [(one.seq, one.op, one.kind, one.record, one.actor, one.at, one.number) for one in (stored, updated)] == [
        (1, "store", "memory", plan.id, "ai:tester@here", plan.created_at, 1),
        (2, "update", "memory", plan.id, "ai:tester@here", at, 2),
    ]
    assert (stored.memory["content"], updated.memory["content"]) == ("first", "second")
    assert (stored.version, updated.version) == (1, 2)
    assert stored.origin == updated.origin
    assert stored.hash != updated.hash


def test_a_history_is_paged_by_sequence(ctx: Any, plan: Any) -> None:
    for number in range(4):
        ctx.update(plan.id, content=f"edit {number}")
    first = ctx.history(plan.id, limit=3)
    rest = ctx.history(plan.id, after=first.changes[-1].seq)
    assert [one.seq for one in (*first.changes, *rest.changes)] == [1, 2, 3, 4, 5]


def test_a_history_is_found_by_id_prefix_even_after_deletion(ctx: Any, plan: Any) -> None:
    ctx.delete(plan.id)
    assert [one.op for one in ctx.history(plan.id[:20]).changes] == ["store", "delete"]


def test_a_memory_can_be_read_as_known_at_a_time(ctx: Any, plan: Any, clock: Any) -> None:
    then = clock.move(hours=1)
    clock.move(hours=1)
    ctx.update(plan.id, content="second")
    assert ctx.get(plan.id, known_at=then).content == "first"
    assert ctx.get(plan.id, known_at=clock.move(hours=1)).content == "second"
    with pytest.raises(NotFound):
        ctx.get(plan.id, known_at="2026-01-01")


def test_a_deleted_memory_can_be_read_as_known_before(ctx: Any, plan: Any, clock: Any) -> None:
    then = clock.move(hours=1)
    clock.move(hours=1)
    ctx.delete(plan.id)
    assert ctx.get(plan.id, known_at=then).content == "first"
    with pytest.raises(NotFound):
        ctx.get(plan.id, known_at=clock.move(hours=1))


def test_a_memory_can_be_read_as_valid_at_a_time(ctx: Any) -> None:
    office = ctx.store(title="Office", content="Berlin", valid_from="2020-01-01", valid_until="2024-01-01", tier="long")
    assert ctx.get(office.id, as_of="2022-06-01").content == "Berlin"
    for not_then in ("2019-12-31", "2024-01-01"):
        with pytest.raises(NotFound):
            ctx.get(office.id, as_of=not_then)
    ctx.update(office.id, content="Paris", valid_from="2024-01-01", valid_until="2030-01-01")
    assert ctx.get(office.id, as_of="2022-06-01").content == "Berlin"
    assert ctx.get(office.id, as_of="2025-06-01").content == "Paris"


def test_as_of_and_known_at_can_be_combined(ctx: Any, clock: Any) -> None:
    office = ctx.store(title="Office", content="Berlin", valid_from="2020-01-01", tier="long")
    before = clock.move(hours=1)
    clock.move(hours=1)
    ctx.update(office.id, content="Munich")
    assert ctx.get(office.id, as_of="2022-06-01").content == "Munich"
    assert ctx.get(office.id, as_of="2022-06-01", known_at=before).content == "Berlin"


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
def test_a_change_is_undone_completely_and_so_is_the_undo(ctx: Any, plan: Any, clock: Any, change: Any) -> None:
    before = get_state(ctx, plan.id)
    clock.move(hours=1)
    change(ctx, plan.id)
    after = get_state(ctx, plan.id)
    assert after != before
    undone = ctx.undo(find_last_change(ctx))
    assert (undone.record, undone.kind, undone.change, undone.version) == (plan.id, "memory", 3, 3)
    assert get_state(ctx, plan.id) == before
    assert ctx.undo(undone.change).change == 4
    assert get_state(ctx, plan.id) == after | {"tags": get_state(ctx, plan.id)["tags"]}
    assert sorted(get_state(ctx, plan.id)["tags"]) == sorted(after["tags"])
    assert [one.op for one in ctx.history(plan.id).changes][2:] == ["undo", "undo"]
    assert ctx.verify().intact


def test_a_restored_memory_is_archived_again_by_undo(ctx: Any, plan: Any) -> None:
    ctx.archive(ids=[plan.id], reason="done")
    archived = get_state(ctx, plan.id)
    ctx.archive_restore(plan.id)
    ctx.undo(find_last_change(ctx))
    assert get_state(ctx, plan.id) == archived
    assert ctx.list().count == 0


def test_undoing_a_promotion_restores_the_expiry(ctx: Any) -> None:
    mid = ctx.store(title="Mid", content="x", tier="mid")
    ctx.promote(mid.id)
    ctx.undo(find_last_change(ctx))
    assert (ctx.get(mid.id).tier, ctx.get(mid.id).expires_at) == ("mid", mid.expires_at)


def test_undoing_a_store_deletes_the_memory_and_redo_restores_it(ctx: Any, plan: Any) -> None:
    undone = ctx.undo(1)
    assert ctx.list().count == 0
    ctx.undo(undone.change)
    assert ctx.get(plan.id).content == "first"
    assert [one.id for one in ctx.recall("first").memories] == [plan.id]


def test_undoing_a_grant_revokes_it_and_undoing_a_revocation_restores_it(ctx: Any, plan: Any, seen_by: Any) -> None:
    ctx.update(plan.id, scope="private")
    other = seen_by("ai:other@here")
    ctx.grant(plan.id, agent_id="ai:other@here", permission="write")
    granted = find_last_change(ctx)
    assert other.get(plan.id).content == "first"
    ctx.undo(granted)
    with pytest.raises(NotFound):
        other.get(plan.id)
    ctx.grant(plan.id, agent_id="ai:other@here", permission="read")
    ctx.revoke(plan.id, agent_id="ai:other@here")
    ctx.undo(find_last_change(ctx))
    assert other.get(plan.id).content == "first"


def test_undoing_a_registration_removes_the_agent(ctx: Any) -> None:
    ctx.agent_register(agent_id="ai:scout@here", agent_type="ai:scout", capabilities=["a"])
    ctx.agent_register(agent_id="ai:scout@here", agent_type="ai:scout", capabilities=["a", "b"])
    ctx.undo(2)
    assert [agent.capabilities for agent in ctx.agent_list().agents] == [["a"]]
    ctx.undo(1)
    assert ctx.agent_list().count == 0


def test_a_later_change_of_the_same_field_blocks_an_undo(ctx: Any, plan: Any) -> None:
    ctx.update(plan.id, content="second")
    ctx.update(plan.id, content="third")
    with pytest.raises(ChangedSince) as refused:
        ctx.undo(2)
    assert refused.value.details == {"change": 2, "fields": ["content"]}
    assert ctx.get(plan.id).content == "third"
    ctx.undo(3)
    ctx.undo(2)
    assert ctx.get(plan.id).content == "first"


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
    ctx: Any, plan: Any, first: dict[str, Any], then: dict[str, Any], kept: dict[str, Any]
) -> None:
    ctx.update(plan.id, **first)
    ctx.update(plan.id, **then)
    ctx.undo(2)
    after = ctx.get(plan.id)
    assert after.content == "first"
    assert {name: getattr(after, name) for name in kept} == kept


def test_an_edit_of_an_archived_memory_is_undone_in_the_archive(ctx: Any, plan: Any) -> None:
    ctx.update(plan.id, content="second")
    ctx.archive(ids=[plan.id])
    ctx.undo(2)
    assert (ctx.get(plan.id).content, ctx.get(plan.id).state) == ("first", "archived")


def test_undoing_a_store_is_refused_after_a_later_change(ctx: Any, plan: Any, seen_by: Any) -> None:
    seen_by("ai:other@here").update(plan.id, content="built upon")
    with pytest.raises(ChangedSince):
        ctx.undo(1)
    assert ctx.list().count == 1


def test_a_change_cannot_be_undone_twice(ctx: Any, plan: Any) -> None:
    ctx.update(plan.id, content="second")
    ctx.undo(2)
    with pytest.raises(ChangedSince):
        ctx.undo(2)


def test_undoing_a_deletion_is_refused_once_the_title_is_taken(ctx: Any, plan: Any) -> None:
    ctx.delete(plan.id)
    other = ctx.store(title="Plan", content="other", namespace="team")
    with pytest.raises(TitleTaken) as refused:
        ctx.undo(2)
    assert refused.value.details == {"existing_id": other.id}


def test_an_unknown_change_cannot_be_undone(ctx: Any, plan: Any) -> None:
    for unknown in (2, 999_999):
        with pytest.raises(NotFound):
            ctx.undo(unknown)


def test_an_invisible_change_does_not_exist_for_the_caller(ctx: Any, plan: Any, seen_by: Any) -> None:
    ctx.update(plan.id, scope="private")
    with pytest.raises(NotFound):
        seen_by("ai:other@here").undo(2)
    ctx.grant(plan.id, agent_id="ai:other@here", permission="read")
    with pytest.raises(NotFound):
        seen_by("ai:other@here").undo(2)


def test_undo_does_not_restore_revoked_rights(ctx: Any, plan: Any, seen_by: Any) -> None:
    ctx.update(plan.id, scope="private")
    ctx.grant(plan.id, agent_id="ai:other@here", permission="admin")
    ctx.grant(plan.id, agent_id="ai:other@here", permission="write")
    lowered = find_last_change(ctx)
    with pytest.raises(Forbidden):
        seen_by("ai:other@here").undo(lowered)
    with pytest.raises(Forbidden):
        seen_by("ai:other@here").undo(2)
    assert ctx.get(plan.id).scope == "private"


def test_undo_does_not_reach_other_namespaces(ctx: Any, plan: Any, seen_by: Any) -> None:
    ctx.update(plan.id, namespace="open")
    with pytest.raises(NotFound):
        seen_by("ai:key@here", right="write", namespaces=("open",)).undo(2)
    assert ctx.get(plan.id).namespace == "open"


def test_the_private_past_of_a_memory_stays_private(ctx: Any, clock: Any, seen_by: Any) -> None:
    secret = ctx.store(title="Plan", content="CANARY", scope="private", tier="long")
    then = clock.move(hours=1)
    clock.move(hours=1)
    ctx.update(secret.id, content="public", scope="collective")
    other = seen_by("ai:other@here")
    assert other.get(secret.id).content == "public"
    told = [other.history(secret.id), other.events()]
    assert "CANARY" not in str(told)
    assert [one.op for one in told[0].changes] == ["store", "update"]
    with pytest.raises(NotFound):
        other.get(secret.id, known_at=then)
    with pytest.raises(NotFound):
        other.undo(2)
    assert ctx.history(secret.id).changes[0].memory["content"] == "CANARY"
    ctx.grant(secret.id, agent_id="ai:other@here")
    assert other.get(secret.id, known_at=then).content == "CANARY"


def test_the_past_in_a_namespace_out_of_reach_stays_hidden(ctx: Any, seen_by: Any) -> None:
    moved = ctx.store(title="Plan", content="CANARY", namespace="closed", tier="long")
    ctx.update(moved.id, content="public", namespace="open")
    key = seen_by("ai:key@here", right="read", namespaces=("open",))
    assert key.get(moved.id).content == "public"
    assert "CANARY" not in str([key.history(moved.id), key.events()])


def test_events_are_paged_by_sequence_without_gaps(ctx: Any) -> None:
    for number in range(5):
        ctx.store(title=f"{number}", content="x")
    seen, after = [], 0
    while (page := ctx.events(after=after, limit=2)).count:
        seen += [one.seq for one in page.events]
        after = page.next
    assert (seen, after) == ([1, 2, 3, 4, 5], 5)


def test_invisible_events_are_skipped(ctx: Any, plan: Any, seen_by: Any) -> None:
    ctx.store(title="Hidden", content="CANARY", scope="private")
    ctx.store(title="After", content="x")
    page = seen_by("ai:other@here").events()
    assert ([one.seq for one in page.events], page.next) == ([1, 3], 3)


def test_links_to_invisible_memories_are_skipped(ctx: Any, plan: Any, seen_by: Any) -> None:
    hidden = ctx.store(title="Hidden", content="x", scope="private")
    ctx.link(source_id=plan.id, target_id=hidden.id)
    assert hidden.id not in str(seen_by("ai:other@here").events())


def test_an_untouched_journal_verifies_against_its_head(ctx: Any, plan: Any) -> None:
    head = ctx.verify().head
    ctx.update(plan.id, content="second")
    verified = ctx.verify(witness=head)
    assert (verified.intact, verified.entries, verified.findings) == (True, 2, [])
    assert not ctx.verify(witness="1:" + "0" * 64).intact
    assert not ctx.verify(witness="9:" + "0" * 64).intact


def test_one_transaction_is_one_batch(ctx: Any) -> None:
    ctx.bulk_store(memories=[{"title": "a", "content": "x"}, {"title": "b", "content": "x"}])
    ctx.store(title="c", content="x")
    assert [one.batch for one in ctx.events().events] == [1, 1, 3]
