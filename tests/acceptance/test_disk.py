"""Full or failing disks: every call is acknowledged and durable, or fails without effect; then the store recovers."""

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from disks import RefusedCalls, RefusedSyncs

from holdfast.app import Holdfast
from holdfast.features.history import service as history
from holdfast.kernel.context import Caller, Context
from holdfast.kernel.errors import HoldfastError, StoreError, StoreFull
from holdfast.kernel.storage.sqlite.open_store import open_store
from holdfast.settings import Settings
from timeouts import TIMEOUT


def once(at: int) -> Callable[[int], bool]:
    return lambda number: number == at


def from_call(at: int) -> Callable[[int], bool]:
    return lambda number: number >= at


def open_store_at(path: Path, vfs: str = "") -> Holdfast:
    return Holdfast(Context(store=open_store(path, vfs), caller=Caller(agent="ai:tester@here")), Settings())


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    with closing(open_store_at(folder / "memory.db")) as hold:
        for name in ("read", "changed", "deleted"):
            hold.store(title=name, content="as it was " * 100, tier="mid")
    return folder


class Call(NamedTuple):
    """A call to a store, and how to see its effect."""

    name: str
    arguments: dict[str, Any]
    titles: tuple[str, ...]
    """Return what shows its effect."""


TEXT = "as it is now " * 400
CALLS = (
    Call("store", {"title": "one", "content": TEXT}, ("one",)),
    Call("update", {"id": "CHANGED", "title": "changed again", "content": TEXT}, ("changed again",)),
    Call("bulk_store", {"memories": [{"title": t, "content": TEXT} for t in "abcdef"]}, tuple("abcdef")),
    Call("update", {"id": "DELETED", "title": "to be deleted"}, ("to be deleted",)),
    Call("store", {"title": "last", "content": TEXT}, ("last",)),
)


def titles(hold: Holdfast) -> set[str]:
    return {memory.title for memory in hold.list(limit=200).memories}


def attempt(hold: Holdfast, ids: dict[str, str], call: Call) -> bool:
    """Make a call; return whether it was acknowledged. Its effect is complete or absent in either case."""
    arguments = {key: ids.get(str(value), value) for key, value in call.arguments.items()}
    try:
        hold.call(call.name, arguments)
        done = True
    except StoreError:
        done = False
    found = titles(hold)
    assert {title in found for title in call.titles} == {done}, (
        f"{call.name}: acknowledged {done}, found {sorted(found)}"
    )
    assert "read" in found
    return done


def assert_whole(hold: Holdfast, expected: set[str]) -> None:
    assert titles(hold) == expected
    assert hold.ctx.store.faults() == []
    with hold.ctx.reading() as session:
        assert history.verify(hold.ctx, session) == []


def expected_after(outcomes: list[bool]) -> set[str]:
    found = {"read", "changed", "deleted"}
    for call, done in zip(CALLS, outcomes, strict=True):
        if done:
            found |= set(call.titles)
            found -= {"changed"} if "changed again" in call.titles else set()
            found -= {"deleted"} if "to be deleted" in call.titles else set()
    return found


def copy_files(path: Path, folder: Path) -> Path:
    """Copy the files as a kill would leave them, without shared memory."""
    folder.mkdir()
    for beside in ("", "-wal", ".key"):
        if Path(f"{path}{beside}").exists():
            shutil.copy(f"{path}{beside}", f"{folder / path.name}{beside}")
    return folder / path.name


def scenario(template: Path, folder: Path, vfs: str, failing: AbstractContextManager[object]) -> tuple[int, int]:
    """Make all calls on a failing disk and check the effects; return the numbers of successes and failures."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template, folder)
    path = folder / "memory.db"
    hold = open_store_at(path, vfs)
    ids = {memory.title.upper(): memory.id for memory in hold.list(limit=10).memories}
    hold.promote(id=ids["READ"], target_tier="long")
    with failing:
        outcomes = [attempt(hold, ids, call) for call in CALLS]
        killed = copy_files(path, folder / "killed")
    with closing(open_store_at(killed)) as anew:
        assert_whole(anew, expected_after(outcomes))
    hold.store(title="afterwards", content="The same process goes on.")
    expected = expected_after(outcomes) | {"afterwards"}
    assert_whole(hold, expected)
    hold.close()
    with closing(open_store_at(path)) as again:
        assert_whole(again, expected)
    return outcomes.count(True), outcomes.count(False)


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory if possible: failures are injected, so that real syncs would only take time."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


REFUSALS = [
    pytest.param(errno.ENOSPC, once, 5, id="full, once"),
    pytest.param(errno.ENOSPC, from_call, 7, id="full, from there on"),
    pytest.param(errno.EIO, once, 7, id="failing, once"),
    pytest.param(errno.EIO, from_call, 9, id="failing, from there on"),
]


@pytest.mark.full
@pytest.mark.parametrize(("error", "when", "step"), REFUSALS)
def test_a_refused_write_is_an_error_and_writes_nothing(
    template: Path, quick: Path, error: int, when: Callable[[int], Callable[[int], bool]], step: int
) -> None:
    """Fail at every few writes and truncations, until there are no more."""
    failed = 0
    for at in range(1, 2000, step):
        calls = RefusedCalls(error, when(at))
        _, refused = scenario(template, quick / "store", "", calls)
        if not calls.refused:
            break
        failed += refused
    assert at > 150
    assert failed > 25


def read_much(hold: Holdfast) -> None:
    """From the disk, not from a connection's cache."""
    for _ in range(100):
        hold.list(limit=10)
        hold.recall(context="as it was")
        hold.ctx.store.close()


@pytest.mark.parametrize("error", [errno.EIO, errno.EBADF], ids=["failing disk", "other reason"])
@pytest.mark.parametrize("at", range(1, 15, 2))
def test_a_refused_read_is_reported_once_and_later_reads_succeed(
    template: Path, tmp_path: Path, at: int, error: int
) -> None:
    shutil.copytree(template, tmp_path / "store")
    with closing(open_store_at(tmp_path / "store" / "memory.db")) as hold:
        with RefusedCalls(error, once(at), RefusedCalls.READS) as calls, pytest.raises(StoreError) as error_info:
            read_much(hold)
        assert calls.refused == 1
        assert "rollback" not in error_info.value.message
        assert titles(hold) >= {"read", "changed", "deleted"}
        hold.store(title="Afterwards", content="The same process goes on.")
        assert_whole(hold, titles(hold))


@pytest.mark.parametrize("when", [once, from_call])
@pytest.mark.parametrize("at", range(1, 6))
def test_a_commit_with_a_refused_sync_is_an_error_and_writes_nothing(
    template: Path, quick: Path, at: int, when: Callable[[int], Callable[[int], bool]]
) -> None:
    disk = RefusedSyncs(when(at))
    acknowledged, _ = scenario(template, quick / "store", disk.name, disk)
    assert disk.refused
    assert acknowledged == (4 if when is once else at - 1)


WRITER = """
import sys, holdfast
from holdfast.kernel.errors import StoreError
def attempt(number):
    try:
        hold.store(title=f"t{number}", content="word " * 3000)
        print("kept", number, flush=True)
    except StoreError as error:
        print("failed", number, type(error).__name__, flush=True)
hold = holdfast.open(sys.argv[1])
for number in range(40):
    attempt(number)
try:
    hold.close()
except StoreError:
    pass
"""


def run_traced(path: Path, inject: str) -> list[list[str]]:
    """Run a writing process while the kernel injects errors; return its report of each call."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    command = [strace, "-f", "-o", "/dev/null", "-e", f"inject={inject}", sys.executable, "-c", WRITER, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    if "Operation not permitted" in done.stderr or "ptrace" in done.stderr:
        pytest.skip("strace is not permitted")
    assert "Traceback" not in done.stderr, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.full
@pytest.mark.parametrize(
    "inject",
    [
        "fdatasync,fsync:error=EIO:when=9",
        "fdatasync,fsync:error=EIO:when=12..20+4",
        "fdatasync,fsync:error=EIO:when=30+",
        "pwrite64:error=ENOSPC:when=300+",
        "pwrite64:error=EIO:when=400..2000+37",
    ],
)
def test_a_refused_system_call_is_reported_and_the_write_is_absent_for_the_next_process(
    template: Path, tmp_path: Path, inject: str
) -> None:
    shutil.copytree(template, tmp_path / "store")
    path = tmp_path / "store" / "memory.db"
    reports = run_traced(path, inject)
    assert len(reports) == 40
    with closing(open_store_at(path)) as hold:
        stored_titles = {f"t{number}" for outcome, number, *_ in reports if outcome == "kept"}
        assert_whole(hold, stored_titles | {"read", "changed", "deleted"})
        hold.store(title="afterwards", content="Another process goes on.")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system with four megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True)
    if made.returncode:
        pytest.skip("only root may mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_reported_reads_continue_and_freed_space_is_used(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(300_000))
    hold = open_store_at(small_disk / "memory.db")
    kept: list[str] = []

    def fill() -> None:
        while True:
            kept.append(hold.store(title=f"Title {len(kept)}", content="word " * 1000).id)

    with pytest.raises(StoreFull):
        fill()
    assert kept
    for id in kept:
        assert hold.get(id=id).content == "word " * 1000
    assert hold.recall(context="word").count
    with pytest.raises(StoreFull):
        hold.store(title="Large", content="word " * 10_000)
    ballast.unlink()
    after = hold.store(title="After", content="Space returned.").id
    assert_whole(hold, {f"Title {number}" for number in range(len(kept))} | {"After"})
    hold.close()
    with closing(open_store_at(small_disk / "memory.db")) as again:
        assert {memory.id for memory in again.list(limit=200).memories} == {*kept, after}


def test_a_disk_full_from_the_start_is_reported_and_used_once_it_has_space(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    with pytest.raises(OSError, match="No space"):
        ballast.write_bytes(bytes(5_000_000))
    with pytest.raises(StoreError):
        open_store_at(small_disk / "memory.db").store(title="One", content="first")
    os.truncate(ballast, 0)
    with closing(open_store_at(small_disk / "memory.db")) as hold:
        hold.store(title="One", content="first")
        assert_whole(hold, {"One"})


@pytest.mark.full
def test_a_snapshot_that_does_not_fit_leaves_no_file(small_disk: Path, tmp_path: Path) -> None:
    with closing(open_store_at(tmp_path / "memory.db")) as hold:
        for number in range(60):
            hold.store(title=f"Title {number}", content=str(number % 10) * 60_000)
        with pytest.raises(StoreFull):
            hold.ctx.store.snapshot(small_disk / "copy.db")
        assert list(small_disk.iterdir()) == []
        assert_whole(hold, {f"Title {number}" for number in range(60)})


def test_a_new_key_file_is_complete_or_absent(small_disk: Path) -> None:
    """The key is lost, and there is no space for a new one."""
    hold = open_store_at(small_disk / "memory.db")
    (small_disk / "memory.db.key").unlink()
    ballast = small_disk / "ballast"
    with pytest.raises(OSError, match="No space"):
        ballast.write_bytes(bytes(5_000_000))
    with pytest.raises(HoldfastError):
        hold.store(title="One", content="first")
    assert list(small_disk.glob("*.key*")) == []
    ballast.unlink()
    hold.store(title="One", content="first")
    assert_whole(hold, {"One"})
    hold.close()
