"""Database failures of every kind: callers get clear errors, and the store recovers on its own."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
from clusters import Cluster, Wire, cluster, wire

import holdfast
from holdfast import Holdfast
from holdfast.features.history import service as history
from holdfast.features.recall import flush_access
from holdfast.kernel import context
from holdfast.kernel.errors import OutcomeUnknown, StoreBusy, StoreError, StoreFull, StoreUnreachable
from holdfast.kernel.journal import journal
from holdfast.kernel.storage import port
from timeouts import TIMEOUT, wait_until

pytestmark = pytest.mark.full

_numbers = count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with TemporaryDirectory(prefix="holdfast-pg-") as folder, cluster(Path(folder)) as running:
        yield running


@pytest.fixture
def schema() -> str:
    return f"fault_{next(_numbers)}"


@pytest.fixture
def db(server: Cluster, schema: str) -> str:
    return server.url(server.database, schema=schema)


@pytest.fixture
def impatient(hold: Holdfast) -> Holdfast:
    """A store with a short connection timeout."""
    hold.ctx.store._pool._wait_seconds = 0.3  # type: ignore[attr-defined]
    return hold


@pytest.fixture
def wired_store(server: Cluster, schema: str) -> Iterator[tuple[Holdfast, Wire]]:
    """A store behind a wire; statements are sent in full."""
    with wire(server) as line, holdfast.open(server.by_wire(line, schema, prepare="off")) as opened:
        opened.store(title="Before", content="the wire was whole")
        yield opened, line


@contextmanager
def override_settings(server: Cluster, **settings: str) -> Iterator[None]:
    server.setting(**settings)
    try:
        yield
    finally:
        server.setting(**dict.fromkeys(settings))


def titles(hold: Holdfast) -> list[str]:
    return sorted(memory.title for memory in hold.list().memories)


def assert_whole(hold: Holdfast) -> None:
    with hold.ctx.reading() as session:
        assert history.verify(hold.ctx, session) == []


# The database goes away and comes back


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_connections_recover_from_a_database_restart_without_an_error(
    server: Cluster, hold: Holdfast, mode: str
) -> None:
    hold.store(title="Before", content="x")
    server.control("-m", mode, "restart")
    assert titles(hold) == ["Before"]
    server.control("-m", mode, "restart")
    hold.store(title="After", content="x")
    assert titles(hold) == ["After", "Before"]
    assert_whole(hold)


def test_a_request_during_a_database_restart_waits_for_it(server: Cluster, hold: Holdfast) -> None:
    hold.store(title="Before", content="x")
    server.stop("fast")
    with ThreadPoolExecutor(2) as pool:
        reads, writes = pool.submit(titles, hold), pool.submit(hold.store, title="Waited", content="x")
        server.start()
        assert "Before" in reads.result(timeout=TIMEOUT)
        assert writes.result(timeout=TIMEOUT).title == "Waited"


def test_an_unreachable_database_is_reported_as_a_retryable_error(server: Cluster, impatient: Holdfast) -> None:
    server.stop("fast")
    try:
        for ask in (lambda: impatient.list(), lambda: impatient.store(title="T", content="x")):
            with pytest.raises(StoreUnreachable) as error:
                ask()
            assert error.value.retryable
    finally:
        server.start()
    assert titles(impatient) == []


def test_idle_connections_closed_by_the_database_are_replaced(server: Cluster, hold: Holdfast) -> None:
    with ThreadPoolExecutor(5) as pool:
        meet = threading.Barrier(5)

        def reads(_: int) -> None:
            with hold.ctx.reading():
                meet.wait()

        list(pool.map(reads, range(5)))
    assert server.terminate() >= 5
    hold.store(title="After", content="x")
    server.terminate()
    assert titles(hold) == ["After"]


def test_a_lost_connection_during_a_read_is_a_retryable_error(server: Cluster, hold: Holdfast) -> None:
    with hold.ctx.reading() as session:
        server.terminate()
        with pytest.raises(StoreUnreachable) as error:
            session.row("journal_head_get")
    assert error.value.retryable
    assert titles(hold) == []


@pytest.mark.parametrize("more", [True, False], ids=["in the middle", "before its commit"])
def test_a_lost_connection_during_a_write_writes_nothing(server: Cluster, hold: Holdfast, more: bool) -> None:
    def half() -> None:
        with hold.ctx.transaction() as write:
            write.session.do("meta_put", name="half", body="{}")
            write.session.rows("meta_list")
            server.terminate()
            if more:
                write.session.rows("meta_list")

    with pytest.raises(StoreUnreachable) as error:
        half()
    assert error.value.retryable
    with hold.ctx.reading() as session:
        assert session.rows("meta_list") == []
    hold.store(title="After", content="x")


# The connection breaks during a commit


def test_a_commit_that_never_arrived_writes_nothing_and_can_be_retried(wired_store: tuple[Holdfast, Wire]) -> None:
    hold, line = wired_store
    line.cut_at(b"commit\0", arrives=False)
    with pytest.raises(StoreUnreachable) as error:
        hold.store(title="Lost", content="x")
    assert line.is_cut.is_set()
    assert error.value.retryable
    assert titles(hold) == ["Before"]
    hold.store(title="Lost", content="repeated")
    assert_whole(hold)


def test_a_commit_with_a_lost_answer_is_confirmed_from_the_journal(wired_store: tuple[Holdfast, Wire]) -> None:
    hold, line = wired_store
    line.cut_at(b"commit\0", arrives=True)
    memory = hold.store(title="Kept", content="x")
    assert line.is_cut.is_set()
    assert (memory.version, titles(hold)) == (1, ["Before", "Kept"])
    assert [change.op for change in hold.history(id=memory.id).changes] == ["store"]
    assert_whole(hold)


def test_a_commit_still_running_in_the_database_is_awaited(server: Cluster, wired_store: tuple[Holdfast, Wire]) -> None:
    """It waits for a missing replica and locks the store until it is released."""
    hold, line = wired_store
    with override_settings(server, synchronous_standby_names="nobody"), ThreadPoolExecutor(1) as pool:
        storing = pool.submit(hold.store, title="Kept", content="x")
        with server.admin() as admin:
            query = "select 1 from pg_stat_activity where wait_event = 'SyncRep'"
            wait_until(lambda: admin.execute(query).fetchall())
        line.cut()
        with pytest.raises(TimeoutError):
            storing.result(timeout=1)
        server.setting(synchronous_standby_names=None)
        assert storing.result(timeout=TIMEOUT).title == "Kept"
    assert titles(hold) == ["Before", "Kept"]


def test_a_commit_on_an_unreachable_database_has_an_unknown_outcome(
    wired_store: tuple[Holdfast, Wire], monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, line = wired_store
    hold.ctx.store._pool._wait_seconds = 0.3  # type: ignore[attr-defined]
    monkeypatch.setattr(context, "COMMIT_CHECK_SECONDS", 0.3)
    line.cut_at(b"commit\0", arrives=True, stays=True)
    with pytest.raises(OutcomeUnknown) as error:
        hold.store(title="Kept or not", content="x")
    assert not error.value.retryable
    line.stays_cut = False
    assert_whole(hold)


def test_a_lost_commit_without_a_journal_entry_has_an_unknown_outcome(wired_store: tuple[Holdfast, Wire]) -> None:
    hold, line = wired_store
    line.cut_at(b"commit\0", arrives=True)
    with pytest.raises(OutcomeUnknown):
        hold.key_create(name="laptop")
    assert [key.name for key in hold.key_list().keys] == ["laptop"]


def test_accesses_with_an_unknown_commit_outcome_are_not_counted_twice(wired_store: tuple[Holdfast, Wire]) -> None:
    hold, line = wired_store
    before = hold.list().memories[0]
    hold.recall(context="whole")
    line.cut_at(b"commit\0", arrives=True)
    flush_access.flush_access_log(hold.ctx)
    assert line.is_cut.is_set()
    flush_access.flush_access_log(hold.ctx)
    assert hold.get(id=before.id).access_count == 1


# Exhausted resources


def test_a_request_for_a_connection_of_a_full_pool_times_out_with_an_error(server: Cluster, schema: str) -> None:
    with holdfast.open(server.url(server.database, schema=schema, pool_size="2")) as hold, ExitStack() as stack:
        hold.ctx.store._pool._wait_seconds = 0.3  # type: ignore[attr-defined]
        taken, done = threading.Barrier(3), threading.Event()

        def reads() -> None:
            with hold.ctx.reading():
                taken.wait()
                done.wait()

        pool = stack.enter_context(ThreadPoolExecutor(3))
        stack.callback(done.set)
        readers = [pool.submit(reads) for _ in range(2)]
        taken.wait()
        with pytest.raises(StoreBusy) as error:
            hold.list()
        assert error.value.retryable
        hold.ctx.store._pool._wait_seconds = TIMEOUT  # type: ignore[attr-defined]
        waiting = pool.submit(titles, hold)
        done.set()
        assert waiting.result(timeout=TIMEOUT) == []
        assert [reader.result() for reader in readers] == [None, None]


def test_a_database_with_no_free_connections_is_reported_as_busy(server: Cluster, db: str) -> None:
    with override_settings(server, max_connections="12"):
        server.control("-m", "fast", "restart")
        with holdfast.open(db) as hold, ExitStack() as stack:
            hold.ctx.store._pool._wait_seconds = 0.3  # type: ignore[attr-defined]
            with suppress(psycopg.OperationalError):
                while True:
                    stack.enter_context(psycopg.connect(server.url()))
            for ask in (hold.list, lambda: holdfast.open(db)):
                with pytest.raises(StoreBusy) as error:
                    ask()
                assert error.value.retryable
            stack.pop_all().close()
            assert titles(hold) == []
    server.control("-m", "fast", "restart")


@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk can only be mounted by root")
def test_a_full_disk_accepts_and_loses_nothing(server: Cluster) -> None:
    with TemporaryDirectory(prefix="holdfast-disk-") as small:
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,mode=777", "tmpfs", small]).returncode:
            pytest.skip("no file system can be mounted here")
        try:
            fill_a_disk(server, Path(small))
        finally:
            subprocess.run(["umount", "-l", small], check=True)


def fill_a_disk(server: Cluster, small: Path) -> None:
    (small / "tablespace").mkdir()
    server.own(small / "tablespace")
    with server.admin() as admin:
        admin.execute(f"create tablespace small location '{small}/tablespace'")
        admin.execute("create database small tablespace small")
    kept: list[str] = []
    with holdfast.open(server.url("small")) as hold:
        with pytest.raises(StoreFull) as error:
            kept.extend(hold.store(title=f"M {number}", content=os.urandom(20_000).hex()).id for number in count())
        assert not error.value.retryable
        assert kept
        assert [hold.get(id=id).id for id in (kept[0], kept[-1])] == [kept[0], kept[-1]]
        assert_whole(hold)
        subprocess.run(["mount", "-o", "remount,size=64m", str(small)], check=True)
        kept.append(hold.store(title="There is room again", content="x").id)
        assert hold.stats().total == len(kept)
        assert_whole(hold)
    with server.admin() as admin:
        admin.execute("drop database small with (force)")
        admin.execute("drop tablespace small")


# Locks of other clients


HOLDS = """
import sys, holdfast
from holdfast.kernel.storage.postgres import engine
engine.WRITE_IDLE_SECONDS = 1
hold = holdfast.open(sys.argv[1])
try:
    with hold.ctx.transaction() as write:
        write.session.do("meta_put", name="half", body="{}")
        write.session.rows("meta_list")
        print("holding", flush=True)
        sys.stdin.readline()
except holdfast.HoldfastError as error:
    print(error.code, error.retryable, flush=True)
hold.store(title="The stopped one", content="goes on")
hold.close()
"""


def test_a_stopped_client_loses_its_lock_and_continues_later(hold: Holdfast, db: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, db], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "holding\n"
        client.send_signal(signal.SIGSTOP)
        hold.store(title="Another", content="did not wait for ever")
        client.send_signal(signal.SIGCONT)
        out, _ = client.communicate("\n", timeout=TIMEOUT)
    assert (client.returncode, out) == (0, "STORE_UNREACHABLE True\n")
    with hold.ctx.reading() as session:
        assert session.rows("meta_list") == []
    assert titles(hold) == ["Another", "The stopped one"]


def test_a_writer_waiting_too_long_for_the_lock_gets_an_error(
    server: Cluster, hold: Holdfast, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port, "LOCK_SECONDS", 1)
    with psycopg.connect(server.url(server.database)) as other:
        other.execute(f"select 1 from {schema}.journal_head for update")
        with pytest.raises(StoreBusy) as error:
            hold.store(title="T", content="x")
        assert titles(hold) == []
    assert error.value.retryable
    hold.store(title="T", content="x")


def test_a_statement_cancelled_by_the_database_is_reported(server: Cluster, hold: Holdfast, schema: str) -> None:
    with psycopg.connect(server.url(server.database)) as other, override_settings(server, statement_timeout="300ms"):
        other.execute("set statement_timeout = 0")
        other.execute(f"select 1 from {schema}.journal_head for update")
        with pytest.raises(StoreBusy) as error:
            hold.store(title="T", content="x")
    assert error.value.retryable
    hold.store(title="T", content="x")


# Read-only databases


def assert_only_reads(url: str) -> None:
    with holdfast.open(url) as hold:
        assert titles(hold) == ["Before"]
        assert [memory.title for memory in hold.recall(context="written").memories] == ["Before"]
        with pytest.raises(StoreUnreachable) as error:
            hold.store(title="After", content="x")
    assert "read-only" in error.value.message
    assert not error.value.retryable


def test_a_read_only_database_answers_reads_and_refuses_writes(server: Cluster, hold: Holdfast, db: str) -> None:
    hold.store(title="Before", content="written")
    with override_settings(server, default_transaction_read_only="on"):
        assert_only_reads(db)


def test_a_replica_answers_reads_and_follows_the_primary(server: Cluster, hold: Holdfast, schema: str) -> None:
    hold.store(title="Before", content="written")
    with server.replica() as url, holdfast.open(f"{url}&schema={schema}") as reading:
        assert_only_reads(f"{url}&schema={schema}")
        while reading.ctx.store.wait_for_commit(1.5):
            pass
        hold.store(title="Later", content="written on the other side")
        assert reading.ctx.store.wait_for_commit(TIMEOUT)
        wait_until(lambda: titles(reading) == ["Before", "Later"])


def test_a_promoted_replica_continues_as_a_new_incarnation(server: Cluster, hold: Holdfast, schema: str) -> None:
    memory_id = hold.store(title="Before", content="Written at the old primary.").id
    with hold.ctx.reading() as session:
        before = journal.get_head(session)
    with server.replica() as copy:
        follower = holdfast.open(f"{copy}&schema={schema}", agent_id="ai:tester@there")
        with psycopg.connect(copy, autocommit=True) as connection:
            assert connection.execute("select pg_promote()").fetchall() == [(True,)]
        with closing(follower):
            follower.store(title="After", content="Written at the new one.")
            with follower.ctx.reading() as session:
                after = journal.get_head(session)
            assert (after.node, after.incarnation, after.n) == (before.node, before.incarnation + 1, 1)
            assert after.origin != before.origin
            assert follower.get(id=memory_id).title == "Before"
            assert follower.verify().intact


# Failures of our side


def test_an_interrupted_wait_leaves_no_connection_behind(server: Cluster, hold: Holdfast, schema: str) -> None:
    with psycopg.connect(server.url(server.database)) as other:
        other.execute(f"select 1 from {schema}.journal_head for update")
        for _ in range(3):
            timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                hold.store(title="T", content="x")
            timer.join()
        assert hold.ctx.store._pool._in_use == set()  # type: ignore[attr-defined]
    hold.store(title="T", content="x")


def test_a_forked_child_must_open_the_store_itself_and_parent_connections_survive(hold: Holdfast) -> None:
    hold.store(title="Before", content="x")
    child = os.fork()
    if not child:
        try:
            hold.list()
        except StoreError as error:
            os._exit(7 if "fork" in error.message else 1)
        finally:
            hold.close()
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert titles(hold) == ["Before"]


def test_a_program_that_never_closes_the_store_still_exits(db: str) -> None:
    script = "import sys, holdfast; h = holdfast.open(sys.argv[1]); h.store('T', 'x'); h.ctx.store.wait_for_commit(5)"
    ended = subprocess.run([sys.executable, "-c", script, db], capture_output=True, text=True, timeout=TIMEOUT)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
