"""Stores with hooks."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hook_programs import Open

import holdfast
from holdfast.settings import load


@pytest.fixture
def engine() -> str:
    return "sqlite"


@pytest.fixture
def open_with(db: str) -> Iterator[Open]:
    with ExitStack() as stack:

        def open_with(*rules: dict[str, Any]) -> holdfast.Holdfast:
            settings = load({"db": db, "agent_id": "ai:tester@here", "hooks": list(rules)})
            return stack.enter_context(holdfast.open(settings=settings))

        yield open_with
