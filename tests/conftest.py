"""Fixtures that every tier of tests shares: real stores in real files."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings

import holdfast
from engines import Postgres, running
from timeouts import TEST_TIMEOUT

# No example has a time limit: machines are shared, and slow at times. Each ring tries the same examples every time, so
# that a change is judged by what it changed; --hypothesis-profile=explore tries new ones.
suppressed = [HealthCheck.too_slow]
settings.register_profile("commit", deadline=None, suppress_health_check=suppressed, derandomize=True, max_examples=50)
settings.register_profile("full", settings.get_profile("commit"), max_examples=100)
settings.register_profile("explore", settings.get_profile("commit"), derandomize=False, max_examples=1000)

# A shell starts background jobs with SIGINT ignored, and every process that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Nothing of what is loaded and collected is garbage before the end: it need not be looked through again and again.
gc.disable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, help="repeat the one run of a seeded test that began with this number")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.option.timeout = config.option.timeout or TEST_TIMEOUT
    settings.load_profile("commit" if config.option.markexpr else "full")


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each worker, which is given a part of the tests in this order, begins with its share of those that take minutes.

    Otherwise the last of them would be waited for while nothing else is left to do.
    """
    workers = getattr(config, "workerinput", {"workercount": 1})["workercount"]
    longest = [item for item in items if item.get_closest_marker("longest")]
    others = [item for item in items if not item.get_closest_marker("longest")]
    size = -(-len(others) // workers)
    parts = [(longest[at::workers], others[at * size : (at + 1) * size]) for at in range(workers)]
    items[:] = [item for first, rest in parts for item in (*first, *rest)]


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tests see neither the settings file nor the environment of whoever runs them, and find by words alone."""
    for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOLDFAST_EMBEDDER", "none")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def vectors_made(no_settings_from_outside: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors are made by the model that comes with Holdfast, as they are by default."""
    monkeypatch.delenv("HOLDFAST_EMBEDDER")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server for all the tests of a process."""
    with TemporaryDirectory(prefix="holdfast-pg-") as folder, running(Path(folder)) as server:
        yield server


@pytest.fixture
def engine() -> str:
    """Which engine a test's store is on. A folder or file of tests that must hold on both overrides this."""
    return "sqlite"


@pytest.fixture
def db(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a store that is not there yet."""
    if engine == "sqlite":
        yield str(tmp_path / "memory.db")
    else:
        with request.getfixturevalue("postgres").new_store() as url:
            yield url


@pytest.fixture
def hold(db: str) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(db, agent_id="ai:tester@here") as opened:
        yield opened
