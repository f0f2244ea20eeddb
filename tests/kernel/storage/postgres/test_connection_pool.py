"""The connection pool: a waiter gets the first available connection, new or released."""

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from engines import Postgres
from holdfast.kernel.errors import StoreBusy
from holdfast.kernel.storage.postgres.pool import Connection, Pool
from timeouts import TIMEOUT

ROLE = "allowed_one"


@pytest.fixture
def engine() -> str:
    return "postgres"


@pytest.fixture
def address(postgres: Postgres) -> Iterator[str]:
    """Address of a database whose user may have one connection."""
    with postgres.admin() as admin:
        admin.execute(f"create role {ROLE} login connection limit 1")
        yield postgres.url(user=ROLE)
        admin.execute("select pg_terminate_backend(pid, 10000) from pg_stat_activity where usename = %s", (ROLE,))
        admin.execute(f"drop role {ROLE}")


def test_a_refused_new_connection_is_replaced_by_a_released_one(address: str) -> None:
    refused = threading.Event()

    def connect() -> Connection:
        try:
            return Connection.connect(address, autocommit=True)
        except psycopg.OperationalError:
            refused.set()
            raise

    pool = Pool(connect, 3, 2.0 * TIMEOUT)
    first = pool.acquire()
    with ThreadPoolExecutor(1) as thread:
        second = thread.submit(pool.acquire)
        assert refused.wait(TIMEOUT)
        pool.release(first)
        assert second.result(timeout=TIMEOUT) is first
    pool.close()


def test_many_users_of_a_few_connections_all_get_their_turn(address: str) -> None:
    pool = Pool(lambda: Connection.connect(address, autocommit=True), 3, 2.0 * TIMEOUT)

    def asks(_: int) -> int:
        connection = pool.acquire()
        try:
            ((answer,),) = connection.execute("select 1").fetchall()
            return int(answer)
        finally:
            pool.release(connection)

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(asks, range(60))) == [1] * 60
    pool.close()


def test_a_wait_for_a_connection_that_times_out_is_an_error(address: str) -> None:
    pool = Pool(lambda: Connection.connect(address, autocommit=True), 3, 2.0 * TIMEOUT)
    pool.acquire()
    with pytest.raises(StoreBusy):
        pool.acquire(0.1)
    pool.close()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also in a process that a shell started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_interrupted_waits_leave_every_connection_available(postgres: Postgres) -> None:
    pool = Pool(lambda: Connection.connect(postgres.url(), autocommit=True), 2, 2.0 * TIMEOUT)
    held = [pool.acquire(), pool.acquire()]
    for _ in held:
        timer = threading.Timer(0.3, signal.pthread_kill, [threading.get_ident(), signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            pool.acquire()
        timer.join()
    for connection in held:
        pool.release(connection)
    assert {pool.acquire(0.1), pool.acquire(0.1)} == set(held)
    pool.close()
