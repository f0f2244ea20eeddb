"""Waiting for commits: a waiter learns of every commit of any process."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import holdfast
from engines import Postgres
from holdfast import Holdfast
from holdfast.kernel.storage.postgres import notifications
from holdfast.kernel.storage.postgres.engine import connect
from timeouts import TIMEOUT


@pytest.fixture
def other(hold: Holdfast, address: str) -> Iterator[Holdfast]:
    with holdfast.open(address, agent_id="ai:other@here") as opened:
        yield opened


def wait_until_quiet(wait: Callable[[float], bool]) -> None:
    """Wait until there are no more commits."""
    while wait(1.5):
        pass


def test_the_first_wait_returns_at_once_and_the_next_after_its_timeout(hold: Holdfast) -> None:
    assert hold.ctx.store.wait_for_commit(TIMEOUT)
    wait_until_quiet(hold.ctx.store.wait_for_commit)
    assert not hold.ctx.store.wait_for_commit(0.01)


def test_a_commit_of_another_process_wakes_a_waiter(hold: Holdfast, other: Holdfast) -> None:
    ready = threading.Event()

    def waits() -> bool:
        wait_until_quiet(hold.ctx.store.wait_for_commit)
        ready.set()
        return hold.ctx.store.wait_for_commit(TIMEOUT)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(waits)
        ready.wait()
        other.store(title="Elsewhere", content="x")
        assert waiting.result(timeout=TIMEOUT)


def test_a_commit_between_two_waits_is_noticed_at_once(hold: Holdfast, other: Holdfast) -> None:
    wait_until_quiet(hold.ctx.store.wait_for_commit)
    other.store(title="Elsewhere", content="x")
    assert hold.ctx.store.wait_for_commit(TIMEOUT)


def test_a_commit_outside_the_journal_wakes_a_waiter_too(hold: Holdfast, other: Holdfast) -> None:
    wait_until_quiet(hold.ctx.store.wait_for_commit)
    other.key_create(name="laptop")
    assert hold.ctx.store.wait_for_commit(TIMEOUT)


def test_one_commit_wakes_all_waiters(hold: Holdfast, other: Holdfast) -> None:
    ready = threading.Barrier(5)

    def waits() -> bool:
        wait_until_quiet(hold.ctx.store.wait_for_commit)
        ready.wait()
        return hold.ctx.store.wait_for_commit(TIMEOUT)

    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(waits) for _ in range(4)]
        ready.wait()
        other.store(title="Elsewhere", content="x")
        assert [one.result(timeout=TIMEOUT) for one in waiting] == [True] * 4


def test_closing_a_store_wakes_its_waiters(hold: Holdfast, address: str) -> None:
    other = holdfast.open(address)
    other.ctx.store.wait_for_commit(0)
    other.close()
    assert not any(thread.name == "holdfast-listener" for thread in threading.enumerate())


class TestOnPostgres:
    """PostgreSQL only."""

    @pytest.fixture
    def engine(self) -> str:
        return "postgres"

    def test_one_connection_listens_for_all_waiters(self, hold: Holdfast, postgres: Postgres) -> None:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: hold.ctx.store.wait_for_commit(1), range(4)))
        with postgres.admin() as admin:
            listeners = admin.execute(
                "select count(*) from pg_stat_activity where application_name = 'holdfast' and query like '%snapshot%'"
            ).fetchone()
        assert listeners == (1,)

    def test_a_disconnected_listener_reconnects(self, hold: Holdfast, other: Holdfast, postgres: Postgres) -> None:
        wait_until_quiet(hold.ctx.store.wait_for_commit)
        with postgres.admin() as admin:
            admin.execute(
                "select pg_terminate_backend(pid, 10000) from pg_stat_activity where application_name = 'holdfast'"
            ).fetchall()
        assert hold.ctx.store.wait_for_commit(TIMEOUT)
        wait_until_quiet(hold.ctx.store.wait_for_commit)
        other.store(title="Elsewhere", content="x")
        assert hold.ctx.store.wait_for_commit(TIMEOUT)

    def test_without_notifications_the_clock_wakes_waiters(self, hold: Holdfast, other: Holdfast) -> None:
        """Like a pooler that uses another connection for each transaction."""
        deaf = notifications.CommitListener(lambda: connect(hold.ctx.store._address), "nobody_speaks_here")  # type: ignore[attr-defined]
        try:
            wait_until_quiet(deaf.wait)
            other.store(title="Elsewhere", content="x")
            assert deaf.wait(TIMEOUT)
        finally:
            deaf.close()
