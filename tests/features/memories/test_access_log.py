"""Access counts: flushed in batches, and they only extend lifetimes."""

from typing import Any

import pytest

import holdfast
from engines import hide_store
from holdfast.features.recall import flush_access as use
from holdfast.kernel.records.validate import Lifetimes
from holdfast.settings import Settings


@pytest.fixture
def hold(clocked_store: holdfast.Holdfast) -> holdfast.Holdfast:
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
def test_recall_never_shortens_a_lifetime(hold: Any, clock: Any, tier: str, hours: int) -> None:
    stored = hold.store(title="x", content="deploy", tier=tier)
    recall_and_write_down(hold)
    assert hold.get(stored.id).expires_at == stored.expires_at
    assert lives(hold, clock, hours=hours - 1)
    assert not lives(hold, clock, hours=hours)


@pytest.mark.parametrize(("tier", "waits", "extension"), [("short", 5, 1), ("mid", 7 * 24 - 1, 24)])
def test_a_late_access_extends_a_lifetime(hold: Any, clock: Any, tier: str, waits: int, extension: int) -> None:
    hold.store(title="x", content="deploy", tier=tier)
    clock.move(hours=waits, seconds=1800)
    recall_and_write_down(hold)
    clock.move(seconds=-1800)
    assert lives(hold, clock, hours=extension)
    assert not lives(hold, clock, hours=extension + 1)


def test_an_edit_does_not_shorten_a_lifetime_extended_by_access(hold: Any, clock: Any) -> None:
    stored = hold.store(title="x", content="deploy", tier="short")
    clock.move(hours=5, seconds=1800)
    recall_and_write_down(hold)
    hold.update(stored.id, priority=9)
    clock.move(seconds=3599)
    assert hold.list().count == 1


def test_accesses_are_counted_with_the_latest_time(hold: Any, clock: Any) -> None:
    stored = hold.store(title="x", content="deploy", tier="long")
    hold.recall("deploy")
    at = clock.move(hours=1)
    recall_and_write_down(hold, times=2)
    shown = hold.get(stored.id)
    assert (shown.access_count, shown.last_accessed_at, shown.version) == (3, at, 1)


def test_other_reads_do_not_count_as_access(hold: Any) -> None:
    stored = hold.store(title="x", content="deploy")
    hold.get(stored.id), hold.list(), hold.search("deploy"), hold.history(stored.id)
    assert use.flush_access_log(hold.ctx) == 0


def test_only_returned_memories_count_as_accessed(hold: Any) -> None:
    """Memories cut by the limit or budget do not count as accessed."""
    first = hold.store(title="first", content="deploy " * 15)
    hold.store(title="large", content="deploy " * 20 + "noise " * 300)
    hold.recall("deploy", budget_tokens=60)
    hold.recall("deploy", limit=1)
    assert use.flush_access_log(hold.ctx) == 1
    assert hold.get(first.id).access_count == 2


def test_a_frequently_accessed_mid_term_memory_becomes_long_term(hold: Any, clock: Any) -> None:
    stored = hold.store(title="x", content="deploy", tier="mid")
    recall_and_write_down(hold, times=4)
    assert hold.get(stored.id).tier == "mid"
    recall_and_write_down(hold)
    promoted = hold.get(stored.id)
    assert (promoted.tier, promoted.version) == ("long", 2)
    assert lives(hold, clock, hours=24 * 4000)
    assert [one.op for one in hold.history(stored.id).changes] == ["store", "promote"]
    assert hold.verify().intact


@pytest.mark.parametrize("tier", ["short", "long"])
def test_access_promotes_no_other_tier(hold: Any, tier: str) -> None:
    stored = hold.store(title="x", content="deploy", tier=tier)
    recall_and_write_down(hold, times=9)
    assert (hold.get(stored.id).tier, hold.get(stored.id).version) == (tier, 1)


def test_lifetimes_and_the_promotion_threshold_are_configurable(db: str, clock: Any) -> None:
    settings = Settings(db=db, ttl=Lifetimes(mid=3600, mid_extend=7200, promote_after=0))
    with holdfast.open(settings=settings, now=clock) as hold:
        assert hold.store(title="x", content="deploy", tier="mid").expires_at == clock.after(hours=1)
        recall_and_write_down(hold, times=9)
        clock.move(seconds=7199)
        [kept] = hold.list().memories
        assert kept.tier == "mid"


def test_an_access_does_not_revive_a_collected_memory(hold: Any, clock: Any) -> None:
    """Its title may be taken by now."""
    hold.store(title="x", content="deploy", tier="short")
    clock.move(hours=5, seconds=3599)
    hold.recall("deploy")
    clock.move(seconds=2)
    hold.gc()
    taken = hold.store(title="x", content="other", on_conflict="error")
    use.flush_access_log(hold.ctx)
    assert [one.id for one in hold.list().memories] == [taken.id]


@pytest.mark.parametrize("away", ["delete", "archive"])
def test_an_access_of_a_deleted_memory_is_ignored(hold: Any, away: str) -> None:
    stored = hold.store(title="x", content="deploy")
    hold.recall("deploy")
    hold.delete(stored.id) if away == "delete" else hold.archive(ids=[stored.id])
    use.flush_access_log(hold.ctx)
    assert hold.history(stored.id).changes[-1].memory["state"] in ("deleted", "archived")


def test_closing_flushes_pending_accesses(db: str, clock: Any) -> None:
    with holdfast.open(db, now=clock) as hold:
        stored = hold.store(title="x", content="deploy")
        hold.recall("deploy")
    with holdfast.open(db, now=clock) as hold:
        assert hold.get(stored.id).access_count == 1


def test_accesses_that_cannot_be_flushed_are_flushed_later(db: str) -> None:
    with holdfast.open(db, agent_id="ai:tester@here") as hold:
        memory = hold.store("Plan", "We deploy on Tuesdays.")
        hold.recall("deploy")
        with hide_store(db):
            assert use.flush_access_log(hold.ctx) == 0
        hold.recall("deploy")
        assert use.flush_access_log(hold.ctx) == 1
        assert hold.get(memory.id).access_count == 2
