"""Snapshots are consistent while others write; restore verifies them and applies to every process at once."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import pytest

import holdfast
from holdfast.features.admin import backup
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import Forbidden, HoldfastError, Invalid, NotFound
from holdfast.kernel.timestamps import DAY, SECOND
from timeouts import TIMEOUT

CHILD = """
import sys, holdfast
with holdfast.open(sys.argv[1], agent_id="ai:child@here") as hold:
    for line in sys.stdin:
        verb, _, rest = line.strip().partition(" ")
        if verb == "store":
            print(hold.store(title=rest, content=f"{rest} by the child").id, flush=True)
        else:
            print(",".join(sorted(found.title for found in hold.recall(context=rest).memories)), flush=True)
"""

WRITER = """
import sys, holdfast
with holdfast.open(sys.argv[1], agent_id="ai:writer@here") as hold:
    number = 0
    while True:
        print(hold.store(title=f"written {number}", content="under way").id, flush=True)
        number += 1
"""


KILLED = """
import os, signal, sys, holdfast
from holdfast.kernel.journal import journal
journal.start_incarnation = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
with holdfast.open(sys.argv[1], agent_id="ai:killed@here", now=lambda: int(sys.argv[3])) as hold:
    hold.restore(sys.argv[2])
"""


class Child:
    """Another process with the store open."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def ask(self, line: str) -> str:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@contextmanager
def child(script: str, db: str) -> Iterator[Child]:
    process = subprocess.Popen(
        [sys.executable, "-c", script, db], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Child(process)
    finally:
        process.kill()
        process.communicate()


def titles(hold: holdfast.Holdfast) -> set[str]:
    return {row["title"] for row in hold.export()["memories"]}


def content_of(hold: holdfast.Holdfast) -> dict[str, Any]:
    return {**hold.export(), "exported_at": ""}


def backups_of(hold: holdfast.Holdfast) -> Path:
    return hold.ctx.store.sidecar_path("backups")


def list_leftovers(hold: holdfast.Holdfast) -> set[str]:
    """Return leftover files beside a store."""
    backups = backups_of(hold)
    name = backups.name.removesuffix(".backups")
    known = {f"{name}{end}" for end in ("", "-wal", "-shm", ".key", ".backups")} | {"config", "data"}
    return {file.name for file in backups.parent.iterdir()} - known


def test_a_snapshot_restored_into_a_fresh_store_has_every_change(hold: holdfast.Holdfast, tmp_path: Path) -> None:
    for number in range(20):
        hold.store(title=f"Title {number}", content=f"content {number}", tags=["some"])
    hold.store(title="Sentinel", content="written just before")
    done = hold.backup()
    with holdfast.open(str(tmp_path / "elsewhere" / "fresh.db"), agent_id="ai:tester@here") as restored:
        restored.restore(done.path)
        assert content_of(restored) == content_of(hold)
        assert restored.search(query="sentinel").count == 1
        assert (restored.verify().intact, restored.ctx.store.faults()) == (True, [])


def test_a_snapshot_is_private_and_described_by_its_manifest(hold: holdfast.Holdfast) -> None:
    hold.store(title="One", content="first")
    done = hold.backup()
    snapshot = Path(done.path)
    manifest = json.loads(backup.manifest_of(snapshot).read_bytes())
    assert manifest == {
        "snapshot": snapshot.name,
        "sha256": sha256(snapshot.read_bytes()).hexdigest(),
        "bytes": snapshot.stat().st_size,
        "source": hold.ctx.store.path,
        "version": holdfast.__version__,
        "created_at": done.created_at,
        "number": 1,
    }
    assert {stat.S_IMODE(file.stat().st_mode) for file in snapshot.parent.iterdir()} == {0o600}
    assert stat.S_IMODE(snapshot.parent.stat().st_mode) == 0o700
    assert snapshot.parent == backups_of(hold)


def test_a_snapshot_taken_during_writes_is_consistent(hold: holdfast.Holdfast, db: str, tmp_path: Path) -> None:
    with child(WRITER, db) as writer:
        assert writer.process.stdout
        for number in range(3):
            told = [writer.process.stdout.readline().strip() for _ in range(10)]
            done = hold.backup()
            with holdfast.open(str(tmp_path / f"fresh-{number}.db"), agent_id="ai:tester@here") as restored:
                restored.restore(done.path)
                held = {row["id"] for row in restored.export()["memories"]}
                assert held.issuperset(told)
                assert (restored.verify().intact, restored.ctx.store.faults()) == (True, [])


def test_only_the_last_snapshots_are_retained_and_other_files_are_untouched(hold: holdfast.Holdfast) -> None:
    folder = backups_of(hold)
    made = [hold.backup(keep=3).snapshot for _ in range(5)]
    (folder / "notes.txt").write_text("mine")
    hold.backup(keep=2)
    kept = sorted(file.name for file in folder.iterdir())
    newest = hold.backup_list().snapshots[0].snapshot
    assert kept == sorted([made[-1], f"{made[-1]}.json", newest, f"{newest}.json", "notes.txt"])


class Clock:
    """A manual clock."""

    def __init__(self) -> None:
        self.at = 1_790_000_000 * SECOND

    def __call__(self) -> int:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def clock_store(db: str, clock: Clock) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(db, agent_id="ai:tester@here", now=clock) as hold:
        yield hold


def snapshots_in(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir() if file.suffix == ".db"}


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_most_recently_made_snapshots_are_retained_despite_a_clock_that_was_ahead(
    clock_store: holdfast.Holdfast, clock: Clock, keep: int
) -> None:
    clock.at += 3650 * DAY
    made = [clock_store.backup().snapshot for _ in range(3)]
    clock.at -= 3650 * DAY
    for number in range(3):
        clock_store.store(title=f"Now {number}", content="The clock is right again.")
        made.append(clock_store.backup(keep=keep).snapshot)
        assert snapshots_in(backups_of(clock_store)) == set(made[-keep:])
    assert [one.snapshot for one in clock_store.backup_list().snapshots] == made[: -keep - 1 : -1]
    assert clock_store.restore(str(backups_of(clock_store))).snapshot == made[-1]


def test_snapshots_of_an_earlier_release_are_pruned_first_whatever_their_names(
    clock_store: holdfast.Holdfast, clock: Clock
) -> None:
    clock.at += 3650 * DAY
    old = [Path(clock_store.backup().path) for _ in range(2)]
    for snapshot in old:
        manifest = backup.manifest_of(snapshot)
        content = json.loads(manifest.read_bytes())
        del content["number"]
        manifest.write_text(json.dumps(content))
    clock.at -= 3650 * DAY
    first = clock_store.backup(keep=2)
    assert first.pruned == [old[0].name]
    assert snapshots_in(backups_of(clock_store)) == {old[1].name, first.snapshot}
    second = clock_store.backup(keep=2)
    assert snapshots_in(backups_of(clock_store)) == {first.snapshot, second.snapshot}


def test_snapshots_of_the_same_time_are_retained_in_the_order_they_were_made(clock_store: holdfast.Holdfast) -> None:
    made = [clock_store.backup(keep=1).snapshot for _ in range(3)]
    assert snapshots_in(backups_of(clock_store)) == {made[-1]}
    made += [clock_store.backup(keep=2).snapshot for _ in range(2)]
    assert snapshots_in(backups_of(clock_store)) == set(made[-2:])


def test_a_truncated_snapshot_does_not_count_towards_retention(clock_store: holdfast.Holdfast, clock: Clock) -> None:
    made = []
    for _ in range(3):
        clock.at += DAY
        made.append(Path(clock_store.backup().path))
    cut_by_a_page(made[-1])
    clock.at -= 2 * DAY
    newest = clock_store.backup(keep=2)
    assert newest.pruned == [made[0].name]
    assert snapshots_in(backups_of(clock_store)) == {made[1].name, made[2].name, newest.snapshot}
    assert clock_store.backup(keep=1).pruned == [made[1].name, made[2].name, newest.snapshot]


def test_the_last_restorable_snapshot_survives_any_number_of_damaged_ones(tmp_path: Path) -> None:
    db = tmp_path / "memory.db"
    with holdfast.open(str(db), agent_id="ai:tester@here") as hold:
        for number in range(30):
            hold.store(title=f"Title {number}", content="some words to index " * 20)
        good = [hold.backup().snapshot for _ in range(2)]
    connection = apsw.Connection(str(db))
    rows = connection.execute("select id, block from memory_text_data where id > 10").fetchall()
    connection.execute("update memory_text_data set block = x'00' where id > 10").fetchall()
    connection.close()
    with holdfast.open(str(db), agent_id="ai:tester@here") as hold:
        for _ in range(3):
            made = hold.backup(keep=1)
            assert snapshots_in(backups_of(hold)) == {good[-1], made.snapshot}
        assert hold.restore(good[-1], dry_run=True).dry_run
    connection = apsw.Connection(str(db))
    connection.executemany("update memory_text_data set block = ? where id = ?", [(block, id) for id, block in rows])
    connection.close()
    with holdfast.open(str(db), agent_id="ai:tester@here") as hold:
        assert good[-1] in hold.backup(keep=1).pruned


def test_files_that_are_not_our_snapshots_are_never_removed(clock_store: holdfast.Holdfast, clock: Clock) -> None:
    folder = backups_of(clock_store)
    made = clock_store.backup()
    bare, torn, foreign = (folder / f"holdfast-2001010{n}T000000.000000Z.db" for n in (1, 2, 3))
    for file in (bare, torn, foreign):
        file.write_bytes(Path(made.path).read_bytes())
    backup.manifest_of(torn).write_text('{"snapshot": "hold')
    backup.manifest_of(foreign).write_bytes(backup.manifest_of(Path(made.path)).read_bytes())
    for name in (".holdfast-1.txt", "holdfast.db", "holdfast-latest.db", "notes.partial", ".holdfast-2001.partial"):
        (folder / name).write_text("mine")
    (folder / ".holdfast-0").mkdir()
    (folder / ".holdfast-0" / "mine").write_text("mine")
    others = {file.name for file in folder.iterdir()}
    clock.at += 2 * DAY
    assert clock_store.backup(keep=1).pruned == [made.snapshot]
    clock_store.backup(keep=1)
    assert others - {file.name for file in folder.iterdir()} == {made.snapshot, f"{made.snapshot}.json"}
    assert (folder / ".holdfast-0" / "mine").exists()


def test_leftovers_of_a_crash_are_removed_after_a_day_and_are_not_snapshots(
    clock_store: holdfast.Holdfast, clock: Clock
) -> None:
    folder, made = backups_of(clock_store), clock_store.backup()
    name = made.snapshot
    left = [f".{name}.77-0a1b2c3d.partial", f".{name}.json.77.partial"]
    for one in left:
        (folder / one).write_text("half of it")
    clock.at += SECOND
    newest = clock_store.backup(keep=2)
    assert snapshots_in(folder) == {name, newest.snapshot}
    assert {file.name for file in folder.iterdir()}.issuperset(left)
    clock.at += 2 * DAY
    clock_store.backup(keep=2)
    assert not any(file.name.startswith(".") for file in folder.iterdir())


def test_snapshots_of_the_same_time_have_different_names(db: str) -> None:
    with holdfast.open(db, agent_id="ai:tester@here", now=lambda: 1_790_000_000_000_000) as hold:
        assert hold.backup().snapshot != hold.backup().snapshot
        assert hold.backup_list().count == 2


def test_a_snapshot_is_written_to_the_given_path(hold: holdfast.Holdfast, tmp_path: Path) -> None:
    done = hold.backup(to=str(tmp_path / "deep" / "backups"))
    assert Path(done.path).parent == tmp_path / "deep" / "backups"
    assert hold.backup_list().snapshots == []
    assert hold.restore(str(tmp_path / "deep" / "backups")).snapshot == done.snapshot


def test_an_unwritable_directory_is_a_clear_error(hold: holdfast.Holdfast, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for to in (str(tmp_path / "file"), "/dev/full", "/proc/nowhere"):
        with pytest.raises(HoldfastError) as refused:
            hold.backup(to=to)
        assert refused.value.code == "STORE_UNREACHABLE"


def test_a_restore_brings_back_everything_and_can_be_undone(hold: holdfast.Holdfast) -> None:
    kept = hold.store(title="Kept", content="before")
    hold.link(source_id=kept.id, target_id=hold.store(title="Other", content="too").id)
    before, done = content_of(hold), hold.backup()
    hold.update(kept.id, content="after")
    hold.delete(kept.id)
    hold.store(title="Later", content="later")
    after = content_of(hold)
    restored = hold.restore(done.snapshot)
    assert content_of(hold) == before
    assert hold.search(query="before").count == 1
    hold.restore(restored.before)
    assert content_of(hold) == after


def test_a_restored_store_is_a_new_incarnation_with_an_intact_journal(hold: holdfast.Holdfast) -> None:
    hold.store(title="One", content="first")
    done = hold.backup()
    hold.store(title="Two", content="second")
    origins = [change.origin for change in hold.events(after=0).events]
    restored = hold.restore(done.snapshot)
    assert restored.origin not in origins
    assert hold.verify().intact
    hold.store(title="Three", content="third")
    changes = hold.events(after=0).events
    assert [(change.seq, change.origin, change.number) for change in changes] == [
        (1, origins[0], 1),
        (2, restored.origin, 1),
    ]
    assert (hold.verify().intact, hold.ctx.store.faults()) == (True, [])


def test_every_process_with_the_store_open_sees_a_restore_at_once(hold: holdfast.Holdfast, db: str) -> None:
    hold.store(title="Shared", content="apple")
    done = hold.backup()
    with child(CHILD, db) as other:
        assert other.ask("store Childish")
        assert other.ask("recall apple child") == "Childish,Shared"
        hold.restore(done.snapshot)
        assert other.ask("recall apple child") == "Shared"
        assert other.ask("store Afterwards")
        assert titles(hold) == {"Shared", "Afterwards"}
        assert other.ask("recall afterwards") == "Afterwards"
    assert (hold.verify().intact, hold.ctx.store.faults()) == (True, [])


def test_a_listener_receives_a_restore_and_the_changes_after_it(hold: holdfast.Holdfast, db: str) -> None:
    done = hold.backup()
    hold.store(title="Later", content="later")
    with holdfast.open(db, agent_id="ai:listener@here") as listener:
        while listener.ctx.store.wait_for_commit(0.5):
            pass
        hold.restore(done.snapshot)
        assert listener.ctx.store.wait_for_commit(TIMEOUT)
        assert listener.events(after=0).events == []
        while listener.ctx.store.wait_for_commit(0.5):
            pass
        hold.store(title="Afterwards", content="afterwards")
        assert listener.ctx.store.wait_for_commit(TIMEOUT)
        assert [event.op for event in listener.events(after=0).events] == ["store"]


def test_a_snapshot_of_one_engine_can_be_restored_on_the_other(hold: holdfast.Holdfast, tmp_path: Path) -> None:
    with holdfast.open(str(tmp_path / "file.db"), agent_id="ai:tester@here") as other:
        made = other.store(title="Moved", content="some words", embedding={"model": "own", "vector": [0.6, 0.8]})
        other.update(made.id, content="other words")
        hold.store(title="Before", content="words that go")
        hold.restore(other.backup().path)
        assert content_of(hold) == content_of(other)
    assert [found.id for found in hold.search(query="other words").results] == [made.id]
    assert hold.search(query="go").count == 0
    assert (hold.verify().intact, hold.ctx.store.faults()) == (True, [])
    hold.store(title="Next", content="one more")
    assert (hold.verify().intact, hold.ctx.store.faults()) == (True, [])


def test_writes_acknowledged_during_a_restore_are_in_the_store_or_in_its_backup(
    hold: holdfast.Holdfast, db: str, tmp_path: Path
) -> None:
    hold.store(title="First", content="first")
    done = hold.backup()
    with child(WRITER, db) as writer:
        assert writer.process.stdout
        told = [writer.process.stdout.readline().strip() for _ in range(20)]
        before = hold.restore(done.snapshot).before
        told += [writer.process.stdout.readline().strip() for _ in range(20)]
    copy = tmp_path / "before.db"
    shutil.copy(backups_of(hold) / before, copy)
    with holdfast.open(str(copy), agent_id="ai:tester@here") as kept:
        held = {row["id"] for row in (*kept.export()["memories"], *hold.export()["memories"])}
    assert held.issuperset(told)
    assert hold.verify().intact


def test_a_killed_restore_leaves_the_store_unchanged(db: str) -> None:
    times = {"now": 1_790_000_000 * SECOND}
    with holdfast.open(db, agent_id="ai:tester@here", now=lambda: times["now"]) as hold:
        done = hold.backup()
        hold.store(title="Later", content="later")
        killed = subprocess.run([sys.executable, "-c", KILLED, db, done.snapshot, str(times["now"])], check=False)
        assert killed.returncode == -signal.SIGKILL
        assert (titles(hold), hold.verify().intact) == ({"Later"}, True)
        hold.store(title="Afterwards", content="afterwards")
        folder = backups_of(hold)
        assert len([file for file in folder.iterdir() if file.name.startswith(".")]) == 1
        times["now"] += 2 * DAY
        hold.backup()
        assert [file for file in folder.iterdir() if file.name.startswith(".")] == []


def test_restoring_a_snapshot_of_another_store_keeps_the_store_identity(
    hold: holdfast.Holdfast, tmp_path: Path
) -> None:
    hold.store(title="Mine", content="mine")
    node = hold.verify().node
    with holdfast.open(str(tmp_path / "other.db"), agent_id="ai:other@here") as other:
        other.store(title="Theirs", content="theirs")
        snapshot = other.backup().path
    hold.restore(snapshot)
    assert (titles(hold), hold.verify().node, hold.verify().intact) == ({"Theirs"}, node, True)


def test_a_key_revoked_after_the_snapshot_stays_revoked(hold: holdfast.Holdfast) -> None:
    key = hold.key_create(name="laptop", scope="read")
    done = hold.backup()
    hold.key_revoke(key.id)
    hold.restore(done.snapshot)
    assert [isinstance(one.revoked_at, str) for one in hold.key_list().keys] == [True]


def test_a_dry_run_verifies_a_snapshot_and_changes_nothing(hold: holdfast.Holdfast) -> None:
    done = hold.backup()
    hold.store(title="Later", content="later")
    answer = hold.restore(done.snapshot, dry_run=True)
    assert (answer.restored, answer.dry_run, titles(hold), list_leftovers(hold)) == (False, True, {"Later"}, set())
    assert hold.backup_list().count == 1


def write_manifest(snapshot: Path) -> None:
    """Write a matching manifest for a file with any content."""
    manifest = backup.manifest_of(snapshot)
    content = json.loads(manifest.read_bytes())
    content |= {"sha256": sha256(snapshot.read_bytes()).hexdigest(), "bytes": snapshot.stat().st_size}
    manifest.write_text(json.dumps(content))


def without_manifest(snapshot: Path) -> None:
    backup.manifest_of(snapshot).unlink()


def with_a_torn_manifest(snapshot: Path) -> None:
    backup.manifest_of(snapshot).write_text('{"snapshot": "hold')


def with_anothers_manifest(snapshot: Path) -> None:
    manifest = backup.manifest_of(snapshot)
    manifest.write_text(manifest.read_text().replace(snapshot.name, "another.db"))


def with_one_byte_changed(snapshot: Path) -> None:
    content = bytearray(snapshot.read_bytes())
    content[-1] ^= 1
    snapshot.write_bytes(content)


def cut_by_a_page(snapshot: Path) -> None:
    snapshot.write_bytes(snapshot.read_bytes()[:-4096])


def cut_with_new_manifest(snapshot: Path) -> None:
    cut_by_a_page(snapshot)
    write_manifest(snapshot)


def scrambled_with_new_manifest(snapshot: Path) -> None:
    content = bytearray(snapshot.read_bytes())
    for page in range(3, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = os.urandom(64)
    snapshot.write_bytes(content)
    write_manifest(snapshot)


def with_a_broken_index(snapshot: Path) -> None:
    connection = apsw.Connection(str(snapshot))
    connection.execute("update memory_text_data set block = x'00' where id > 10").fetchall()
    connection.close()
    write_manifest(snapshot)


def from_a_later_release(snapshot: Path) -> None:
    connection = apsw.Connection(str(snapshot))
    connection.execute("pragma user_version=99").fetchall()
    connection.close()
    write_manifest(snapshot)


def of_another_program(snapshot: Path) -> None:
    snapshot.unlink()
    connection = apsw.Connection(str(snapshot))
    connection.execute("create table t (x); insert into t values (1)").fetchall()
    connection.close()
    write_manifest(snapshot)


def empty(snapshot: Path) -> None:
    snapshot.write_bytes(b"")
    write_manifest(snapshot)


def of_text(snapshot: Path) -> None:
    snapshot.write_text("no database at all, but long enough to have a header of a hundred bytes or more. " * 9)
    write_manifest(snapshot)


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (without_manifest, "VALIDATION_FAILED"),
        (with_a_torn_manifest, "VALIDATION_FAILED"),
        (with_anothers_manifest, "VALIDATION_FAILED"),
        (with_one_byte_changed, "VALIDATION_FAILED"),
        (cut_by_a_page, "VALIDATION_FAILED"),
        (cut_with_new_manifest, "STORE_DAMAGED"),
        (scrambled_with_new_manifest, "STORE_DAMAGED"),
        (with_a_broken_index, "STORE_DAMAGED"),
        (from_a_later_release, "NEWER_STORE"),
        (of_another_program, "NOT_A_STORE"),
        (empty, "NOT_A_STORE"),
        (of_text, "NOT_A_STORE"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_an_invalid_snapshot_is_refused_and_nothing_changes(hold: holdfast.Holdfast, spoil: Any, code: str) -> None:
    for number in range(30):
        hold.store(title=f"Title {number}", content="some words to index " * 20)
    done = hold.backup()
    spoil(Path(done.path))
    spoilt = Path(done.path).read_bytes()
    hold.store(title="Later", content="later")
    before = content_of(hold)
    with pytest.raises(HoldfastError) as refused:
        hold.restore(done.snapshot)
    assert refused.value.code == code
    assert content_of(hold) == before
    assert (Path(done.path).read_bytes(), list_leftovers(hold)) == (spoilt, set())
    assert hold.ctx.store.faults() == []


def remote(hold: holdfast.Holdfast, name: str, **arguments: Any) -> Any:
    return hold.call(name, arguments, caller=Caller(agent="ai:far@away", source="api"))


def test_a_remote_caller_restores_by_name_and_never_by_path(hold: holdfast.Holdfast, tmp_path: Path) -> None:
    done = hold.backup()
    for path in (done.path, "../memory.db.backups/" + done.snapshot, "/etc/passwd", ".", "~/x", f"./{done.snapshot}"):
        with pytest.raises(Forbidden):
            remote(hold, "restore", **{"from": path})
    with pytest.raises(NotFound):
        remote(hold, "restore", **{"from": "holdfast-20200101T000000.000000Z.db"})
    with pytest.raises(Forbidden):
        remote(hold, "backup", to=str(tmp_path))
    assert remote(hold, "restore", **{"from": done.snapshot}).restored


def test_a_key_limited_to_namespaces_cannot_use_backups(hold: holdfast.Holdfast) -> None:
    done = hold.backup()
    confined = Caller(agent="ai:admin@here", namespaces=("team",))
    for name, arguments in (("backup", {}), ("restore", {"from": done.snapshot})):
        with pytest.raises(Forbidden):
            hold.call(name, arguments, caller=confined)


def test_backups_require_admin_rights(hold: holdfast.Holdfast) -> None:
    writer = Caller(agent="ai:writer@here", right="write")
    for name, arguments in (("backup", {}), ("backup_list", {}), ("restore", {"from": "x"}), ("doctor", {})):
        with pytest.raises(Forbidden):
            hold.call(name, arguments, caller=writer)


def test_a_snapshot_without_a_manifest_is_listed_as_unusable(hold: holdfast.Holdfast) -> None:
    done = hold.backup()
    without_manifest(Path(done.path))
    answer = hold.backup_list()
    assert (answer.snapshots, answer.unusable) == ([], [done.snapshot])
    with pytest.raises(Invalid):
        hold.restore(done.snapshot)


def test_a_directory_whose_newest_snapshot_lacks_a_manifest_is_refused(hold: holdfast.Holdfast) -> None:
    hold.backup()
    newest = hold.backup()
    without_manifest(Path(newest.path))
    with pytest.raises(Invalid, match=newest.snapshot):
        hold.restore(str(backups_of(hold)))


def test_concurrent_snapshots_do_not_overwrite_each_other(db: str) -> None:
    with holdfast.open(db, agent_id="ai:tester@here", now=lambda: 1_790_000_000_000_000) as hold:
        hold.store("One", "first")
        with ThreadPoolExecutor(4) as pool:
            made = list(pool.map(lambda _: hold.backup().snapshot, range(4)))
        assert sorted(made) == sorted({one.snapshot for one in hold.backup_list().snapshots})
        assert len(set(made)) == 4
