"""Compacted records and restored copies, synced over HTTP."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import serve_app

import holdfast
from holdfast.surfaces.http.app import build_app

OWNER = "human:ann@home"


@pytest.fixture
def there(tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(str(tmp_path / "there.db"), agent_id=OWNER) as opened:
        yield opened


@pytest.fixture
def url(there: holdfast.Holdfast) -> Iterator[str]:
    with serve_app(build_app(there)) as found:
        yield found


def agree(*stores: holdfast.Holdfast) -> bool:
    return len({store.sync_digest().digest for store in stores}) == 1 and all(s.verify().intact for s in stores)


def test_records_compacted_on_either_side_are_synced_whole(there: holdfast.Holdfast, url: str, tmp_path: Path) -> None:
    with holdfast.open(str(tmp_path / "here.db"), agent_id=OWNER) as here:
        for store in (here, there):
            memory = store.store(title=f"Of {store.settings.db}", content="First.", tier="long")
            store.update(id=memory.id, content="Second.")
            store.update(id=memory.id, content="Third.")
            assert store.compact(older_than=0).folded == 2
        done = here.sync(remote=url)
        assert (done.pulled, done.pushed, done.rejected) == (1, 1, 0)
        assert agree(here, there)
        assert here.sync(remote=url).pulled == 0


def test_a_restored_store_is_repaired_from_a_server(there: holdfast.Holdfast, url: str, tmp_path: Path) -> None:
    path, copy = tmp_path / "here.db", tmp_path / "copy"
    with holdfast.open(str(path), agent_id=OWNER) as here:
        shared = here.store(title="Shared", content="Before the copy.", tier="long")
        here.sync(remote=url)
    shutil.copyfile(path, copy)
    with holdfast.open(str(path), agent_id=OWNER) as here:
        here.update(id=shared.id, content="Said and told.")
        here.sync(remote=url)
    with path.open("r+b") as file:
        file.write(copy.read_bytes())
        file.truncate()
    with holdfast.open(str(path), agent_id=OWNER) as here:
        here.update(id=shared.id, content="Said after it was brought back.")
        done = here.sync(remote=url)
        assert (done.rejected, done.given_again) == (0, 1)
        assert agree(here, there)
        assert there.conflicts().count == 1
