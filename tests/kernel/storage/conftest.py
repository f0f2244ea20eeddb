"""Stores for the contract: every engine is one more parameter here, and must pass all of it."""

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
from holdfast.kernel import timestamps as moment
from holdfast.kernel.caller import Caller
from holdfast.kernel.context import Hold
from holdfast.kernel.storage.locate import open_store
from holdfast.kernel.storage.port import Store
from holdfast.settings import Settings


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def address(engine: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """Where a store of an engine is: one with nothing in it, or with enough for a test of plans."""
    if engine == "sqlite":
        yield request.getfixturevalue("db")
        return
    server: Postgres = request.getfixturevalue("postgres")
    wants_plans = "plans" in request.fixturenames
    with server.copy_of(request.getfixturevalue("filled")) if wants_plans else server.empty_store() as url:
        yield url


@pytest.fixture(scope="session")
def filled(postgres: Postgres) -> str:
    """The database of a store with enough in it: filling one costs six times as much as copying it."""
    database = postgres.new_database()
    url = postgres.url(database)
    with holdfast.open(settings=Settings(db=url, agent_id=ME.agent, embedder="none")) as hold:
        fill(hold, url)
    return database


@pytest.fixture
def opened(address: str) -> Iterator[Callable[[], Store]]:
    """Opens the store, as often as a test asks: every time as another process would."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(open_store(address)))


@pytest.fixture
def store(opened: Callable[[], Store]) -> Store:
    return opened()


@pytest.fixture
def user(postgres: Postgres) -> Iterator[str]:
    """A user of the database that may do nothing yet."""
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
def held() -> Callable[..., Holdfast]:
    """A whole Holdfast over a store that a test opened itself, by a clock of its own if it likes."""

    def holding(store: Store, now: Callable[[], int] = moment.now) -> Holdfast:
        return Holdfast(Hold(store=store, caller=Caller(agent="ai:tester@here"), now=now), Settings())

    return holding


@pytest.fixture
def hold(store: Store, held: Callable[..., Holdfast]) -> Holdfast:
    return held(store)


@pytest.fixture
def plans(store: Store, monkeypatch: pytest.MonkeyPatch) -> Plans:
    """What the engine does for statements, in a store with enough in it."""
    return plans_of(store, monkeypatch)
