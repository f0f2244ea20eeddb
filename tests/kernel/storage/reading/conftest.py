"""One store for all the tests of a file, which only read it, and what its engine does for their statements."""

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
    """With enough in it; a file that needs something else in it fills it by itself."""
    fill(empty.hold, empty.address)
    return empty.hold


@pytest.fixture
def plans(ctx: holdfast.Holdfast, monkeypatch: pytest.MonkeyPatch) -> Plans:
    return plans_of(ctx.ctx.store, monkeypatch)
