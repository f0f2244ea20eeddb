"""A restore replaces everything or nothing; an invalid snapshot is refused."""

import json
import os
import shutil
import signal
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import pytest
from snapshots import WRITER, backups_of, child, content_of, cut_by_a_page, without_manifest

import holdfast
from holdfast.features.admin import backup
from holdfast.kernel.errors import HoldfastError
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


KILLED = """
import os, signal, sys, holdfast
from holdfast.kernel.journal import journal
journal.start_incarnation = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
with holdfast.open(sys.argv[1], agent_id="ai:killed@here", now=lambda: int(sys.argv[3])) as hold:
    hold.restore(sys.argv[2])
"""


def titles(hold: holdfast.Holdfast) -> set[str]:
    return {row["title"] for row in hold.export()["memories"]}


def list_leftovers(hold: holdfast.Holdfast) -> set[str]:
    """Return leftover files beside a store."""
    backups = backups_of(hold)
    name = backups.name.removesuffix(".backups")
    known = {f"{name}{end}" for end in ("", "-wal", "-shm", ".key", ".backups")} | {"config", "data"}
    return {file.name for file in backups.parent.iterdir()} - known


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
    assert [one.revoked_at is not None for one in hold.key_list().keys] == [True]


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


def with_a_torn_manifest(snapshot: Path) -> None:
    backup.manifest_of(snapshot).write_text('{"snapshot": "hold')


def with_anothers_manifest(snapshot: Path) -> None:
    manifest = backup.manifest_of(snapshot)
    manifest.write_text(manifest.read_text().replace(snapshot.name, "another.db"))


def with_one_byte_changed(snapshot: Path) -> None:
    content = bytearray(snapshot.read_bytes())
    content[-1] ^= 1
    snapshot.write_bytes(content)


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
