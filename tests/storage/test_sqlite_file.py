"""What only a store in a file can meet: another file in its place, none at all, a key beside it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.app import Holdfast
from holdfast.domain.errors import StoreUnreachable
from holdfast.storage.port import Store


@pytest.fixture
def engine() -> str:
    return "sqlite"


def put(store: Store, **values: str) -> None:
    with store.writing() as session:
        for name, body in values.items():
            session.do("kept_put", name=name, body=body)


def read(store: Store) -> dict[str, str]:
    with store.reading() as session:
        return dict(session.rows("kept_all"))


def test_what_was_put_in_the_place_of_the_store_is_what_is_read_and_written(
    opened: Callable[[], Store], address: str, tmp_path: Path
) -> None:
    store = opened()
    put(store, colour="blue")
    store.snapshot(tmp_path / "copy.db")
    put(store, colour="red")
    for beside in ("-wal", "-shm"):
        Path(address + beside).unlink()
    os.replace(tmp_path / "copy.db", address)
    assert read(store) == {"colour": "blue"}
    put(store, shape="round")
    assert read(opened()) == {"colour": "blue", "shape": "round"}


def test_a_store_whose_file_is_gone_acknowledges_nothing(store: Store, address: str) -> None:
    put(store, colour="blue")
    Path(address).unlink()
    with pytest.raises(StoreUnreachable):
        put(store, colour="red")
    with pytest.raises(StoreUnreachable):
        read(store)


def test_the_key_is_the_owners_alone(hold: Holdfast, address: str) -> None:
    hold.store(title="One", content="first")
    assert Path(f"{address}.key").stat().st_mode & 0o777 == 0o600
