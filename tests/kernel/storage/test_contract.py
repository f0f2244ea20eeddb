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
from holdfast.kernel.context import Progress
from holdfast.kernel.errors import OperationCancelled, StoreError, VersionConflict
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Store


class GivenUp(Exception):
    pass


# Reading


def test_what_was_written_is_there_for_whoever_opens_the_store(open_again: Callable[[], Store]) -> None:
    put(open_again(), colour="blue")
    assert read(open_again()) == {"colour": "blue"}


def test_a_reader_neither_waits_for_nor_sees_a_writer_that_has_not_committed(open_again: Callable[[], Store]) -> None:
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


def test_a_reader_keeps_its_view_while_others_commit(open_again: Callable[[], Store]) -> None:
    reader, writer = open_again(), open_again()
    put(writer, colour="blue")
    with reader.reading() as session:
        before = read_all(session)
        put(writer, colour="red", shape="round")
        assert read_all(session) == before == {"colour": "blue"}
    assert read(reader) == {"colour": "red", "shape": "round"}


def test_a_reading_within_a_reading_has_the_same_view(open_again: Callable[[], Store]) -> None:
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


def test_a_stuck_reader_holds_up_no_writer(open_again: Callable[[], Store]) -> None:
    reader, writer = open_again(), open_again()
    with reader.reading() as session:
        read_all(session)
        for number in range(300):
            put(writer, number=str(number))
    assert read(reader) == {"number": "299"}


# Transaction: all or nothing


@pytest.mark.parametrize("error", [GivenUp, KeyboardInterrupt, GeneratorExit, StoreError])
def test_whatever_is_raised_inside_a_transaction_leaves_nothing_of_it(store: Store, error: type[BaseException]) -> None:
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


def test_what_is_raised_just_before_the_commit_leaves_nothing(store: Store) -> None:
    def give_up() -> None:
        raise GivenUp

    with pytest.raises(GivenUp), store.transaction(give_up) as session:
        session.do("meta_put", name="colour", body="red")
    assert read(store) == {}


def test_a_cancelled_operation_has_written_nothing(hold: Holdfast, store: Store) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(OperationCancelled):
        hold.call("store", {"title": "Cancelled", "content": "in time"}, progress=Progress(stop=stop))
    assert hold.list().memories == []
    assert hold.events(after=0).events == []


def test_a_failed_statement_ends_its_transaction_whoever_catches_the_error(store: Store) -> None:
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


def test_a_transaction_within_a_transaction_is_refused_and_does_not_hang(store: Store) -> None:
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


def test_a_change_of_an_older_version_is_refused_whole(hold: Holdfast, store: Store) -> None:
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


def test_an_id_is_given_once(hold: Holdfast) -> None:
    id = hold.store(title="One", content="first").id
    with hold.ctx.transaction() as write:
        memory = write.get(MEMORY, id)
    assert isinstance(memory, Memory)
    with pytest.raises(VersionConflict), hold.ctx.transaction() as write:
        write.add(MEMORY, replace(memory, title="Another"), "store")
    assert hold.get(id=id).title == "One"


def test_a_use_that_is_written_down_late_does_not_bring_back_what_was_collected(
    store: Store, holdfast_over: Callable[..., Holdfast]
) -> None:
    clock = [1_800_000_000_000_000]
    hold = holdfast_over(store, now=lambda: clock[0])
    old = hold.store(title="Short", content="lived", ttl_secs=60).id
    hold.recall(context="lived")
    clock[0] += 61_000_000
    new = hold.store(title="Short", content="lives now").id
    hold.close()
    assert [memory.id for memory in hold.list().memories] == [new]
    assert old != new


# Concurrency


def add_one(store: Store, times: int) -> None:
    """Increment a value: correct only if writers are serialized."""
    for _ in range(times):
        with store.transaction() as session:
            session.do("meta_put", name="count", body=str(int(read_all(session).get("count", "0")) + 1))


def test_threads_that_write_take_turns(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: add_one(store, 25), range(8)))
    assert read(store) == {"count": "200"}


def test_stores_opened_twice_in_one_process_take_turns(open_again: Callable[[], Store]) -> None:
    stores = [open_again() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda one: add_one(one, 25), stores))
    assert read(stores[0]) == {"count": "100"}


def test_threads_that_come_and_go_leave_no_files_open(store: Store) -> None:
    put(store, colour="blue")

    def open_after(threads: int) -> int:
        for _ in range(threads):
            thread = threading.Thread(target=read, args=(store,))
            thread.start()
            thread.join()
        return len(os.listdir("/proc/self/fd"))

    few = open_after(2)
    assert open_after(40) <= few + 4


def test_a_store_that_is_closed_under_a_reader_tells_it_so(store: Store) -> None:
    put(store, colour="blue")
    with store.reading() as session:
        read_all(session)
        closer = threading.Thread(target=store.close)
        closer.start()
        closer.join()
        with pytest.raises(StoreError):
            read_all(session)
    assert read(store) == {"colour": "blue"}


def test_a_child_of_a_fork_is_refused_and_its_parent_goes_on(store: Store) -> None:
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


def test_a_snapshot_is_consistent_whole_and_private_while_others_write(
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


def test_a_snapshot_overwrites_nothing_and_leaves_nothing_half(store: Store, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(StoreError):
        store.snapshot(tmp_path / "mine")
    assert (tmp_path / "mine").read_text() == "precious"
    with pytest.raises(StoreError):
        store.snapshot(tmp_path / "no such folder" / "copy.db")
