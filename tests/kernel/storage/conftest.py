"""Stores for the contract tests, which every engine must pass."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest
from plans import ME, Plans, fill, plans_of
from schemas import SECRET

import holdfast
from engines import ENGINES, Postgres
from holdfast.app import Holdfast
from holdfast.kernel.context import Caller, Context, read_clock
from holdfast.kernel.storage.open_by_address import open_store
from holdfast.kernel.storage.port import Store
from holdfast.settings import Settings


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def address(engine: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """Address of an engine's store: empty, or with enough rows for tests of query plans."""
    if engine == "sqlite":
        yield request.getfixturevalue("db")
        return
    server: Postgres = request.getfixturevalue("postgres")
    wants_plans = "plans" in request.fixturenames
    with server.copy_of(request.getfixturevalue("full_database")) if wants_plans else server.empty_store() as url:
        yield url


@pytest.fixture(scope="session")
def full_database(postgres: Postgres) -> str:
    """Database with a filled store, to be copied: filling costs six times as much as copying."""
    database = postgres.new_database()
    url = postgres.url(database)
    with holdfast.open(settings=Settings(db=url, agent_id=ME.agent, embedder="none")) as hold:
        fill(hold, url)
    return database


@pytest.fixture
def open_again(address: str) -> Iterator[Callable[[], Store]]:
    """Open the store as often as needed, each time like another process."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(open_store(address)))


@pytest.fixture
def store(open_again: Callable[[], Store]) -> Store:
    return open_again()


@pytest.fixture
def user(postgres: Postgres) -> Iterator[str]:
    """A database user without rights."""
    name = f"user_{os.getpid()}_{time.monotonic_ns()}"
    with postgres.admin() as admin:
        admin.execute(f"create role {name} login password '{SECRET}'")
    yield name
    with postgres.admin() as admin:
        databases = [row[0] for row in admin.execute("select datname from pg_database where datallowconn").fetchall()]
    for database in databases:
        with postgres.admin(str(database)) as admin:
            admin.execute(f"drop owned by {name} cascade")
    with postgres.admin() as admin:
        admin.execute(f"drop role {name}")


@pytest.fixture
def holdfast_over() -> Callable[..., Holdfast]:
    """Build a Holdfast on a store opened by the test, optionally with its own clock."""

    def open_holdfast(store: Store, now: Callable[[], int] = read_clock) -> Holdfast:
        return Holdfast(Context(store=store, caller=Caller(agent="ai:tester@here"), now=now), Settings())

    return open_holdfast


@pytest.fixture
def hold(store: Store, holdfast_over: Callable[..., Holdfast]) -> Holdfast:
    return holdfast_over(store)


@pytest.fixture
def plans(store: Store, monkeypatch: pytest.MonkeyPatch) -> Plans:
    """Query plans of the engine, in a filled store."""
    return plans_of(store, monkeypatch)
