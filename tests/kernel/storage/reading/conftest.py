"""One read-only store per test file, and the query plans of its engine."""

from collections.abc import Iterator

import pytest
from plans import OpenStore, Plans, fill, one_store, plans_of

import holdfast
from engines import ENGINES


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def empty(engine: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[OpenStore]:
    with one_store(engine, tmp_path_factory, request) as opened:
        yield opened


@pytest.fixture(scope="module")
def hold(empty: OpenStore) -> holdfast.Holdfast:
    """A filled store; files that need other content override it."""
    fill(empty.hold, empty.address)
    return empty.hold


@pytest.fixture
def plans(hold: holdfast.Holdfast, monkeypatch: pytest.MonkeyPatch) -> Plans:
    return plans_of(hold.ctx.store, monkeypatch)
