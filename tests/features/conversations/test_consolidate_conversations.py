"""Conversations are consolidated when enough is new, by one process at a time; archived before deletion."""

import subprocess
import sys
from typing import Any

import holdfast
from holdfast.kernel.storage import leases
from holdfast.kernel.timestamps import SECOND

SAID = [
    {"role": "user", "content": "The till prints two receipts."},
    {"role": "assistant", "content": "Too old a driver."},
]


def talk(hold: holdfast.Holdfast, clock: Any, times: int) -> None:
    """Store idle conversations."""
    for _ in range(times):
        hold.conversation_say(turns=SAID, principal="ann")
        clock.move(hours=3)


def test_an_empty_store_or_too_few_conversations_are_skipped(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    assert clocked_store.conversation_consolidate().gate == "conversations"
    talk(clocked_store, clock, 4)
    assert clocked_store.conversation_consolidate().gate == "conversations"
    talk(clocked_store, clock, 1)
    done = clocked_store.conversation_consolidate()
    assert (done.ran, done.closed) == (True, 5)


def test_consolidation_is_repeated_only_after_a_while_and_for_new_conversations(
    clocked_store: holdfast.Holdfast, clock: Any
) -> None:
    talk(clocked_store, clock, 5)
    assert clocked_store.conversation_consolidate().ran
    talk(clocked_store, clock, 6)
    assert clocked_store.conversation_consolidate().gate == "time"
    assert clocked_store.conversation_consolidate(min_hours=12).closed == 6
    clock.move(days=2)
    assert clocked_store.conversation_consolidate().gate == "conversations"
    assert clocked_store.conversation_consolidate(force=True).closed == 0


def test_only_one_process_consolidates_at_a_time(clocked_store: holdfast.Holdfast, clock: Any, db: str) -> None:
    talk(clocked_store, clock, 5)
    with clocked_store.ctx.store.transaction() as session:
        assert leases.acquire(session, "consolidation", "another process", clock() + 60 * SECOND, clock())
    assert clocked_store.conversation_consolidate().gate == "lease"
    assert clocked_store.conversation_consolidate(force=True).gate == "lease"
    clock.move(seconds=61)
    assert clocked_store.conversation_consolidate().ran
    with clocked_store.ctx.store.reading() as session:
        assert leases.get_lease(session, "consolidation", clock()) is None
    other = [sys.executable, "-m", "holdfast", "conversation", "consolidate", "--db", db]
    told = subprocess.run(other, capture_output=True, text=True, check=True).stdout
    assert told.startswith("Skipped")


def test_consolidation_waits_for_a_running_reaper(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    talk(clocked_store, clock, 5)
    with clocked_store.ctx.store.transaction() as session:
        assert leases.acquire(session, "reaper", "another process", clock() + 60 * SECOND, clock())
    assert clocked_store.conversation_consolidate().gate == "lease"
    clock.move(seconds=61)
    assert clocked_store.conversation_consolidate().closed == 5


def test_turns_are_summarised_then_archived_and_never_deleted(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    talk(clocked_store, clock, 5)
    first = clocked_store.conversation_consolidate()
    assert (first.closed, first.pruned) == (5, 0)
    clock.move(days=31)
    assert clocked_store.conversation_consolidate(force=True).pruned == 5
    (last, *_) = clocked_store.conversation_list().conversations
    assert (last.pruned, last.covered) == (True, 2)
    assert clocked_store.conversation_show(last.id).count == 2
    assert clocked_store.recall("receipts of the till").memories[0].memory_kind == "summary"


def test_old_evidence_is_archived_before_it_is_dropped(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    for number in range(5):
        clocked_store.outcome_record(score=1, domain="soup", what=f"It went well, {number}.", principal="ann")
        clock.move(seconds=1)
    clocked_store.outcome_record(score=1, domain="soup", what="It went well, too.", principal="bob")
    done = clocked_store.conversation_consolidate(force=True, keep_outcomes=3)
    assert (done.outcomes_archived, done.outcomes_dropped) == (2, 0)
    assert [one.what[-2] for one in clocked_store.outcome_list(principal=["ann"]).outcomes] == ["4", "3", "2"]
    assert clocked_store.outcome_list(principal=["ann"], archived=True).count == 5
    clock.move(days=31)
    done = clocked_store.conversation_consolidate(force=True, keep_outcomes=3)
    assert (done.outcomes_archived, done.outcomes_dropped) == (0, 2)
    assert clocked_store.outcome_list(archived=True).count == 4


def test_interaction_texts_are_erased_on_request(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    clocked_store.interaction_record(status="ok", reason="said long ago")
    clock.move(days=91)
    assert clocked_store.conversation_consolidate(force=True).interactions_erased == 0
    assert clocked_store.conversation_consolidate(force=True, interaction_days=90).interactions_erased == 1
