"""Fixtures: a store with a test clock, and views of it for other callers."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clocks import Clock

import holdfast
from engines import ENGINES_BY_RING
from holdfast.kernel.context import Caller


class CallerView(holdfast.Holdfast):
    """The store, called as another caller."""

    def __init__(self, hold: holdfast.Holdfast, caller: Caller) -> None:
        super().__init__(hold.ctx.for_caller(caller), hold.settings)
        self.caller = caller


@pytest.fixture(params=ENGINES_BY_RING)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty store. Creating one takes thirty times as long as copying it."""
    folder = tmp_path_factory.mktemp("empty")
    holdfast.open(str(folder / "memory.db")).close()
    return folder


@pytest.fixture
def db(engine: str, tmp_path: Path, empty_file: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Address of an empty store."""
    if engine == "postgres":
        with request.getfixturevalue("postgres").empty_store() as url:
            yield url
        return
    for file in empty_file.iterdir():
        shutil.copy(file, tmp_path)
    yield str(tmp_path / "memory.db")


@pytest.fixture
def clocked_store(db: str, clock: Clock) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(db, agent_id="ai:tester@here", now=clock) as opened:
        yield opened


@pytest.fixture
def seen_by(clocked_store: holdfast.Holdfast) -> Callable[..., CallerView]:
    """View of the store for a bound agent, with further attributes of its key."""

    def seen_by(agent: str, **key: Any) -> CallerView:
        return CallerView(clocked_store, Caller(agent, has_fixed_agent=True, **key))

    return seen_by
