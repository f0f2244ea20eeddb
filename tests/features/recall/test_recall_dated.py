"""A date in a query finds memories of that date, whatever words they share."""

from datetime import date, timedelta
from typing import Any

import holdfast
from holdfast.settings import load

DONE = ("walked by the river", "mended a chain", "cooked lentils", "read of Peru", "painted the wall", "swam in a lake")


def diary(ctx: Any, first: str, days: int, said: str = "", namespace: str = "diary") -> None:
    """Store an entry for noon UTC of every day."""
    start = date.fromisoformat(first)
    entries = [(start + timedelta(number), said or DONE[number % len(DONE)]) for number in range(days)]
    memories = [
        {"title": f"entry {day:%j %y}", "content": text, "occurred_at": f"{day}T12:00:00Z", "namespace": namespace}
        for day, text in entries
    ]
    assert not ctx.bulk_store(memories).errors


def days(ctx: Any, question: str, **more: Any) -> list[str]:
    found = ctx.recall(question, **{"namespace": "diary", "now": "2024-03-01T10:00:00Z", **more}).memories
    return [f"{hit.occurred_at:%Y-%m-%d}" for hit in found]


def test_memories_of_a_queried_day_are_found_without_query_words(hold: Any) -> None:
    diary(hold, "2023-12-01", 121)
    assert days(hold, "what did I do yesterday?") == ["2024-02-29"]
    assert sorted(days(hold, "what happened last week?")) == [f"2024-02-{day}" for day in range(19, 26)]
    assert days(hold, "anything after 28 March 2024?") == ["2024-03-29", "2024-03-30"]
    assert len(days(hold, "what happened last month?")) == 10


def test_a_memory_of_the_queried_day_ranks_before_a_hundred_with_the_same_words(hold: Any) -> None:
    diary(hold, "2023-12-01", 150, "The visitor came to the museum.")
    for then in ("2023-12-03", "2024-01-31", "2024-04-27"):
        assert days(hold, f"who came to the museum on {then}?")[0] == then


def test_a_memory_with_query_words_is_found_in_a_crowded_period(hold: Any) -> None:
    diary(hold, "2024-02-01", 28, "It rained.")
    for number in range(3):
        diary(hold, "2023-01-01", 40, "The museum was open.", f"diary/{number}")
    hold.store(
        title="then",
        content="It was so long to the museum that we turned back and went home again.",
        occurred_at="2024-02-03T08:00:00Z",
        namespace="diary",
    )
    assert hold.recall("museum last month", now="2024-03-01").memories[0].title == "then"


def test_a_small_namespace_is_found_despite_many_memories_of_the_same_day(hold: Any) -> None:
    for number in range(20):
        diary(hold, "2024-02-29", 1, "something", f"other/{number}")
    diary(hold, "2024-02-29", 1)
    assert days(hold, "what did I do yesterday?") == ["2024-02-29"]


def test_a_day_is_that_of_the_time_zone_of_now(hold: Any) -> None:
    for at in ("28T20", "29T02", "29T20"):
        hold.store(title=at, content="The visitor came.", occurred_at=f"2024-02-{at}:00:00Z", namespace="diary")

    def then(question: str, now: str) -> set[str]:
        found = hold.recall(question, now=now, explain=True).memories
        return {hit.title for hit in found if hit.why.parts["date"].value == 1}

    assert then("who came yesterday?", "2024-03-01T01:00:00Z") == {"29T02", "29T20"}
    assert then("who came today?", "2024-02-28T19:00:00-08:00") == {"28T20", "29T02"}
    assert then("who came today?", "2024-02-29T01:00:00-08:00") == {"29T20"}
    assert then("who came yesterday?", "2024-03-01T01:00:00+14:00") == {"28T20", "29T02"}


def test_a_memory_found_by_no_channel_is_not_reported_within_the_limit(db: str) -> None:
    with holdfast.open(settings=load({"db": db, "embedder": "none"})) as hold:
        diary(hold, "2024-02-28", 3)
        today = next(
            one for one in hold.list(namespace="diary").memories if f"{one.occurred_at:%Y-%m-%d}" == "2024-03-01"
        )
        told = hold.why_not(today.id, "what did I do yesterday?", namespace="diary", now="2024-03-01T10:00:00Z")
    assert not told.returned
    assert [reason.code for reason in told.reasons] == ["no_words", "no_question_vector"]
    assert told.place == 2, "the day after is near enough for that, had anything found it"
