"""Usage and run records are pruned by the settings, and never while they are needed."""

from collections.abc import Iterator
from typing import Any

import pytest

import holdfast
from holdfast.kernel.errors import BudgetExceeded
from holdfast.settings import Settings


@pytest.fixture
def short(db: str, clock: Any) -> Iterator[holdfast.Holdfast]:
    """A store with a retention of one day for everything."""
    settings = Settings(db=db, usage_retention_days=1, task_run_retention_days=1, run_retention_days=1, embedder="none")
    with holdfast.open(settings=settings, now=clock) as hold:
        yield hold


def collect_counts(hold: holdfast.Holdfast, **asked: Any) -> tuple[int, int, int]:
    done = hold.gc(**asked)
    return done.usage_dropped, done.task_runs_dropped, done.runs_dropped


def count_calls(hold: holdfast.Holdfast) -> int:
    return sum(one.calls for one in hold.usage_report(since="2000-01-01").usage)


def test_nothing_is_pruned_by_default(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    clocked_store.usage_record(model="m", input_tokens=5)
    clock.move(days=4000)
    assert collect_counts(clocked_store) == (0, 0, 0)
    assert count_calls(clocked_store) == 1


def test_old_usage_is_pruned_except_where_a_monthly_budget_counts_it(short: holdfast.Holdfast, clock: Any) -> None:
    clock.move(days=1)
    short.budget_set(principal="ann", model="*", period="month", tokens=100)
    for _ in range(3):
        short.usage_record(model="m", principal="ann", input_tokens=30)
        clock.move(days=3)
    assert (collect_counts(short), count_calls(short)) == ((0, 0, 0), 3)
    with pytest.raises(BudgetExceeded):
        short.usage_reserve(model="m", principal="ann", input_tokens=11)
    clock.move(days=30)
    short.usage_record(model="m", principal="ann", input_tokens=90)
    assert collect_counts(short, dry_run=True) == (3, 0, 0)
    assert (collect_counts(short), count_calls(short)) == ((3, 0, 0), 1)


def test_old_task_runs_are_pruned_except_those_of_open_tasks(short: holdfast.Holdfast, clock: Any) -> None:
    for title in ("Water the roses", "Paint the fence"):
        short.task_add(title=title, due_at="2026-01-01")
    done, again = ((one.task.id, one.token) for one in short.task_claim(limit=2, seconds=60).claimed)
    short.task_finish(id=done[0], token=done[1])
    short.task_finish(id=again[0], token=again[1], error="It rained.")
    clock.move(days=2)
    assert collect_counts(short) == (0, 1, 0)
    assert short.task_runs(id=done[0]).count == 0
    assert short.task_runs(id=again[0]).count == 1


def test_old_finished_runs_are_pruned_but_not_resumable_ones(short: holdfast.Holdfast, clock: Any) -> None:
    for id in ("ended", "open"):
        run = short.run_open(topology="release", phases=["build"], id=id)
        for state in ("in_progress", "completed"):
            short.run_step(id=id, token=run.token, phase="build", state=state)
        if id == "ended":
            short.run_close(id=id, token=run.token)
    clock.move(days=2)
    assert collect_counts(short) == (0, 0, 1)
    assert [run.id for run in short.run_list().runs] == ["open"]
