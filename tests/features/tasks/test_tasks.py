"""Tasks: added once, claimed by one agent, ended once per occurrence."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

import holdfast
from datetimes import to_datetime
from holdfast.features.tasks import service, store
from holdfast.kernel.errors import AmbiguousId, Conflict, Forbidden, Invalid, LeaseLost, NotFound
from holdfast.kernel.timestamps import DAY, SECOND

SOON = "2026-01-31T08:00:00Z"


def add(ctx: Any, title: str = "Pay the rent", **more: Any) -> Any:
    return ctx.task_add(title=title, due_at=more.pop("due_at", "2020-01-31T09:00"), **more).task


def claim(ctx: Any, **more: Any) -> list[Any]:
    return list(ctx.task_claim(**more).claimed)


def test_a_task_is_listed_until_it_is_done(clocked_store: holdfast.Holdfast) -> None:
    task = add(clocked_store)
    assert [one.id for one in clocked_store.task_list().tasks] == [task.id]
    (taken,) = claim(clocked_store)
    done = clocked_store.task_finish(id=task.id, token=taken.token, result="paid", tokens_used=7)
    assert (done.task.state, done.run.status, done.run.result, done.run.tokens_used) == ("done", "completed", "paid", 7)
    assert clocked_store.task_list().count == 0
    assert clocked_store.task_list(state=["done"]).count == 1
    assert claim(clocked_store) == []


def test_adding_the_same_task_at_the_same_time_creates_it_once(clocked_store: holdfast.Holdfast) -> None:
    first = clocked_store.task_add(title="Pay", due_at="2030-02-22 07:00:00")
    again = clocked_store.task_add(title="Pay", due_at="2030-02-22T07:00:00Z")
    assert (first.created, again.created, again.task.id) == (True, False, first.task.id)
    assert clocked_store.task_add(title="Pay", due_at="2030-02-22T07:00:00Z", repeat="daily").created
    assert clocked_store.task_add(title="Pay", due_at="2030-02-22T07:00:00Z", principal="ann").created
    assert clocked_store.task_list().total == 3


def test_a_similar_task_is_reported_and_the_new_one_created(clocked_store: holdfast.Holdfast) -> None:
    one = add(clocked_store, "Pay electricity bill account 4411", due_at=SOON)
    other = clocked_store.task_add(title="Pay water bill account 9922", due_at=SOON)
    assert other.created
    assert [like.id for like in other.similar] == [one.id]
    assert clocked_store.task_add(title="Pay electricity bill account 4411 now", due_at="2026-02-16").similar == []


def test_an_idempotency_key_creates_one_task_and_never_another(clocked_store: holdfast.Holdfast) -> None:
    first = clocked_store.task_add(title="Pay", due_at=SOON, unique_key="k")
    (taken,) = claim(clocked_store)
    clocked_store.task_finish(id=first.task.id, token=taken.token)
    again = clocked_store.task_add(title="Pay", due_at=SOON, unique_key="k")
    assert (again.created, again.task.id, again.task.state) == (False, first.task.id, "done")
    with pytest.raises(Conflict, match="unique_key"):
        clocked_store.task_add(title="Pay more", due_at=SOON, unique_key="k")
    assert clocked_store.task_add(title="Pay more", due_at=SOON, unique_key="k", principal="ann").created


def test_only_one_claimant_gets_a_task_until_its_lease_ends(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    task = add(clocked_store)
    (first,) = claim(clocked_store, owner="a", seconds=60)
    assert claim(clocked_store, owner="b") == []
    clock.move(seconds=61)
    (second,) = claim(clocked_store, owner="b", seconds=60)
    assert (second.task.id, second.token, second.task.attempts) == (task.id, first.token + 1, 2)
    assert [run.status for run in clocked_store.task_runs(id=task.id).runs] == ["lost"]


def test_a_finish_with_an_expired_lease_is_refused(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    task = add(clocked_store)
    (first,) = claim(clocked_store, owner="a", seconds=60)
    clock.move(seconds=61)
    with pytest.raises(LeaseLost):
        clocked_store.task_finish(id=task.id, token=first.token)
    (second,) = claim(clocked_store, owner="b", seconds=60)
    with pytest.raises(LeaseLost):
        clocked_store.task_finish(id=task.id, token=first.token, error="no")
    with pytest.raises(LeaseLost):
        clocked_store.task_heartbeat(id=task.id, token=first.token)
    clocked_store.task_finish(id=task.id, token=second.token)
    with pytest.raises(LeaseLost):
        clocked_store.task_finish(id=task.id, token=second.token)
    assert [run.final for run in clocked_store.task_runs(id=task.id).runs] == [True, False]


def test_a_heartbeat_extends_a_lease(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    task = add(clocked_store)
    (taken,) = claim(clocked_store, seconds=60)
    clock.move(seconds=50)
    assert clocked_store.task_heartbeat(id=task.id, token=taken.token, seconds=60).stop is False
    clock.move(seconds=50)
    assert claim(clocked_store) == []
    assert clocked_store.task_finish(id=task.id, token=taken.token).task.state == "done"


def test_a_failing_task_is_retried_with_growing_delays_and_then_fails(
    clocked_store: holdfast.Holdfast, clock: Any
) -> None:
    task = add(clocked_store, max_attempts=3)
    pauses = []
    for number in (1, 2, 3):
        (taken,) = claim(clocked_store, seconds=5)
        ended = clocked_store.task_finish(id=task.id, token=taken.token, error=f"no {number}").task
        assert (ended.attempts, ended.last_error) == (number, f"no {number}")
        if number < 3:
            pauses.append(ended.ready_at)
            clock.move(seconds=120)
    assert ended.state == "failed"
    assert pauses[0] < pauses[1]
    assert claim(clocked_store) == []
    assert [(run.status, run.final) for run in clocked_store.task_runs(id=task.id).runs] == [
        ("failed", True),
        ("failed", False),
        ("failed", False),
    ]
    again = clocked_store.task_retry(id=task.id)
    assert (again.state, again.attempts) == ("pending", 0)
    assert len(claim(clocked_store)) == 1


def test_a_task_that_kills_its_worker_fails_eventually(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    task = add(clocked_store, max_attempts=2)
    for _ in range(2):
        assert len(claim(clocked_store, seconds=10)) == 1
        clock.move(seconds=11)
    assert claim(clocked_store) == []
    ended = clocked_store.task_show(id=task.id)
    assert (ended.state, ended.attempts) == ("failed", 2)
    assert [(run.status, run.final) for run in clocked_store.task_runs(id=task.id).runs] == [
        ("lost", True),
        ("lost", False),
    ]


def test_a_repeating_task_continues_after_one_occurrence_failed(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    task = add(clocked_store, due_at=to_datetime(clock() - 10 * SECOND), repeat="daily", max_attempts=1)
    (taken,) = claim(clocked_store)
    after = clocked_store.task_finish(id=task.id, token=taken.token, error="no").task
    assert (after.state, after.attempts, after.last_error) == ("pending", 0, "no")
    assert after.due_at == to_datetime(clock() - 10 * SECOND + DAY)


def test_a_retry_does_not_move_the_next_scheduled_time(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    first = clock() - SECOND
    task = add(clocked_store, due_at=to_datetime(first), repeat="daily")
    (taken,) = claim(clocked_store)
    clocked_store.task_finish(id=task.id, token=taken.token, error="no")
    clock.move(seconds=3600)
    (taken,) = claim(clocked_store)
    assert clocked_store.task_finish(id=task.id, token=taken.token).task.due_at == to_datetime(first + DAY)


@pytest.mark.parametrize(("misfire", "claims"), [("once", 1), ("all", 3), ("skip", 0)])
def test_missed_runs_follow_the_misfire_setting(
    clocked_store: holdfast.Holdfast, clock: Any, misfire: str, claims: int
) -> None:
    first = clock() - 2 * DAY - 3600 * SECOND
    task = add(clocked_store, due_at=to_datetime(first), repeat="daily", misfire=misfire)
    made = 0
    while taken := claim(clocked_store):
        clocked_store.task_finish(id=task.id, token=taken[0].token)
        made += 1
    assert made == claims
    assert clocked_store.task_show(id=task.id).due_at == to_datetime(first + 3 * DAY)


def test_a_waiting_task_is_cancelled_and_a_running_one_is_asked_to_stop(clocked_store: holdfast.Holdfast) -> None:
    waits, done = (
        add(clocked_store, "One thing", due_at="2030-01-01"),
        add(clocked_store, "Another thing", repeat="daily"),
    )
    assert clocked_store.task_cancel(id=waits.id[:8]).state == "cancelled"
    with pytest.raises(Conflict):
        clocked_store.task_cancel(id=waits.id)
    (taken,) = claim(clocked_store)
    assert clocked_store.task_cancel(id=done.id).state == "running"
    assert clocked_store.task_heartbeat(id=done.id, token=taken.token).stop is True
    assert clocked_store.task_finish(id=done.id, token=taken.token, error="stopped").task.state == "cancelled"


def test_a_cancelled_and_abandoned_task_does_not_repeat(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    task = add(clocked_store, repeat="daily")
    claim(clocked_store, seconds=10)
    clocked_store.task_cancel(id=task.id)
    clock.move(seconds=11)
    assert claim(clocked_store) == []
    assert clocked_store.task_show(id=task.id).state == "cancelled"


def test_only_a_waiting_task_can_be_changed_or_postponed(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    first = clock() + DAY
    task = add(clocked_store, due_at=to_datetime(first), repeat="daily")
    assert clocked_store.task_update(id=task.id, title="Pay more").title == "Pay more"
    later = to_datetime(first + 3600 * SECOND)
    put_off = clocked_store.task_defer(id=task.id, until=later)
    assert (put_off.due_at, put_off.ready_at) == (to_datetime(first), later)
    clock.move(seconds=86_400 + 1800)
    assert claim(clocked_store) == []
    clock.move(seconds=1800)
    (taken,) = claim(clocked_store)
    with pytest.raises(Conflict):
        clocked_store.task_update(id=task.id, title="Pay less")
    assert clocked_store.task_finish(id=task.id, token=taken.token).task.due_at == to_datetime(first + DAY)
    moved = clocked_store.task_update(id=task.id, due_at="2031-05-01T08:00", zone="Europe/Berlin")
    assert moved.due_at == datetime(2031, 5, 1, 6, tzinfo=UTC)
    with pytest.raises(Invalid):
        clocked_store.task_defer(id=task.id, until="2001-01-01")
    with pytest.raises(Invalid):
        clocked_store.task_update(id=task.id)


@pytest.mark.parametrize("id", ["", "%", "%%%%%%", "______", "abc"])
def test_an_id_prefix_that_is_empty_short_or_a_pattern_matches_nothing(
    clocked_store: holdfast.Holdfast, id: str
) -> None:
    add(clocked_store)
    with pytest.raises((Invalid, NotFound)):
        clocked_store.task_cancel(id=id)
    assert clocked_store.task_list().total == 1


def test_an_ambiguous_id_prefix_matches_nothing(clocked_store: holdfast.Holdfast) -> None:
    add(clocked_store)
    task = clocked_store.task_list().tasks[0]
    twin = replace(service.get_task(clocked_store.ctx, task.id), id=task.id[:8] + "-0000", unique_key=None)
    with clocked_store.ctx.store.transaction() as session:
        store.TASKS.put(session, twin)
    with pytest.raises(AmbiguousId):
        clocked_store.task_cancel(id=task.id[:8])
    assert clocked_store.task_show(id=twin.id).id == twin.id


def test_an_agent_sees_only_its_own_tasks_and_an_admin_all(
    clocked_store: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    ann, bob = (seen_by(agent, right="write") for agent in ("ann", "bob"))
    mine, hers = add(ann, "Mine"), add(ann, "For bob", principal="bob")
    assert [task.id for task in bob.task_list().tasks] == [hers.id]
    assert clocked_store.task_list().total == 2
    with pytest.raises(NotFound):
        bob.task_cancel(id=mine.id)
    assert [one.task.id for one in bob.task_claim().claimed] == [hers.id]
    with pytest.raises(Forbidden):
        bob.task_add(title="x", due_at=SOON, handler="command", target="true")


def test_a_batch_claims_the_longest_waiting_tasks_up_to_its_limit(clocked_store: holdfast.Holdfast) -> None:
    for day in range(5, 0, -1):
        add(clocked_store, f"Thing number {day}", due_at=f"2020-01-0{day}")
    assert [one.task.title[-1] for one in claim(clocked_store, limit=3)] == ["1", "2", "3"]
    assert [one.task.title[-1] for one in claim(clocked_store, limit=3)] == ["4", "5"]


def test_tasks_with_a_handler_are_left_to_workers(clocked_store: holdfast.Holdfast) -> None:
    add(clocked_store, handler="command", target="true")
    assert claim(clocked_store) == []
