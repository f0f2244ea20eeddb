"""Fixtures of all test tiers: real stores in real files."""

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

# No example has a time limit: machines are shared and sometimes slow. Each ring runs the same examples every time, so
# that failures come from the change under test; --hypothesis-profile=explore tries new ones.
suppressed = [HealthCheck.too_slow]
settings.register_profile("commit", deadline=None, suppress_health_check=suppressed, derandomize=True, max_examples=50)
settings.register_profile("full", settings.get_profile("commit"), max_examples=100)
settings.register_profile("explore", settings.get_profile("commit"), derandomize=False, max_examples=1000)

# Shells start background jobs with SIGINT ignored, which processes started by tests would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Modules and collected tests live until the end: the garbage collector need not scan them.
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
    """Start each worker, which gets a slice of the tests in this order, with its share of the slow ones.

    Otherwise the last slow test would run alone at the end.
    """
    workers = getattr(config, "workerinput", {"workercount": 1})["workercount"]
    longest = [item for item in items if item.get_closest_marker("longest")]
    others = [item for item in items if not item.get_closest_marker("longest")]
    size = -(-len(others) // workers)
    parts = [(longest[at::workers], others[at * size : (at + 1) * size]) for at in range(workers)]
    items[:] = [item for first, rest in parts for item in (*first, *rest)]


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Isolate tests from the user's settings file and environment; keyword search only."""
    for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOLDFAST_EMBEDDER", "none")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def vectors_made(no_settings_from_outside: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the bundled embedding model, the default."""
    monkeypatch.delenv("HOLDFAST_EMBEDDER")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server per test process."""
    with TemporaryDirectory(prefix="holdfast-pg-") as folder, running(Path(folder)) as server:
        yield server


@pytest.fixture
def engine() -> str:
    """Engine of a test's store. Folders and files whose tests run on both engines override this."""
    return "sqlite"


@pytest.fixture
def db(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Address of a store that does not exist yet."""
    if engine == "sqlite":
        yield str(tmp_path / "memory.db")
    else:
        with request.getfixturevalue("postgres").new_store() as url:
            yield url


@pytest.fixture
def hold(db: str) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(db, agent_id="ai:tester@here") as opened:
        yield opened
