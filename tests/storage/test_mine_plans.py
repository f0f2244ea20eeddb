"""What was mined is found again by an index, however much of it there is."""

from collections.abc import Iterator

import pytest
from plans import Plans, one_store, plans_of

import holdfast
from engines import ENGINES
from holdfast.storage import mined

INDEXES = ("sqlite_autoindex_mined_1", "mined_pkey", "mined_said", "sqlite_autoindex_memory_1", "memory_id_key")


@pytest.fixture(params=ENGINES)
def hold(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[holdfast.Holdfast]:
    with one_store(str(request.param), tmp_path_factory, request) as (opened, _):
        yield opened


@pytest.fixture
def plans(hold: holdfast.Holdfast, monkeypatch: pytest.MonkeyPatch) -> Plans:
    return plans_of(hold.hold.store, monkeypatch)


def test_what_was_mined_is_looked_up_by_its_indexes(plans: Plans, hold: holdfast.Holdfast) -> None:
    with plans.noted() as seen, hold.hold.store.reading() as session:
        mined.known(session, ["a", "b"])
        mined.saying(session, "x")
        mined.there(session, ["a", "b"])
    run = [one for one in seen if "from mined" in one[0] or "select id from memory" in one[0]]
    assert len(run) == 3
    assert not any(walk in step for step in plans.steps(run) for walk in ("SCAN m", "Seq Scan on m"))
    found = [next((index for index in INDEXES if index in step), None) for step in plans.steps(run)]
    assert len([index for index in found if index is not None]) == 3
