"""Conversations stay active until idle, keep turns in order, and are summarised before turns are archived."""

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.features.conversations import service as conversations
from holdfast.kernel.errors import Conflict, Invalid, NotFound


def say(hold: Any, *said: str, **more: Any) -> Any:
    """Append turns, alternately of a user and an assistant."""
    roles = ("user", "assistant")
    turns = [{"role": roles[number % 2], "content": text} for number, text in enumerate(said)]
    return hold.conversation_say(turns=turns, **more)


def turns(hold: Any, id: str, **more: Any) -> list[tuple[str, str]]:
    return [(turn.role, turn.content) for turn in hold.conversation_show(id=id, **more).turns]


def test_what_is_said_is_kept_in_its_order_though_it_is_of_one_moment(timed: holdfast.Holdfast) -> None:
    first = say(timed, "q0", "r0")
    second = say(timed, "q1", "r1")
    assert (first.began, second.began, second.conversation_id) == (True, False, first.conversation_id)
    assert turns(timed, first.conversation_id) == [
        ("user", "q0"),
        ("assistant", "r0"),
        ("user", "q1"),
        ("assistant", "r1"),
    ]
    assert turns(timed, first.conversation_id, after=2, limit=1) == [("user", "q1")]


def test_both_sides_are_found_by_what_they_mean(timed: holdfast.Holdfast) -> None:
    said = say(timed, "The database is broken today.", "We decided to move the backups to Hamburg.")
    for question, place in (("is the database still broken?", 0), ("where do backups go?", 1)):
        found = timed.recall(question).memories[0]
        assert (found.id, found.memory_kind) == (said.turns[place].memory_id, "conversation")


def test_after_two_hours_another_begins_and_scopes_stay_apart(timed: holdfast.Holdfast, clock: Any) -> None:
    first = say(timed, "hello").conversation_id
    clock.move(seconds=119 * 60)
    assert say(timed, "still here").conversation_id == first
    clock.move(seconds=120 * 60)
    assert say(timed, "again").conversation_id != first
    ids = {
        say(timed, "x", **scope).conversation_id
        for scope in ({}, {"channel": "slack"}, {"principal": "ann"}, {"namespace": "shop"})
    }
    assert len(ids) == 4
    assert timed.conversation_list(state="active").count == 4
    assert [one.id for one in timed.conversation_list(state="closing").conversations] == [first]


def test_one_person_goes_on_under_another_name(timed: holdfast.Holdfast) -> None:
    timed.principal_merge(alias="slack:U42", principal="ann")
    first = say(timed, "hello", principal="ann")
    assert say(timed, "and more", principal="slack:U42").conversation_id == first.conversation_id
    assert timed.conversation_list(principal=["slack:U42"]).count == 1


def test_a_turn_that_cannot_be_kept_leaves_none(timed: holdfast.Holdfast) -> None:
    for bad in ("x" * 70_000, ""):
        with pytest.raises(Invalid):
            say(timed, "fine", bad)
    assert timed.conversation_list().count == 0
    assert timed.stats().total == 0


def test_a_conversation_is_closed_with_a_summary_given_or_made(timed: holdfast.Holdfast) -> None:
    first = say(timed, "The migration failed because a column was missing.", "I added the column. The migration works.")
    made = timed.conversation_close()
    assert (made.state, made.covered, made.id) == ("closed", 2, first.conversation_id)
    assert "column" in made.summary
    with pytest.raises(Conflict):
        timed.conversation_close(id=made.id)
    with pytest.raises(NotFound):
        timed.conversation_close()
    say(timed, "Another one.")
    given = timed.conversation_close(summary="They said hello.")
    assert given.summary == "They said hello."
    found = timed.recall("what about the missing column").memories
    assert "summary" in {one.memory_kind for one in found}


def test_the_reaper_closes_what_nobody_goes_on_with_piece_by_piece(
    timed: holdfast.Holdfast, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations, "CHUNK", 3)
    for number in range(4):
        say(timed, f"The answer to question {number} is {number * 7}.", "Thank you.")
    assert timed.conversation_reap().closed == []
    clock.move(hours=3)
    say(timed, "Not idle.", channel="slack")
    (closed,) = timed.conversation_reap().closed
    one = timed.conversation_show(id=closed).conversation
    assert (one.state, one.turns, one.covered) == ("closed", 8, 8)
    assert "question" in one.summary


def test_a_conversation_that_was_summarised_in_passing_is_closed_from_there_on(timed: holdfast.Holdfast) -> None:
    for number in range(10):
        said = say(timed, *(f"Sentence {number}-{one} of a long talk." for one in range(10)))
    begun = timed.conversation_show(id=said.conversation_id, limit=1).conversation
    assert (begun.state, begun.covered) == ("active", 30)
    closed = timed.conversation_close()
    assert (closed.state, closed.covered, closed.summary_id) == ("closed", 100, begun.summary_id)


def test_words_that_others_keep_meanwhile_leave_the_summary_to_the_next(
    timed: holdfast.Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(timed, *(f"Sentence {number} of a long talk." for number in range(70)))
    made = conversations.weightiest

    def meanwhile(*asked: Any) -> str:
        monkeypatch.setattr(conversations, "weightiest", made)
        say(timed, "I was quicker.")
        return made(*asked)

    monkeypatch.setattr(conversations, "weightiest", meanwhile)
    say(timed, *("And", "five", "more", "of", "these", "words"))
    (going,) = timed.conversation_list().conversations
    assert (going.turns, going.covered) == (77, 0)
    say(timed, "Now.")
    (going,) = timed.conversation_list().conversations
    assert (going.turns, going.covered) == (78, 28)


def test_a_reaper_takes_up_what_one_that_died_began(
    timed: holdfast.Holdfast, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = say(timed, "It rained all day long in the garden.")
    clock.move(hours=3)
    with monkeypatch.context() as broken:
        broken.setattr(conversations, "summarise", lambda *_: (_ for _ in ()).throw(RuntimeError("died")))
        with pytest.raises(RuntimeError):
            timed.conversation_reap()
    say(timed, "hello")
    assert timed.conversation_show(id=said.conversation_id).conversation.state == "closing"
    assert timed.conversation_reap().closed == [said.conversation_id]


def test_turns_are_put_away_only_when_a_summary_tells_of_them(timed: holdfast.Holdfast, clock: Any) -> None:
    said = say(timed, "It rained all day long in the garden.", "The roses liked it.")
    clock.move(days=40)
    open_one = say(timed, "Hello.").conversation_id
    assert timed.conversation_reap(prune_days=30).pruned == []
    clock.move(days=31)
    timed.task_add(title="x", due_at="2030-01-01")
    assert timed.conversation_reap(prune_days=30).pruned == [said.conversation_id]
    assert timed.recall("roses").memories[0].memory_kind == "summary"
    assert turns(timed, said.conversation_id)[1] == ("assistant", "The roses liked it.")
    assert timed.conversation_show(id=said.conversation_id).conversation.pruned is True
    assert timed.conversation_show(id=open_one).conversation.state == "closed"


def test_one_reaper_is_at_work_at_a_time(timed: holdfast.Holdfast, clock: Any) -> None:
    conversations._take(timed.hold, "another")
    with pytest.raises(Conflict, match="Another reaper"):
        timed.conversation_reap()
    clock.move(seconds=301)
    assert timed.conversation_reap().closed == []


def test_an_agent_sees_its_own_conversations_alone(timed: holdfast.Holdfast, seen_by: Callable[..., Any]) -> None:
    said = say(timed, "hello", namespace="shop")
    other = seen_by("ai:else@here", right="write")
    assert other.conversation_list().count == 0
    with pytest.raises(NotFound):
        other.conversation_show(id=said.conversation_id)
    with pytest.raises(NotFound):
        other.conversation_close(id=said.conversation_id)
