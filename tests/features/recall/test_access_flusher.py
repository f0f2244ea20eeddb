"""Accesses are counted while a process keeps its store open, not only when it closes it."""

import holdfast
from holdfast.features.memories.read_memories import MAX_ACCESSES, AccessLog
from holdfast.features.recall.flush_access import AccessFlusher


def wait_for_count(hold: holdfast.Holdfast, id: str, count: int) -> None:
    """Wait until another thread has counted the accesses of a memory; the test's time limit ends it."""
    while hold.get(id).access_count < count:
        hold.ctx.store.wait_for_commit(1.0)


def test_accesses_are_counted_while_the_store_is_open(db: str) -> None:
    with holdfast.open(db) as hold:
        hold.access_flusher.close()
        memory = hold.store("Plan", "We deploy on Tuesdays.")
        flusher = AccessFlusher(hold.ctx, seconds=0.01)
        for number in range(1, 4):
            hold.recall("deploy")
            wait_for_count(hold, memory.id, number)
        flusher.close()


def test_many_accesses_are_counted_at_once(db: str) -> None:
    with holdfast.open(db) as hold:
        memory = hold.store("Plan", "We deploy on Tuesdays.")
        for _ in range(MAX_ACCESSES):
            hold.ctx.local[AccessLog].record("ai:tester@here", [memory.id], hold.ctx.now())
        wait_for_count(hold, memory.id, MAX_ACCESSES)


def test_a_short_process_counts_when_it_closes_its_store(db: str) -> None:
    with holdfast.open(db, once=True) as hold:
        memory = hold.store("Plan", "We deploy on Tuesdays.")
        hold.recall("deploy")
        assert hold.access_flusher is None
    with holdfast.open(db) as hold:
        hold.recall("deploy")
        assert hold.get(memory.id).access_count == 1
    with holdfast.open(db) as hold:
        assert hold.get(memory.id).access_count == 2
