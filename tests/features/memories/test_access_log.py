"""Access counts: flushed in batches, and they only extend lifetimes."""

from typing import Any

import pytest

import holdfast
from engines import hide_store
from holdfast.features.recall import flush_access as use
from holdfast.kernel.records.lifetime import Lifetimes
from holdfast.settings import Settings


@pytest.fixture
def ctx(clocked_store: holdfast.Holdfast) -> holdfast.Holdfast:
    return clocked_store


def recall_and_write_down(ctx: Any, question: str = "deploy", times: int = 1) -> int:
    for _ in range(times):
        ctx.recall(question)
    return use.flush_access_log(ctx.ctx)


def lives(ctx: Any, clock: Any, *, hours: int) -> bool:
    """Whether any memory is live after this many hours."""
    clock.move(hours=hours)
    alive = ctx.list().count > 0
    clock.move(hours=-hours)
    return alive


@pytest.mark.parametrize(("tier", "hours"), [("short", 6), ("mid", 7 * 24)])
def test_recall_never_shortens_a_lifetime(ctx: Any, clock: Any, tier: str, hours: int) -> None:
    stored = ctx.store(title="x", content="deploy", tier=tier)
    recall_and_write_down(ctx)
    assert ctx.get(stored.id).expires_at == stored.expires_at
    assert lives(ctx, clock, hours=hours - 1)
    assert not lives(ctx, clock, hours=hours)


@pytest.mark.parametrize(("tier", "waits", "extension"), [("short", 5, 1), ("mid", 7 * 24 - 1, 24)])
def test_a_late_use_lengthens_a_life(ctx: Any, clock: Any, tier: str, waits: int, extension: int) -> None:
    ctx.store(title="x", content="deploy", tier=tier)
    clock.move(hours=waits, seconds=1800)
    recall_and_write_down(ctx)
    clock.move(seconds=-1800)
    assert lives(ctx, clock, hours=extension)
    assert not lives(ctx, clock, hours=extension + 1)


def test_a_life_that_a_use_lengthened_is_not_shortened_by_an_edit(ctx: Any, clock: Any) -> None:
    stored = ctx.store(title="x", content="deploy", tier="short")
    clock.move(hours=5, seconds=1800)
    recall_and_write_down(ctx)
    ctx.update(stored.id, priority=9)
    clock.move(seconds=3599)
    assert ctx.list().count == 1


def test_accesses_are_counted_with_the_latest_time(ctx: Any, clock: Any) -> None:
    stored = ctx.store(title="x", content="deploy", tier="long")
    ctx.recall("deploy")
    at = clock.move(hours=1)
    recall_and_write_down(ctx, times=2)
    shown = ctx.get(stored.id)
    assert (shown.access_count, shown.last_accessed_at, shown.version) == (3, at, 1)


def test_reading_in_any_other_way_is_no_use(ctx: Any) -> None:
    stored = ctx.store(title="x", content="deploy")
    ctx.get(stored.id), ctx.list(), ctx.search("deploy"), ctx.history(stored.id)
    assert use.flush_access_log(ctx.ctx) == 0


def test_only_what_was_given_is_used(ctx: Any) -> None:
    """Memories cut by the limit or budget do not count as accessed."""
    first = ctx.store(title="first", content="deploy " * 15)
    ctx.store(title="large", content="deploy " * 20 + "noise " * 300)
    ctx.recall("deploy", budget_tokens=60)
    ctx.recall("deploy", limit=1)
    assert use.flush_access_log(ctx.ctx) == 1
    assert ctx.get(first.id).access_count == 2


def test_a_mid_term_memory_that_is_used_often_becomes_long_term(ctx: Any, clock: Any) -> None:
    stored = ctx.store(title="x", content="deploy", tier="mid")
    recall_and_write_down(ctx, times=4)
    assert ctx.get(stored.id).tier == "mid"
    recall_and_write_down(ctx)
    promoted = ctx.get(stored.id)
    assert (promoted.tier, promoted.version) == ("long", 2)
    assert lives(ctx, clock, hours=24 * 4000)
    assert [one.op for one in ctx.history(stored.id).changes] == ["store", "promote"]
    assert ctx.verify().intact


@pytest.mark.parametrize("tier", ["short", "long"])
def test_no_other_tier_is_promoted_by_use(ctx: Any, tier: str) -> None:
    stored = ctx.store(title="x", content="deploy", tier=tier)
    recall_and_write_down(ctx, times=9)
    assert (ctx.get(stored.id).tier, ctx.get(stored.id).version) == (tier, 1)


def test_lifetimes_and_the_number_of_uses_can_be_set(db: str, clock: Any) -> None:
    settings = Settings(db=db, ttl=Lifetimes(mid=3600, mid_extend=7200, promote_after=0))
    with holdfast.open(settings=settings, now=clock) as ctx:
        assert ctx.store(title="x", content="deploy", tier="mid").expires_at == clock.after(hours=1)
        recall_and_write_down(ctx, times=9)
        clock.move(seconds=7199)
        [kept] = ctx.list().memories
        assert kept.tier == "mid"


def test_a_use_does_not_revive_what_was_collected_since(ctx: Any, clock: Any) -> None:
    """Its title may be taken by now."""
    ctx.store(title="x", content="deploy", tier="short")
    clock.move(hours=5, seconds=3599)
    ctx.recall("deploy")
    clock.move(seconds=2)
    ctx.gc()
    taken = ctx.store(title="x", content="other", on_conflict="error")
    use.flush_access_log(ctx.ctx)
    assert [one.id for one in ctx.list().memories] == [taken.id]


@pytest.mark.parametrize("away", ["delete", "archive"])
def test_a_use_of_what_is_gone_since_counts_for_nothing(ctx: Any, away: str) -> None:
    stored = ctx.store(title="x", content="deploy")
    ctx.recall("deploy")
    ctx.delete(stored.id) if away == "delete" else ctx.archive(ids=[stored.id])
    use.flush_access_log(ctx.ctx)
    assert ctx.history(stored.id).changes[-1].memory["state"] in ("deleted", "archived")


def test_closing_writes_down_what_was_used(db: str, clock: Any) -> None:
    with holdfast.open(db, now=clock) as ctx:
        stored = ctx.store(title="x", content="deploy")
        ctx.recall("deploy")
    with holdfast.open(db, now=clock) as ctx:
        assert ctx.get(stored.id).access_count == 1


def test_uses_that_cannot_be_written_down_now_are_written_down_later(db: str) -> None:
    with holdfast.open(db, agent_id="ai:tester@here") as ctx:
        memory = ctx.store("Plan", "We deploy on Tuesdays.")
        ctx.recall("deploy")
        with hide_store(db):
            assert use.flush_access_log(ctx.ctx) == 0
        ctx.recall("deploy")
        assert use.flush_access_log(ctx.ctx) == 1
        assert ctx.get(memory.id).access_count == 2
