"""A schema is migrated once, all or nothing, by whichever process opens it."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import at_once
from schemas import WORKS, everything, grant, schema_of

import holdfast
from engines import Postgres, raw_connection
from holdfast.kernel import errors
from holdfast.kernel.storage.open_by_address import open_store
from holdfast.kernel.storage.port import Store
from holdfast.kernel.storage.postgres import engine as postgres_engine
from holdfast.kernel.storage.postgres import open_store as postgres_open_store
from timeouts import wait_until


@pytest.fixture
def engine() -> str:
    return "postgres"


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Simulate the next version, with one more migration; return its folder."""

    def next_release(script: str) -> Path:
        folder = tmp_path / "next"
        (folder / "migrations").mkdir(parents=True, exist_ok=True)
        (folder / "migrations" / "9000_next.sql").write_text(script)
        monkeypatch.setattr(postgres_open_store, "FOLDERS", (*postgres_engine.FOLDERS, folder))
        return folder

    return next_release


def migration_state(url: str) -> tuple[bool, set[str]]:
    """Return whether the migration is recorded, and which of its tables exist."""
    with raw_connection(url) as raw:
        found = "select relname from pg_class where relname = any(%s) and relnamespace = to_regnamespace(%s)"
        rows = raw.execute(found, (["memory", "later", "last"], schema_of(url))).fetchall()
        tables = {str(name) for (name,) in rows}
        recorded = raw.execute("select 1 from migration where number = 9000").fetchall() if tables else []
        return bool(recorded), tables


LATER = "create table later (\n  x text not null\n);\n"


def test_a_later_migration_is_applied_once(db: str, release: Callable[[str], Path]) -> None:
    with holdfast.open(db) as hold:
        kept = hold.store(title="Before", content="the migration").id
    release(LATER)
    for _ in range(2):
        with holdfast.open(db) as hold:
            assert hold.get(id=kept).content == "the migration"
    assert migration_state(db) == (True, {"memory", "later"})


def test_a_failing_migration_leaves_the_store_unchanged(db: str, release: Callable[[str], Path]) -> None:
    open_store(db).close()
    before = everything(db)
    release(LATER + "insert into no_such_table values (1);\n")
    with pytest.raises(errors.StoreError):
        open_store(db)
    assert everything(db) == before


def test_a_user_without_migration_rights_is_referred_to_the_owner(
    db: str, user: str, release: Callable[[str], Path]
) -> None:
    open_store(db).close()
    release(LATER)
    with pytest.raises(errors.StoreUnreachable, match="as the owner of the schema"):
        open_store(grant(db, user, WORKS))
    assert migration_state(db) == (False, {"memory"})


@pytest.mark.parametrize("before", ["a new store", "a store of the release before"])
def test_servers_opening_a_store_concurrently_migrate_it_once(
    db: str, release: Callable[[str], Path], before: str
) -> None:
    if before != "a new store":
        open_store(db).close()
    release(LATER + "insert into later values ('once');\n")
    assert at_once(8, lambda number: open_store(db).close()) == [{"answer": None}] * 8
    with raw_connection(db) as raw:
        assert raw.execute("select x from later").fetchall() == [("once",)]
    assert migration_state(db) == (True, {"memory", "later"})


OPEN = """
import sys
from pathlib import Path
from holdfast.kernel.storage.open_by_address import open_store
from holdfast.kernel.storage.postgres import engine
from holdfast.kernel.storage.postgres import open_store as postgres_open_store
postgres_open_store.FOLDERS = (*engine.FOLDERS, Path(sys.argv[2]))
open_store(sys.argv[1]).close()
"""


def opener(url: str, folder: Path) -> "subprocess.Popen[bytes]":
    """Start a process that opens a store with the next version."""
    return subprocess.Popen([sys.executable, "-c", OPEN, url, str(folder)])


@pytest.mark.parametrize("before", ["a new store", "a store of the release before"])
def test_a_process_killed_during_a_migration_leaves_nothing_of_it(
    db: str, postgres: Postgres, release: Callable[[str], Path], before: str
) -> None:
    if before != "a new store":
        open_store(db).close()
    was = migration_state(db)
    folder = release(LATER + "select pg_sleep(1) /* within */;\n" + LATER.replace("later", "last"))
    process = opener(db, folder)
    backends = "select pid from pg_stat_activity where query like '%/* within */%' and pid <> pg_backend_pid()"
    with postgres.admin() as admin:
        wait_until(lambda: admin.execute(backends).fetchall())
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_until(lambda: not admin.execute(backends).fetchall())
    assert migration_state(db) == was
    open_store(db).close()
    assert migration_state(db) == (True, {"memory", "later", "last"})


@pytest.mark.full
def test_a_process_killed_at_any_moment_leaves_the_old_or_the_new_store(
    postgres: Postgres, release: Callable[[str], Path]
) -> None:
    """Kills are spread over the whole run: some before, some during, some after."""
    folder = release(LATER + "select pg_sleep(0.1);\n" + LATER.replace("later", "last"))
    states = []
    with postgres.new_store() as measured:
        begun = time.monotonic()
        opener(measured, folder).wait()
        lasts = time.monotonic() - begun
    for number in range(16):
        with postgres.new_store() as url:
            process = opener(url, folder)
            time.sleep(lasts * number / 16)
            process.send_signal(signal.SIGKILL)
            process.wait()
            states.append(migration_state(url))
            open_store(url).close()
            assert migration_state(url) == (True, {"memory", "later", "last"})
    assert all(state in ((False, set()), (True, {"memory", "later", "last"})) for state in states), states
    assert (False, set()) in states


def test_a_store_open_elsewhere_keeps_working_after_a_migration(db: str, release: Callable[[str], Path]) -> None:
    with holdfast.open(db) as old:
        for number in range(12):
            old.store(title=f"Before {number}", content="the migration")
        release("alter table memory add column later bigint;\n")
        with holdfast.open(db) as new:
            new.store(title="New", content="After the migration")
        old.store(title="Old", content="after the migration")
        assert old.stats().total == 14


def test_a_store_can_be_opened_while_another_process_writes(open_again: Callable[[], Store]) -> None:
    with open_again().transaction() as session:
        session.do("meta_put", name="colour", body="blue")
        other = open_again()
        with other.reading() as reading:
            assert reading.rows("meta_list") == []
