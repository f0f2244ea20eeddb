"""Conversations stay active until idle, keep turns in order, and are summarised before turns are archived."""

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.features.conversations import service as conversations
from holdfast.kernel.errors import Conflict, Invalid, NotFound


def say_turns(ctx: Any, *said: str, **more: Any) -> Any:
    """Append turns, alternately of a user and an assistant."""
    roles = ("user", "assistant")
    turns = [{"role": roles[number % 2], "content": text} for number, text in enumerate(said)]
    return ctx.conversation_say(turns=turns, **more)


def list_turns(ctx: Any, id: str, **more: Any) -> list[tuple[str, str]]:
    return [(turn.role, turn.content) for turn in ctx.conversation_show(id=id, **more).turns]


def test_turns_of_the_same_time_keep_their_order(clocked_store: holdfast.Holdfast) -> None:
    first = say_turns(clocked_store, "q0", "r0")
    second = say_turns(clocked_store, "q1", "r1")
    assert (first.began, second.began, second.conversation_id) == (True, False, first.conversation_id)
    assert list_turns(clocked_store, first.conversation_id) == [
        ("user", "q0"),
        ("assistant", "r0"),
        ("user", "q1"),
        ("assistant", "r1"),
    ]
    assert list_turns(clocked_store, first.conversation_id, after=2, limit=1) == [("user", "q1")]


def test_both_sides_are_found_by_meaning(clocked_store: holdfast.Holdfast) -> None:
    said = say_turns(clocked_store, "The database is broken today.", "We decided to move the backups to Hamburg.")
    for question, place in (("is the database still broken?", 0), ("where do backups go?", 1)):
        found = clocked_store.recall(question).memories[0]
        assert (found.id, found.memory_kind) == (said.turns[place].memory_id, "conversation")


def test_a_new_conversation_starts_after_two_hours_and_scopes_are_separate(
    clocked_store: holdfast.Holdfast, clock: Any
) -> None:
    first = say_turns(clocked_store, "hello").conversation_id
    clock.move(seconds=119 * 60)
    assert say_turns(clocked_store, "still here").conversation_id == first
    clock.move(seconds=120 * 60)
    assert say_turns(clocked_store, "again").conversation_id != first
    ids = {
        say_turns(clocked_store, "x", **scope).conversation_id
        for scope in ({}, {"channel": "slack"}, {"principal": "ann"}, {"namespace": "shop"})
    }
    assert len(ids) == 4
    assert clocked_store.conversation_list(state="active").count == 4
    assert [one.id for one in clocked_store.conversation_list(state="closing").conversations] == [first]


def test_a_person_continues_a_conversation_under_an_alias(clocked_store: holdfast.Holdfast) -> None:
    clocked_store.principal_merge(alias="slack:U42", principal="ann")
    first = say_turns(clocked_store, "hello", principal="ann")
    assert say_turns(clocked_store, "and more", principal="slack:U42").conversation_id == first.conversation_id
    assert clocked_store.conversation_list(principal=["slack:U42"]).count == 1


def test_an_invalid_turn_leaves_no_turns(clocked_store: holdfast.Holdfast) -> None:
    for bad in ("x" * 70_000, ""):
        with pytest.raises(Invalid):
            say_turns(clocked_store, "fine", bad)
    assert clocked_store.conversation_list().count == 0
    assert clocked_store.stats().total == 0


def test_a_conversation_is_closed_with_a_given_or_generated_summary(clocked_store: holdfast.Holdfast) -> None:
    first = say_turns(
        clocked_store, "The migration failed because a column was missing.", "I added the column. The migration works."
    )
    made = clocked_store.conversation_close()
    assert (made.state, made.covered, made.id) == ("closed", 2, first.conversation_id)
    assert "column" in made.summary
    with pytest.raises(Conflict):
        clocked_store.conversation_close(id=made.id)
    with pytest.raises(NotFound):
        clocked_store.conversation_close()
    say_turns(clocked_store, "Another one.")
    given = clocked_store.conversation_close(summary="They said hello.")
    assert given.summary == "They said hello."
    found = clocked_store.recall("what about the missing column").memories
    assert "summary" in {one.memory_kind for one in found}


def test_the_reaper_closes_idle_conversations_in_batches(
    clocked_store: holdfast.Holdfast, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations, "SUMMARY_BATCH", 3)
    for number in range(4):
        say_turns(clocked_store, f"The answer to question {number} is {number * 7}.", "Thank you.")
    assert clocked_store.conversation_reap().closed == []
    clock.move(hours=3)
    say_turns(clocked_store, "Not idle.", channel="slack")
    (closed,) = clocked_store.conversation_reap().closed
    one = clocked_store.conversation_show(id=closed).conversation
    assert (one.state, one.turns, one.covered) == ("closed", 8, 8)
    assert "question" in one.summary


def test_a_conversation_with_a_rolling_summary_is_summarised_from_there(clocked_store: holdfast.Holdfast) -> None:
    for number in range(10):
        said = say_turns(clocked_store, *(f"Sentence {number}-{one} of a long talk." for one in range(10)))
    begun = clocked_store.conversation_show(id=said.conversation_id, limit=1).conversation
    assert (begun.state, begun.covered) == ("active", 30)
    closed = clocked_store.conversation_close()
    assert (closed.state, closed.covered, closed.summary_id) == ("closed", 100, begun.summary_id)


def test_a_summary_is_left_to_the_next_writer_after_a_concurrent_turn(
    clocked_store: holdfast.Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    say_turns(clocked_store, *(f"Sentence {number} of a long talk." for number in range(70)))
    made = conversations.extract_summary

    def meanwhile(*asked: Any) -> str:
        monkeypatch.setattr(conversations, "extract_summary", made)
        say_turns(clocked_store, "I was quicker.")
        return made(*asked)

    monkeypatch.setattr(conversations, "extract_summary", meanwhile)
    say_turns(clocked_store, *("And", "five", "more", "of", "these", "words"))
    (going,) = clocked_store.conversation_list().conversations
    assert (going.turns, going.covered) == (77, 0)
    say_turns(clocked_store, "Now.")
    (going,) = clocked_store.conversation_list().conversations
    assert (going.turns, going.covered) == (78, 28)


def test_a_reaper_resumes_the_work_of_a_crashed_one(
    clocked_store: holdfast.Holdfast, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = say_turns(clocked_store, "It rained all day long in the garden.")
    clock.move(hours=3)
    with monkeypatch.context() as broken:
        broken.setattr(conversations, "summarise_memories", lambda *_: (_ for _ in ()).throw(RuntimeError("died")))
        with pytest.raises(RuntimeError):
            clocked_store.conversation_reap()
    say_turns(clocked_store, "hello")
    assert clocked_store.conversation_show(id=said.conversation_id).conversation.state == "closing"
    assert clocked_store.conversation_reap().closed == [said.conversation_id]


def test_turns_are_archived_only_after_they_were_summarised(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    said = say_turns(clocked_store, "It rained all day long in the garden.", "The roses liked it.")
    clock.move(days=40)
    open_one = say_turns(clocked_store, "Hello.").conversation_id
    assert clocked_store.conversation_reap(prune_days=30).pruned == []
    clock.move(days=31)
    clocked_store.task_add(title="x", due_at="2030-01-01")
    assert clocked_store.conversation_reap(prune_days=30).pruned == [said.conversation_id]
    assert clocked_store.recall("roses").memories[0].memory_kind == "summary"
    assert list_turns(clocked_store, said.conversation_id)[1] == ("assistant", "The roses liked it.")
    assert clocked_store.conversation_show(id=said.conversation_id).conversation.pruned is True
    assert clocked_store.conversation_show(id=open_one).conversation.state == "closed"


def test_only_one_reaper_runs_at_a_time(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    conversations.REAPER.renew(clocked_store.ctx, "another")
    with pytest.raises(Conflict, match="Another reaper"):
        clocked_store.conversation_reap()
    clock.move(seconds=301)
    assert clocked_store.conversation_reap().closed == []


def test_an_agent_sees_only_its_own_conversations(
    clocked_store: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    said = say_turns(clocked_store, "hello", namespace="shop")
    other = seen_by("ai:else@here", right="write")
    assert other.conversation_list().count == 0
    with pytest.raises(NotFound):
        other.conversation_show(id=said.conversation_id)
    with pytest.raises(NotFound):
        other.conversation_close(id=said.conversation_id)
