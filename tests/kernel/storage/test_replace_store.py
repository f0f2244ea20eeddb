"""Replacing a store with a copy: atomic for all processes."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from meta_table import put, read

from holdfast.kernel.storage.open_by_address import open_store
from holdfast.kernel.storage.port import Store


def nothing() -> None:
    pass


@pytest.fixture
def copy(store: Store, tmp_path: Path) -> Path:
    """A copy of the store before its last change."""
    put(store, colour="blue", size="x" * 200_000)
    store.snapshot(tmp_path / "copy.db")
    put(store, colour="red", shape="round")
    return tmp_path / "copy.db"


def test_a_replaced_store_is_read_by_every_handle(store: Store, open_again: Callable[[], Store], copy: Path) -> None:
    other = open_again()
    assert read(other)["colour"] == "red"
    store.replace(copy, nothing)
    assert (read(store)["colour"], read(other)["colour"]) == ("blue", "blue")
    assert "shape" not in read(other)
    put(other, colour="green")
    assert read(store)["colour"] == "green"
    assert store.faults() == []


def test_a_reader_has_a_stable_snapshot_while_the_store_is_replaced(
    store: Store, open_again: Callable[[], Store], copy: Path
) -> None:
    other = open_again()
    with other.reading() as session:
        before = dict(session.rows("meta_list"))
        store.replace(copy, nothing)
        assert dict(session.rows("meta_list")) == before
    assert read(other)["colour"] == "blue"


def test_a_failure_before_the_replacement_leaves_everything_unchanged(store: Store, copy: Path) -> None:
    def fail() -> None:
        raise RuntimeError("not now")

    with pytest.raises(RuntimeError):
        store.replace(copy, fail)
    assert read(store)["colour"] == "red"
    put(store, colour="green")
    assert read(store)["colour"] == "green"


def test_no_write_happens_between_the_preparation_and_the_replacement(
    store: Store, open_again: Callable[[], Store], copy: Path
) -> None:
    """Changes acknowledged before are in the final check; later ones follow the replacement."""
    import threading

    other = open_again()
    writer = threading.Thread(target=put, args=(other,), kwargs={"late": "write"})

    def prepare() -> None:
        writer.start()
        writer.join(0.05)
        assert "late" not in read(store)

    store.replace(copy, prepare)
    writer.join()
    assert read(store) == {"colour": "blue", "size": "x" * 200_000, "late": "write"}


@pytest.mark.full
def test_a_killed_replacement_leaves_the_old_store_or_the_copy(address: str, store: Store, copy: Path) -> None:
    begun = time.monotonic()
    store.replace(copy, nothing)
    lasts, random, seen = time.monotonic() - begun, Random(3), set()
    for left in reversed(range(24)):
        put(store, colour="red")
        child = os.fork()
        if child == 0:
            with closing(open_store(address)) as own:
                own.replace(copy, nothing)
            os._exit(0)
        if left:  # the last one comes to its end
            time.sleep(lasts * random.uniform(0.1, 2.5))
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        found = read(store)
        assert found["size"] == "x" * 200_000
        seen.add(found["colour"])
        assert store.faults() == []
    assert seen == {"red", "blue"}
