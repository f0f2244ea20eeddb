"""The write lock: a writer waits for all others, in its process and outside, with a timeout."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

import pytest

from holdfast.kernel.errors import StoreBusy
from holdfast.kernel.storage import port
from holdfast.kernel.storage.port import Store
from holdfast.kernel.storage.postgres.store import hold_write_lock
from timeouts import TIMEOUT

WRITERS = 100
"""So many that waiting one after another would exceed every timeout."""


@contextmanager
def queueing(holder: Store, stores: Sequence[Store]) -> Iterator[list["Future[None]"]]:
    """Start one writer per store while another thread holds a transaction."""
    holds, done = threading.Event(), threading.Event()

    def hold() -> None:
        with holder.transaction():
            holds.set()
            done.wait()

    def write(store: Store) -> None:
        with store.transaction() as session:
            session.do("meta_put", name="late", body="{}")

    with ThreadPoolExecutor(len(stores) + 1) as pool:
        pool.submit(hold)
        holds.wait()
        try:
            yield [pool.submit(write, store) for store in stores]
        finally:
            done.set()


def assert_all_are_refused(writers: "list[Future[None]]") -> None:
    ended, waiting = wait(writers, timeout=TIMEOUT)
    assert (len(waiting), {type(one.exception()) for one in ended}) == (0, {StoreBusy})


def test_writers_of_one_process_wait_for_each_other_only_so_long(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port, "LOCK_SECONDS", 0.2)
    with queueing(store, [store] * WRITERS) as writers:
        assert_all_are_refused(writers)
    with store.reading() as session:
        assert session.rows("meta_list") == []


def test_writers_queued_in_one_process_do_not_wait_longer_for_another_process(
    open_again: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port, "LOCK_SECONDS", 2)
    with queueing(open_again(), [open_again()] * WRITERS) as writers:
        assert_all_are_refused(writers)


@pytest.mark.full
def test_writers_of_many_processes_do_not_wait_longer_because_of_the_queue(
    open_again: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port, "LOCK_SECONDS", 3)
    with queueing(open_again(), [open_again() for _ in range(WRITERS)]) as writers:
        assert_all_are_refused(writers)


def test_a_writer_that_gets_the_lock_in_time_writes(open_again: Callable[[], Store]) -> None:
    store = open_again()
    with queueing(open_again(), [store, open_again(), store]) as writers:
        pass
    assert [writer.result() for writer in writers] == [None] * 3


def test_the_wait_for_other_processes_includes_the_wait_for_the_thread_lock() -> None:
    lock = threading.RLock()
    with hold_write_lock(lock) as outer, hold_write_lock(lock) as inner:
        assert outer() < inner() <= port.LOCK_SECONDS
