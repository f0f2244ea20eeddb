"""Query plans of what agents wait for: recent turns and lessons use their own indexes."""

import pytest
from plans import Plans

from holdfast.app import Holdfast


@pytest.fixture
def used_store(hold: Holdfast) -> Holdfast:
    hold.conversation_say(turns=[{"role": "user", "content": "Is it on?"}], namespace="shop", principal="ann")
    hold.lesson_add(rule="Look before you leap, always.", domain="life", namespace="shop")
    hold.interaction_record(status="ok", principal="ann")
    return hold


def test_turns_and_lessons_are_found_by_index_among_any_number_of_memories(plans: Plans, used_store: Holdfast) -> None:
    with plans.record_statements() as seen:
        used_store.build_context("is it on?", namespace="shop", principal="ann", parts=["history", "lessons"])
    steps = " ".join(plans.steps(seen))
    assert "memory_thread" in steps
    assert "memory_lesson" in steps
    assert plans.walks(seen) == []
