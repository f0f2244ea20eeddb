"""Queries that ask for a speaker or a time: you and I, before and after an event."""

from typing import Any

import pytest

import holdfast


@pytest.fixture
def hold(clocked_store: holdfast.Holdfast) -> holdfast.Holdfast:
    return clocked_store


def titles(answer: Any) -> list[str]:
    return [one.title for one in answer.memories]


def test_you_means_the_assistant_and_i_means_the_user(hold: Any) -> None:
    for place, speaker in enumerate(("user", "assistant", "user", "assistant")):
        said = "A roof of copper lasts longest." if place < 2 else "It rains again."
        hold.store(title=f"{speaker} {place}", content=said, speaker=speaker, thread="roof", place=place)
    assert titles(hold.recall("What did you say about a copper roof?"))[0] == "assistant 1"
    assert titles(hold.recall("What did I find out about a copper roof?"))[0] == "user 0"


def test_an_event_in_a_query_is_dated_by_the_memories(hold: Any) -> None:
    happened = {"Broken early": 3, "The migration": 10, "Broken late": 17}
    for title, day in happened.items():
        what = "The migration to Postgres is done." if title == "The migration" else "The nightly export broke."
        hold.store(title=title, content=what, occurred_at=f"2026-01-{day:02}T10:00:00Z")
    after, before = (titles(hold.recall(f"Which export broke {side} the migration?")) for side in ("after", "before"))
    assert after.index("Broken late") < after.index("Broken early")
    assert before.index("Broken early") < before.index("Broken late")
