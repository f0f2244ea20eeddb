"""Several stores of one owner, each with its own clock, some on PostgreSQL."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

import pytest
from store_pool import StorePool

import holdfast
from engines import ENGINES_BY_RING, Postgres
from holdfast.kernel.context import read_clock

OWNER = "human:ann@home"
MILLISECOND = 1000
"""In microseconds."""
Make = Callable[..., holdfast.Holdfast]


@pytest.fixture(params=ENGINES_BY_RING)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Make]:
    """Open new stores; the first uses the engine under test, the others are files."""
    numbers = count()
    with ExitStack() as stack:

        def open_store(agent_id: str = OWNER, now: Callable[[], int] | None = None) -> holdfast.Holdfast:
            number = next(numbers)
            address = str(tmp_path / f"{number}.db")
            if engine == "postgres" and number == 0:
                address = stack.enter_context(request.getfixturevalue("postgres").empty_store())
            more = {} if now is None else {"now": now}
            return stack.enter_context(holdfast.open(address, agent_id=agent_id, **more))

        yield open_store


@pytest.fixture
def here(make: Make, millisecond_clock: Callable[[], int]) -> holdfast.Holdfast:
    return make(now=millisecond_clock)


@pytest.fixture
def there(make: Make, here: holdfast.Holdfast, millisecond_clock: Callable[[], int]) -> holdfast.Holdfast:
    return make(now=millisecond_clock)


@pytest.fixture
def millisecond_clock() -> Callable[[], int]:
    """A clock of all stores of a test. No two readings share a millisecond, so the later of two changes wins."""
    last, lock = 0, Lock()

    def now() -> int:
        nonlocal last
        with lock:
            last = max(read_clock(), last + MILLISECOND)
            return last

    return now


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StorePool]:
    """Stores in files."""
    with ExitStack() as stack:
        yield StorePool(_in_memory(tmp_path_factory, stack), None, stack)


@pytest.fixture(scope="session")
def both_engines(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[StorePool]:
    """Stores, the first of them on PostgreSQL."""
    with ExitStack() as stack:
        yield StorePool(_in_memory(tmp_path_factory, stack), postgres, stack)


def _in_memory(tmp_path_factory: pytest.TempPathFactory, stack: ExitStack) -> Path:
    """Return a folder in memory if available, so commits are fast."""
    if os.access("/dev/shm", os.W_OK):
        return Path(stack.enter_context(TemporaryDirectory(dir="/dev/shm", prefix="holdfast-")))
    return tmp_path_factory.mktemp("stable")
