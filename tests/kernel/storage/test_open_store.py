"""Opening a file: private, ours, migrated all or nothing; other files are not changed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from random import Random

import apsw
import pytest

import holdfast
from holdfast.kernel import errors
from holdfast.kernel.storage import migrations
from holdfast.kernel.storage.sqlite import engine
from holdfast.kernel.storage.sqlite import open_store as sqlite_open_store
from holdfast.kernel.storage.sqlite.open_store import open_store

LATEST = migrations.load_migrations(*engine.FOLDERS)[-1].number
"""The last migration of this version."""
NEXT = LATEST + 1


def contents(folder: Path) -> dict[str, str]:
    """Return all files with their content."""
    return {str(file): sha256(file.read_bytes()).hexdigest() for file in folder.rglob("*") if file.is_file()}


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture(params=[0o022, 0o000, 0o077], ids=["umask 022", "umask 000", "umask 077"])
def any_umask(request: pytest.FixtureRequest) -> object:
    old = os.umask(request.param)
    yield
    os.umask(old)


# Private


def test_the_file_is_private_before_its_first_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    path = tmp_path / "memory.db"

    def look(*args: object) -> None:
        seen.append((mode(path), path.stat().st_size))

    monkeypatch.setattr(sqlite_open_store, "is_current", lambda *args: look() or True)
    open_store(path).close()
    assert seen == [(0o600, 0)]


def test_every_file_of_a_store_is_private_whatever_the_umask(tmp_path: Path, any_umask: None) -> None:
    with holdfast.open(str(tmp_path / "memory.db")) as hold:
        hold.store(title="One", content="first")
        assert {file.name: oct(mode(file)) for file in tmp_path.glob("memory*")} == dict.fromkeys(
            ("memory.db", "memory.db-wal", "memory.db-shm", "memory.db.key"), "0o600"
        )


def test_an_empty_file_that_others_can_read_is_made_private(tmp_path: Path) -> None:
    (tmp_path / "memory.db").touch(0o644)
    open_store(tmp_path / "memory.db").close()
    assert mode(tmp_path / "memory.db") == 0o600


def test_only_folders_created_here_are_made_private(tmp_path: Path, any_umask: None) -> None:
    (tmp_path / "theirs").mkdir(mode=0o755)
    (tmp_path / "theirs").chmod(0o755)
    open_store(tmp_path / "theirs" / "ours" / "too" / "memory.db").close()
    found = [mode(tmp_path / path) for path in ("theirs", "theirs/ours", "theirs/ours/too")]
    assert found == [0o755, 0o700, 0o700]


# Ours


@pytest.mark.parametrize("size", [1, 10, 99, 100, 512, 4096, 100_000])
def test_a_file_other_than_a_database_is_refused_unchanged(tmp_path: Path, size: int) -> None:
    (tmp_path / "memory.db").write_bytes(b"x" * size)
    before = contents(tmp_path)
    with pytest.raises(errors.NotAStore):
        open_store(tmp_path / "memory.db")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("journal", ["delete", "wal"])
@pytest.mark.parametrize("identified", [False, True], ids=["anonymous", "with its own id"])
def test_a_database_of_another_program_is_refused_unchanged(tmp_path: Path, journal: str, identified: bool) -> None:
    path = tmp_path / "memory.db"
    theirs = apsw.Connection(str(path))
    theirs.execute(f"pragma journal_mode={journal}")
    if identified:
        theirs.pragma("application_id", 7)
    theirs.execute("create table t (x); insert into t values (1)")
    theirs.close()
    before = contents(tmp_path)
    with pytest.raises(errors.NotAStore):
        open_store(path)
    assert contents(tmp_path) == before


def test_the_log_of_another_program_is_not_applied_to_its_database(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with closing(apsw.Connection(str(tmp_path / "original.db"))) as theirs:
        theirs.execute("pragma journal_mode=wal; create table t (x); insert into t values (1)").fetchall()
        for beside in ("", "-wal"):
            shutil.copy(f"{tmp_path}/original.db{beside}", f"{path}{beside}")
    before = {name: digest for name, digest in contents(tmp_path).items() if name.startswith(str(path))}
    with pytest.raises(errors.NotAStore):
        open_store(path)
    after = contents(tmp_path)
    assert {name: after[name] for name in before} == before


def test_a_store_of_a_later_release_is_refused_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    open_store(path).close()
    with closing(apsw.Connection(str(path))) as later:
        later.execute(f"insert into migration values ({NEXT}, 'later', 'x', 0); create table later (x)")
        later.execute(f"pragma user_version={NEXT}")
    before = contents(tmp_path)
    with pytest.raises(errors.NewerStore):
        open_store(path)
    assert contents(tmp_path) == before


def test_a_store_with_other_migrations_is_refused_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    open_store(path).close()
    with closing(apsw.Connection(str(path))) as raw:
        raw.execute("update migration set checksum = 'another'")
    before = contents(tmp_path)
    with pytest.raises(errors.StoreDamaged):
        open_store(path)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("lost", [4096, 3 * 4096], ids=["one page", "three pages"])
def test_a_truncated_store_is_reported_and_left_unchanged(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "memory.db"
    with holdfast.open(str(path)) as hold:
        hold.bulk_store(memories=[{"title": f"Title {n}", "content": "text " * 200} for n in range(50)])
    os.truncate(path, path.stat().st_size - lost)
    before = path.read_bytes()
    with pytest.raises(errors.StoreDamaged):
        holdfast.open(str(path))
    assert path.read_bytes() == before


# Location


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.mkdir(),
        lambda path: os.mkfifo(path),
        lambda path: path.symlink_to("/dev/full"),
        lambda path: path.symlink_to(path),
        lambda path: (path.parent / "file").touch() or path.symlink_to(path.parent / "file" / "below"),
    ],
    ids=["a folder", "a pipe", "a device", "a link to itself", "below a file"],
)
def test_an_impossible_path_is_refused_with_a_holdfast_error(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "memory.db")
    with pytest.raises(errors.StoreUnreachable):
        open_store(tmp_path / "memory.db")


def test_a_too_long_name_is_refused_with_a_holdfast_error(tmp_path: Path) -> None:
    with pytest.raises(errors.StoreUnreachable):
        open_store(tmp_path / ("x" * 300))


def test_a_dangling_symlink_creates_the_store_at_its_target(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "elsewhere" / "memory.db")
    open_store(tmp_path / "link.db").close()
    assert mode(tmp_path / "elsewhere" / "memory.db") == 0o600


def test_a_store_has_one_key_through_any_symlink(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "memory.db")
    for name in ("memory.db", "link.db", "memory.db"):
        with holdfast.open(str(tmp_path / name)) as hold:
            hold.store(title=name, content="stored")
    with holdfast.open(str(tmp_path / "memory.db")) as hold:
        assert len({change.origin for change in hold.events(after=0).events}) == 1
    assert sorted(file.name for file in tmp_path.glob("*.key")) == ["memory.db.key"]


def test_opening_a_store_again_releases_no_lock_of_the_first(tmp_path: Path) -> None:
    """Closing any handle of a file releases all locks of the process on it; SQLite avoids this, so must we."""
    path = tmp_path / "memory.db"
    first = open_store(path)
    with first.transaction() as session:
        session.do("meta_put", name="colour", body="blue")
    open_store(path).close()
    first.snapshot(tmp_path / "copy.db")
    take = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)"
    other = subprocess.run([sys.executable, "-c", take, str(path)], capture_output=True, text=True)
    assert "BlockingIOError" in other.stderr, "another process could take the store for its own"
    first.close()


# Migrations


@pytest.fixture
def next_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Simulate the next version, with one more migration."""

    def release(script: str) -> None:
        folder = tmp_path / "next" / "migrations"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{NEXT:04}_next.sql").write_text(script)
        monkeypatch.setattr(sqlite_open_store, "FOLDERS", (*engine.FOLDERS, tmp_path / "next"))

    return release


def version(path: Path) -> tuple[int, set[str]]:
    with closing(apsw.Connection(str(path))) as raw:
        tables = raw.execute("select name from sqlite_schema where name in ('memory', 'later', 'last')").fetchall()
        number = raw.pragma("user_version")
        assert isinstance(number, int)
        recorded = (
            [number for (number,) in raw.execute("select number from migration order by number")] if tables else []
        )
        assert recorded == list(range(1, number + 1))
        assert raw.execute("pragma integrity_check").fetchall() == [("ok",)]
        return number, {name for (name,) in tables}


def test_a_new_store_has_every_migration_and_no_backup(tmp_path: Path, next_release: Callable[[str], None]) -> None:
    next_release("create table later (\n  x text not null\n);\n")
    open_store(tmp_path / "memory.db").close()
    assert version(tmp_path / "memory.db") == (NEXT, {"memory", "later"})
    assert list(tmp_path.glob("*.before-*")) == []


def test_a_later_migration_is_applied_once_after_a_backup(tmp_path: Path, next_release: Callable[[str], None]) -> None:
    path = tmp_path / "memory.db"
    with holdfast.open(str(path)) as hold:
        kept = hold.store(title="Before", content="the migration").id
    next_release("create table later (\n  x text not null\n);\n")
    for _ in range(2):
        with holdfast.open(str(path)) as hold:
            assert hold.get(id=kept).content == "the migration"
    (backup,) = tmp_path.glob(f"memory.db.before-v{NEXT}-*")
    assert version(path) == (NEXT, {"memory", "later"})
    assert version(backup) == (LATEST, {"memory"})
    assert mode(backup) == 0o600
    with closing(apsw.Connection(str(backup))) as raw:
        assert raw.execute("select id from memory").fetchall() == [(kept,)]


def test_a_failing_migration_leaves_the_store_unchanged(tmp_path: Path, next_release: Callable[[str], None]) -> None:
    path = tmp_path / "memory.db"
    open_store(path).close()
    next_release("create table later (\n  x text not null\n);\ninsert into no_such_table values (1);\n")
    with pytest.raises(errors.StoreError):
        open_store(path)
    assert version(path) == (LATEST, {"memory"})


def killed_after(seconds: float, work: Callable[[], object]) -> bool:
    """Run work in a process and kill it, unless it has finished before."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.full
@pytest.mark.parametrize("before", ["a new store", "a store of the release before"])
def test_a_killed_migration_leaves_the_old_or_the_new_store(
    tmp_path: Path, next_release: Callable[[str], None], before: str
) -> None:
    """Kills are spread over the whole run: some before, some during, some after."""
    if before != "a new store":
        open_store(tmp_path / "old.db").close()
    rows = "insert into later select hex(randomblob(200)) from (with recursive n(i) as (select 1 union all select i + 1"
    rows += " from n where i < 3000) select i from n);\n"
    next_release(f"create table later (\n  x text not null\n);\n{rows}create table last (\n  x text not null\n);\n")
    begun = time.monotonic()
    path = tmp_path / "measured.db"
    if before != "a new store":
        shutil.copy(tmp_path / "old.db", path)
    open_store(path).close()
    lasts, random, killed = time.monotonic() - begun, Random(2), 0
    allowed = [(0, set()), (NEXT, {"memory", "later", "last"})]
    if before != "a new store":
        allowed = [(LATEST, {"memory"}), (NEXT, {"memory", "later", "last"})]
    for round in range(40):
        path = tmp_path / f"{round}.db"
        if before != "a new store":
            shutil.copy(tmp_path / "old.db", path)
        killed += killed_after(lasts * random.uniform(0.1, 1.1), lambda path=path: open_store(path))
        if path.exists():
            assert version(path) in allowed
            open_store(path).close()
            assert version(path) == allowed[1]
    assert killed > 10
