"""The CLI with bad store paths or unreachable servers: one clear error, no changes."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.kernel.errors import InvalidSetting
from holdfast.kernel.storage.open_by_address import open_store
from timeouts import TIMEOUT

pytestmark = pytest.mark.full

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a command as a user would, in an empty directory."""
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "here").mkdir()

    def command(*words: str, **more: Any) -> "subprocess.CompletedProcess[bytes]":
        environment = {**os.environ, "HOME": str(home), **more.pop("env", {})}
        for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", *more.pop("without", ())):
            environment.pop(name, None)
        process = [sys.executable, "-c", "from holdfast.__main__ import main; main()", *words]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        done = subprocess.run(process, env=environment, cwd=tmp_path / "here", timeout=TIMEOUT, **{**pipes, **more})
        assert b"Traceback" not in (done.stderr or b""), done.stderr.decode()
        return done

    return command


def read_error(done: "subprocess.CompletedProcess[bytes]") -> tuple[int, str]:
    """Return exit code and error code; stdout is empty, stderr is one line of JSON."""
    assert done.stdout == b""
    return done.returncode, json.loads(done.stderr)["code"]


def contents(folder: Path) -> dict[str, str]:
    return {
        str(file): sha256(file.read_bytes()).hexdigest() if file.is_file() else "" for file in sorted(folder.rglob("*"))
    }


STORE = ("store", "--json", "-T", "Title", "-c", "content")
READ = ("list", "--json")


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda path: path.symlink_to("/dev/full"), "STORE_UNREACHABLE"),
        (lambda path: path.mkdir(), "STORE_UNREACHABLE"),
        (lambda path: path.symlink_to(path), "STORE_UNREACHABLE"),
        (lambda path: os.mkfifo(path), "STORE_UNREACHABLE"),
        (lambda path: path.write_text("A letter to a friend.\n" * 500), "NOT_A_STORE"),
        (lambda path: path.write_text("x"), "NOT_A_STORE"),
        (lambda path: path.write_bytes(b"SQLite format 3\x00" + bytes(4080)), "NOT_A_STORE"),
        (lambda path: write_truncated_store(path), "STORE_DAMAGED"),
    ],
    ids=["a device", "a folder", "a circle", "a pipe", "a letter", "a byte", "a forged head", "a page cut off"],
)
def test_a_file_that_is_not_a_store_is_refused_unchanged(
    run: Run, tmp_path: Path, make: Callable[[Path], Any], code: str
) -> None:
    path = tmp_path / "memory.db"
    make(path)
    before = contents(tmp_path)
    assert read_error(run(*STORE, "--db", str(path))) == (5, code)
    assert contents(tmp_path) == before


def write_truncated_store(path: Path) -> None:
    with holdfast.open(str(path)) as hold:
        hold.bulk_store(memories=[{"title": f"Title {n}", "content": "text " * 200} for n in range(50)])
    os.truncate(path, path.stat().st_size - 4096)


def test_device_paths_are_refused(run: Run) -> None:
    for name in ("/dev/full", "/dev/null", "/dev/zero"):
        assert read_error(run(*STORE, "--db", name)) == (5, "STORE_UNREACHABLE")


@pytest.mark.parametrize("path", ["", "postgres://here/memory", "file/below", "x" * 300])
def test_an_invalid_path_is_refused(run: Run, tmp_path: Path, path: str) -> None:
    (tmp_path / "here" / "file").touch()
    code, name = read_error(run(*STORE, "--db", path))
    assert (code, name) in [(78, "MISCONFIGURED"), (5, "STORE_UNREACHABLE")]


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A read-only file system with a store."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], capture_output=True).returncode:
        pytest.skip("only root may mount")
    with holdfast.open(str(folder / "memory.db")) as hold:
        hold.store(title="Kept", content="before")
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("name", ["memory.db", "new.db", "new/memory.db"])
def test_an_unwritable_disk_is_reported(run: Run, read_only: Path, name: str) -> None:
    before = contents(read_only)
    assert read_error(run(*STORE, "--db", str(read_only / name))) == (5, "STORE_UNREACHABLE")
    assert contents(read_only) == before


def test_a_store_without_its_log_keeps_the_checkpointed_data(run: Run, tmp_path: Path) -> None:
    with holdfast.open(str(tmp_path / "memory.db")) as hold:
        hold.store(title="Kept", content="in the file")
    with holdfast.open(str(tmp_path / "memory.db")) as hold:
        hold.store(title="In the log", content="which is lost")
        for beside in ("", ".key"):
            shutil.copy(f"{tmp_path}/memory.db{beside}", f"{tmp_path}/copy.db{beside}")
    listed = json.loads(run(*READ, "--db", str(tmp_path / "copy.db")).stdout)
    assert [memory["title"] for memory in listed["memories"]] == ["Kept"]
    assert run("verify", "--json", "--db", str(tmp_path / "copy.db")).returncode == 0


# No home directory, no reader of the output


def test_an_empty_home_variable_counts_as_no_home(run: Run, tmp_path: Path) -> None:
    assert read_error(run(*STORE, env={"HOME": ""})) == (78, "MISCONFIGURED")
    assert list((tmp_path / "here").iterdir()) == []


def test_without_a_home_the_store_must_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import pwd

    def nobody(user: int) -> None:
        raise KeyError(user)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(InvalidSetting):
        open_store(None)
    open_store(str(tmp_path / "memory.db")).close()


def test_a_named_store_needs_no_home(run: Run, tmp_path: Path) -> None:
    done = run(*STORE, "--db", str(tmp_path / "memory.db"), env={"HOME": ""})
    assert (done.returncode, done.stderr) == (0, b"")


def closing(*handles: int) -> Callable[[], None]:
    def close() -> None:
        for handle in handles:
            os.close(handle)

    return close


def test_closed_standard_input_fails_only_commands_that_read_it(run: Run, tmp_path: Path) -> None:
    db = str(tmp_path / "memory.db")
    assert run(*STORE, "--db", db, stdin=None, preexec_fn=closing(0)).returncode == 0
    words = ("store", "--json", "--db", db, "-T", "From input", "-c", "-")
    assert read_error(run(*words, stdin=None, preexec_fn=closing(0))) == (2, "VALIDATION_FAILED")


@pytest.mark.parametrize("handles", [(1,), (1, 2), (0, 1, 2)], ids=["output", "output and errors", "everything"])
def test_a_store_with_closed_standard_streams_succeeds(run: Run, tmp_path: Path, handles: tuple[int, ...]) -> None:
    db = str(tmp_path / "memory.db")
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"))
    run(*STORE, "--db", db, preexec_fn=closing(*handles), **pipes)
    with holdfast.open(db) as hold:
        assert [memory.title for memory in hold.list().memories] == ["Title"]


@pytest.fixture
def large_store(tmp_path: Path) -> str:
    with holdfast.open(str(tmp_path / "memory.db")) as hold:
        hold.bulk_store(memories=[{"title": f"Café {n}", "content": "naïve " * 400} for n in range(150)])
    return str(tmp_path / "memory.db")


@pytest.mark.parametrize("form", [("--json",), ()], ids=["json", "text"])
@pytest.mark.parametrize("command", ["list", "events"])
def test_a_closed_output_pipe_is_not_an_error(run: Run, large_store: str, command: str, form: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = run(command, "--db", large_store, "--limit", "100", *form, stdout=write)
    finally:
        os.close(write)
    assert done.stderr == b""


@pytest.mark.parametrize("form", [("--json",), ()], ids=["json", "text"])
def test_a_failed_write_of_the_output_is_an_error(run: Run, large_store: str, form: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        done = run("list", "--db", large_store, "--limit", "100", *form, stdout=full)
    assert done.returncode == 1
    assert b"Cannot write the output" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("locale", [{"LC_ALL": "C", "PYTHONUTF8": "0"}, {"PYTHONIOENCODING": "ascii"}])
def test_stored_text_can_be_read_in_any_locale(run: Run, large_store: str, locale: dict[str, str]) -> None:
    shown = run("list", "--db", large_store, "--limit", "3", env=locale)
    assert (shown.returncode, shown.stderr) == (0, b"")
    listed = run("list", "--db", large_store, "--limit", "3", "--json", env=locale)
    assert json.loads(listed.stdout.decode())["memories"][0]["title"].startswith("Café")
