"""Waiting at a store: whoever waits is told of a commit by anybody, and misses none."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import holdfast
from engines import Postgres
from holdfast import Holdfast
from holdfast.kernel.storage.postgres import notifications as listening
from holdfast.kernel.storage.postgres.engine import connect
from timeouts import TIMEOUT


@pytest.fixture
def other(hold: Holdfast, address: str) -> Iterator[Holdfast]:
    with holdfast.open(address, agent_id="ai:other@here") as opened:
        yield opened


def settled(wait: Callable[[float], bool]) -> None:
    """Until nothing is new any more."""
    while wait(1.5):
        pass


def test_the_first_wait_ends_at_once_and_the_next_when_its_time_has_passed(hold: Holdfast) -> None:
    assert hold.hold.store.wait(TIMEOUT)
    settled(hold.hold.store.wait)
    assert not hold.hold.store.wait(0.01)


def test_a_commit_of_another_process_wakes_who_waits(hold: Holdfast, other: Holdfast) -> None:
    ready = threading.Event()

    def waits() -> bool:
        settled(hold.hold.store.wait)
        ready.set()
        return hold.hold.store.wait(TIMEOUT)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(waits)
        ready.wait()
        other.store(title="Elsewhere", content="x")
        assert waiting.result(timeout=TIMEOUT)


def test_what_was_committed_between_two_waits_is_told_at_once(hold: Holdfast, other: Holdfast) -> None:
    settled(hold.hold.store.wait)
    other.store(title="Elsewhere", content="x")
    assert hold.hold.store.wait(TIMEOUT)


def test_what_is_no_change_of_a_record_is_told_too(hold: Holdfast, other: Holdfast) -> None:
    settled(hold.hold.store.wait)
    other.key_create(name="laptop")
    assert hold.hold.store.wait(TIMEOUT)


def test_all_who_wait_are_woken_by_one_commit(hold: Holdfast, other: Holdfast) -> None:
    ready = threading.Barrier(5)

    def waits() -> bool:
        settled(hold.hold.store.wait)
        ready.wait()
        return hold.hold.store.wait(TIMEOUT)

    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(waits) for _ in range(4)]
        ready.wait()
        other.store(title="Elsewhere", content="x")
        assert [one.result(timeout=TIMEOUT) for one in waiting] == [True] * 4


def test_a_closed_store_lets_go_of_who_waits(hold: Holdfast, address: str) -> None:
    other = holdfast.open(address)
    other.hold.store.wait(0)
    other.close()
    assert not any(thread.name == "holdfast-listener" for thread in threading.enumerate())


class TestOnPostgres:
    """What only a database does."""

    @pytest.fixture
    def engine(self) -> str:
        return "postgres"

    def test_one_connection_listens_for_all_who_wait(self, hold: Holdfast, postgres: Postgres) -> None:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: hold.hold.store.wait(1), range(4)))
        with postgres.admin() as admin:
            listeners = admin.execute(
                "select count(*) from pg_stat_activity where application_name = 'holdfast' and query like '%snapshot%'"
            ).fetchone()
        assert listeners == (1,)

    def test_a_listener_that_was_cut_listens_again(self, hold: Holdfast, other: Holdfast, postgres: Postgres) -> None:
        settled(hold.hold.store.wait)
        with postgres.admin() as admin:
            admin.execute(
                "select pg_terminate_backend(pid, 10000) from pg_stat_activity where application_name = 'holdfast'"
            ).fetchall()
        assert hold.hold.store.wait(TIMEOUT)
        settled(hold.hold.store.wait)
        other.store(title="Elsewhere", content="x")
        assert hold.hold.store.wait(TIMEOUT)

    def test_where_no_word_comes_through_the_clock_wakes(self, hold: Holdfast, other: Holdfast) -> None:
        """As behind a pooler that gives each transaction another connection."""
        deaf = listening.Listener(lambda: connect(hold.hold.store._address), "nobody_speaks_here")  # type: ignore[attr-defined]
        try:
            settled(deaf.wait)
            other.store(title="Elsewhere", content="x")
            assert deaf.wait(TIMEOUT)
        finally:
            deaf.close()
