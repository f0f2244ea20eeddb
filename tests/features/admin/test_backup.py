"""Snapshots are consistent while others write; restore verifies them and applies to every process at once."""

import json
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import pytest
from snapshots import WRITER, backups_of, child, content_of, cut_by_a_page, without_manifest

import holdfast
from holdfast.features.admin import backup
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import Forbidden, HoldfastError, Invalid, NotFound
from holdfast.kernel.timestamps import DAY, SECOND, format_datetime


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
        "created_at": format_datetime(done.created_at),
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
