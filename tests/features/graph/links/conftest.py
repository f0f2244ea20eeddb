"""A store with a clock of the test."""

from collections.abc import Iterator
from typing import Any

import pytest
from linked_memories import Clock, Remember

import holdfast


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def hold(db: str, clock: Clock) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(db, agent_id="ai:tester@here", now=clock) as opened:
        yield opened


@pytest.fixture
def remember(hold: holdfast.Holdfast) -> Remember:
    def remember(title: str, **more: Any) -> str:
        return str(hold.store(title=title, content=f"about {title}", tier="long", **more).id)

    return remember
