"""The storage contract: consistent reads, atomic writes, one writer at a time."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from meta_table import put, read, read_all
from msgspec.structs import replace

from holdfast.app import Holdfast
from holdfast.features.recall.flush_access import flush_access_log
from holdfast.kernel.context import Progress
from holdfast.kernel.errors import OperationCancelled, StoreError, VersionConflict
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Store


class GivenUp(Exception):
    pass


# Reading


def test_committed_data_is_visible_to_anyone_opening_the_store(open_again: Callable[[], Store]) -> None:
    put(open_again(), colour="blue")
    assert read(open_again()) == {"colour": "blue"}


def test_a_reader_neither_waits_for_nor_sees_an_uncommitted_writer(open_again: Callable[[], Store]) -> None:
    writer, reader = open_again(), open_again()
    put(writer, colour="blue")
    with writer.transaction() as session:
        session.do("meta_put", name="colour", body="red")
        assert read(reader) == {"colour": "blue"}
        assert read(writer) == {"colour": "blue"}
    assert read(reader) == {"colour": "red"}


def test_a_writer_sees_its_own_changes(store: Store) -> None:
    with store.transaction() as session:
        session.do("meta_put", name="colour", body="red")
        assert read_all(session) == {"colour": "red"}


def test_a_reader_has_a_stable_snapshot_while_others_commit(open_again: Callable[[], Store]) -> None:
    reader, writer = open_again(), open_again()
    put(writer, colour="blue")
    with reader.reading() as session:
        before = read_all(session)
        put(writer, colour="red", shape="round")
        assert read_all(session) == before == {"colour": "blue"}
    assert read(reader) == {"colour": "red", "shape": "round"}


def test_a_nested_read_has_the_same_snapshot(open_again: Callable[[], Store]) -> None:
    reader, writer = open_again(), open_again()
    put(writer, colour="blue")
    with reader.reading() as outer:
        assert read_all(outer) == {"colour": "blue"}
        put(writer, colour="red")
        with reader.reading() as inner:
            assert read_all(inner) == {"colour": "blue"}
        assert read_all(outer) == {"colour": "blue"}
    assert read(reader) == {"colour": "red"}


def test_a_reader_cannot_write(store: Store) -> None:
    with pytest.raises(StoreError), store.reading() as session:
        session.do("meta_put", name="colour", body="blue")
    assert read(store) == {}


def test_a_stuck_reader_blocks_no_writer(open_again: Callable[[], Store]) -> None:
    reader, writer = open_again(), open_again()
    with reader.reading() as session:
        read_all(session)
        for number in range(300):
            put(writer, number=str(number))
    assert read(reader) == {"number": "299"}


# Transaction: all or nothing


@pytest.mark.parametrize("error", [GivenUp, KeyboardInterrupt, GeneratorExit, StoreError])
def test_any_exception_inside_a_transaction_rolls_it_back(store: Store, error: type[BaseException]) -> None:
    put(store, colour="blue")

    def fail() -> None:
        with store.transaction() as session:
            session.do("meta_put", name="colour", body="red")
            session.do("meta_put", name="shape", body="round")
            raise error

    with pytest.raises(error):
        fail()
    assert read(store) == {"colour": "blue"}
    put(store, colour="green")
    assert read(store) == {"colour": "green"}


def test_an_exception_just_before_the_commit_rolls_back(store: Store) -> None:
    def give_up() -> None:
        raise GivenUp

    with pytest.raises(GivenUp), store.transaction(give_up) as session:
        session.do("meta_put", name="colour", body="red")
    assert read(store) == {}


def test_a_cancelled_operation_writes_nothing(hold: Holdfast, store: Store) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(OperationCancelled):
        hold.call("store", {"title": "Cancelled", "content": "in time"}, progress=Progress(stop=stop))
    assert hold.list().memories == []
    assert hold.events(after=0).events == []


def test_a_failed_statement_ends_its_transaction_even_if_the_error_is_caught(store: Store) -> None:
    put(store, colour="blue")

    def swallow() -> None:
        with store.transaction() as session:
            session.do("meta_put", name="colour", body="red")
            with suppress(StoreError):
                session.do("meta_put", name="shape", body=None)
            with suppress(StoreError):
                session.do("meta_put", name="size", body="small")

    with pytest.raises(StoreError):
        swallow()
    assert read(store) == {"colour": "blue"}


def test_a_nested_transaction_is_refused_without_a_deadlock(store: Store) -> None:
    with pytest.raises(RuntimeError), store.transaction():
        put(store, colour="blue")
    assert read(store) == {}


def test_a_missing_parameter_is_an_error_and_nothing_is_written(store: Store) -> None:
    with pytest.raises(KeyError), store.transaction() as session:
        session.do("meta_put", name="colour")
    assert read(store) == {}


def test_an_unknown_statement_is_an_error(store: Store) -> None:
    with pytest.raises(KeyError), store.reading() as session:
        session.rows("no_such_statement")


NOTICE: dict[str, Any] = {
    **dict.fromkeys(("sender", "recipient", "title", "body", "metadata"), ""),
    **dict.fromkeys(("priority", "created_at"), 0),
    "read_at": None,
}


@pytest.mark.parametrize("ids", [[], ["one"], ["one", "two"], ["it's", 'a "b"', "\\", "é", "[]"]])
def test_a_list_is_bound_as_a_list(store: Store, ids: list[str]) -> None:
    with store.transaction() as session:
        for id in [*ids, "another"]:
            session.do("notice_add", **NOTICE, id=id)
        session.do("notice_read", recipient="", ids=ids, now=1)
    with store.reading() as session:
        assert {row[0] for row in session.rows("notice_unread", recipient="", limit=9)} == {"another"}
        assert len(session.rows("notice_list", recipient="", limit=9)) == len(ids) + 1


# Versions


def test_a_change_of_an_outdated_version_is_refused_completely(hold: Holdfast, store: Store) -> None:
    id = hold.store(title="One", content="first").id
    with hold.ctx.transaction() as write:
        stale = write.get(MEMORY, id)
    assert isinstance(stale, Memory)
    hold.update(id=id, content="second")
    with pytest.raises(VersionConflict), hold.ctx.transaction() as write:
        change_too_late(write, stale)
    assert (hold.get(id=id).content, hold.get(id=id).version) == ("second", 2)
    assert len(hold.history(id=id).changes) == 2
    assert read(store) == {}


def change_too_late(write: Transaction, stale: Memory) -> None:
    write.session.do("meta_put", name="colour", body="red")
    write.change(MEMORY, stale, replace(stale, content="third"), "update")


def test_an_id_cannot_be_reused(hold: Holdfast) -> None:
    id = hold.store(title="One", content="first").id
    with hold.ctx.transaction() as write:
        memory = write.get(MEMORY, id)
    assert isinstance(memory, Memory)
    with pytest.raises(VersionConflict), hold.ctx.transaction() as write:
        write.add(MEMORY, replace(memory, title="Another"), "store")
    assert hold.get(id=id).title == "One"


def test_a_late_access_flush_does_not_revive_a_collected_memory(
    store: Store, holdfast_over: Callable[..., Holdfast]
) -> None:
    clock = [1_800_000_000_000_000]
    hold = holdfast_over(store, now=lambda: clock[0])
    old = hold.store(title="Short", content="lived", ttl_secs=60).id
    hold.recall(context="lived")
    clock[0] += 61_000_000
    new = hold.store(title="Short", content="lives now").id
    flush_access_log(hold.ctx)
    assert [memory.id for memory in hold.list().memories] == [new]
    assert old != new


# Concurrency


def add_one(store: Store, times: int) -> None:
    """Increment a value: correct only if writers are serialized."""
    for _ in range(times):
        with store.transaction() as session:
            session.do("meta_put", name="count", body=str(int(read_all(session).get("count", "0")) + 1))


def test_writing_threads_take_turns(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: add_one(store, 25), range(8)))
    assert read(store) == {"count": "200"}


def test_two_handles_of_one_store_in_a_process_take_turns(open_again: Callable[[], Store]) -> None:
    stores = [open_again() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda one: add_one(one, 25), stores))
    assert read(stores[0]) == {"count": "100"}


def test_finished_threads_leave_no_files_open(store: Store) -> None:
    put(store, colour="blue")

    def open_after(threads: int) -> int:
        for _ in range(threads):
            thread = threading.Thread(target=read, args=(store,))
            thread.start()
            thread.join()
        return len(os.listdir("/proc/self/fd"))

    few = open_after(2)
    assert open_after(40) <= few + 4


def test_closing_a_store_under_a_reader_raises_an_error_there(store: Store) -> None:
    put(store, colour="blue")
    with store.reading() as session:
        read_all(session)
        closer = threading.Thread(target=store.close)
        closer.start()
        closer.join()
        with pytest.raises(StoreError):
            read_all(session)
    assert read(store) == {"colour": "blue"}


def test_a_forked_child_is_refused_and_its_parent_continues(store: Store) -> None:
    put(store, colour="blue")
    read(store)
    child = os.fork()
    if child == 0:
        refused = 0
        for attempt in (lambda: put(store, colour="red"), lambda: read(store)):
            try:
                attempt()
            except StoreError:
                refused += 1
        store.close()
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    put(store, shape="round")
    assert read(store) == {"colour": "blue", "shape": "round"}


# Copies


def test_a_snapshot_is_consistent_complete_and_private_during_writes(
    store: Store, open_again: Callable[[], Store], tmp_path: Path
) -> None:
    from holdfast.kernel.storage.open_by_address import open_copy

    put(store, one="0", other="0")
    stop = threading.Event()

    def writing() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            put(store, one=str(number), other=str(number))

    thread = threading.Thread(target=writing)
    thread.start()
    for number in range(5):
        store.snapshot(tmp_path / f"{number}.db")
    stop.set()
    thread.join()
    for number in range(5):
        assert (tmp_path / f"{number}.db").stat().st_mode & 0o777 == 0o600
        copy = open_copy(tmp_path / f"{number}.db")
        found = read(copy)
        assert found["one"] == found["other"]
        assert copy.faults() == []
        copy.close()


def test_a_snapshot_overwrites_nothing_and_leaves_no_partial_file(store: Store, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(StoreError):
        store.snapshot(tmp_path / "mine")
    assert (tmp_path / "mine").read_text() == "precious"
    with pytest.raises(StoreError):
        store.snapshot(tmp_path / "no such folder" / "copy.db")
