"""Workers: every handler ends with a result or an error, and no process outlives its attempt."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.features.tasks import subprocess_runner
from holdfast.features.tasks.worker import Worker, WorkerOptions
from timeouts import TIMEOUT, wait_until

PAST = "2020-01-31T09:00"


@pytest.fixture
def engine() -> str:
    return "sqlite"


def work(hold: holdfast.Holdfast, db: str, **more: Any) -> list[str]:
    """Run a worker until nothing is due; returns its log lines."""
    told: list[str] = []
    Worker(hold.ctx, WorkerOptions("w", db, handlers=("webhook", "command", "python", "job"), **more), told.append).run(
        once=True
    )
    return told


def run_command(hold: holdfast.Holdfast, db: str, command: str, **more: Any) -> Any:
    """Run a command task; returns its only run."""
    task = hold.task_add(title=command[:50], due_at=PAST, handler="command", target=command, **more).task
    work(hold, db)
    (run,) = hold.task_runs(id=task.id).runs
    return run


def test_a_command_receives_its_task_and_its_output_is_the_result(hold: holdfast.Holdfast, db: str) -> None:
    run = run_command(hold, db, "cat", payload={"to": "ann"})
    assert run.status == "completed"
    said = msgspec.json.decode(run.result)
    assert (said["title"], said["payload"], said["attempt"]) == ("cat", {"to": "ann"}, 1)
    assert said["occurrence"].startswith(said["id"])


def test_a_failing_command_reports_why(hold: holdfast.Holdfast, db: str) -> None:
    run = run_command(hold, db, "echo begun; echo 'no such account' >&2; exit 3")
    assert (run.status, run.error, run.result) == ("failed", "no such account", "begun\n")
    assert run_command(hold, db, "exit 4").error == "Exit code 4."
    assert run_command(hold, db, "kill -9 $$").error == "Exit code -9."


def test_a_command_that_times_out_is_killed_with_its_children(
    hold: holdfast.Holdfast, db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess_runner, "GRACE_SECONDS", 0.3)
    pids = tmp_path / "pids"
    run = run_command(hold, db, f"trap '' TERM; sleep 300 & echo $! $$ > {pids}; wait; sleep 300", timeout=1)
    assert run.error == "It took longer than 1 seconds."
    for pid in pids.read_text().split():
        wait_until(partial(has_ended, int(pid)))


def test_background_processes_of_a_command_are_killed_when_it_ends(
    hold: holdfast.Holdfast, db: str, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    run = run_command(hold, db, f"(trap '' HUP TERM; sleep 300) & echo $! > {pids}; echo done")
    assert (run.status, run.result) == ("completed", "done\n")
    wait_until(lambda: has_ended(int(pids.read_text())))


def test_processes_that_leave_the_process_group_are_killed_too(
    hold: holdfast.Holdfast, db: str, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    run = run_command(
        hold, db, f"setsid sh -c 'echo $$ > {pid}; exec sleep 300' & while [ ! -s {pid} ]; do :; done; exit 3"
    )
    assert run.error == "Exit code 3."
    wait_until(lambda: has_ended(int(pid.read_text())))


def has_ended(pid: int) -> bool:
    """Whether a process has ended; a zombie counts as ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_only_the_beginning_of_the_output_is_stored(hold: holdfast.Holdfast, db: str) -> None:
    run = run_command(hold, db, "head -c 50000000 /dev/zero | tr '\\0' x")
    assert run.result == "x" * subprocess_runner.MAX_OUTPUT_BYTES


def test_a_command_does_not_receive_the_keys_of_the_worker(
    hold: holdfast.Holdfast, db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_API_KEY", "secret-of-the-worker")
    assert "secret-of-the-worker" not in run_command(hold, db, "env").result


def test_a_job_is_a_holdfast_command(
    hold: holdfast.Holdfast, db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "holdfast.py").write_text("raise SystemExit('of the folder that a worker was started in')")
    monkeypatch.chdir(tmp_path)
    task = hold.task_add(
        title="Collect", due_at=PAST, handler="job", target="gc", payload={"arguments": ["--json"]}, repeat="daily"
    ).task
    work(hold, db)
    (run,) = hold.task_runs(id=task.id).runs
    assert (run.status, run.error) == ("completed", None)
    assert isinstance(msgspec.json.decode(run.result), dict)
    other = hold.task_add(title="Harm", due_at=PAST, handler="job", target="delete").task
    work(hold, db)
    assert "must be one of" in hold.task_runs(id=other.id).runs[0].error


def test_an_interrupted_worker_leaves_no_process_behind(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    def interrupt() -> None:
        if pid.exists():
            raise KeyboardInterrupt

    words = ["/bin/sh", "-c", f"echo $$ > '{pid}.new'; mv '{pid}.new' '{pid}'; sleep 600"]
    with pytest.raises(KeyboardInterrupt):
        subprocess_runner.run_program(words, stdin=b"", environment={}, timeout=600, stop=interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_job_runs_the_local_hooks(
    hold: holdfast.Holdfast, db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = 'event = "pre_store"\ncommand = ["echo", \'{"decision": "deny", "reason": "not now"}\']\non_error = "deny"\n'
    (tmp_path / "config.toml").write_text(f"[[hooks]]\n{hook}")
    monkeypatch.setenv("HOLDFAST_CONFIG", str(tmp_path / "config.toml"))
    task = hold.task_add(title="Tidy", due_at=PAST, handler="job", target="curate").task
    work(hold, db)
    assert "refuses this: not now [HOOK_DENIED]" in hold.task_runs(id=task.id).runs[0].error
    assert hold.curate_runs().count == 0


def test_a_python_handler_is_found_by_name(
    hold: holdfast.Holdfast, db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "handlers-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: handlers\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[holdfast.handlers]\ngreet = greeting:greet\nleave = greeting:leave\n")
    (tmp_path / "greeting.py").write_text(
        "import os\n\ndef greet(task):\n    return 'hello ' + task['payload']['name']\n\n"
        "def leave(task):\n    os._exit(7)\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    made = {
        name: hold.task_add(title=name, due_at=PAST, handler="python", target=name, payload={"name": "ann"}).task.id
        for name in ("greet", "leave", "nobody")
    }
    work(hold, db)
    ended = {name: hold.task_runs(id=id).runs[0] for name, id in made.items()}
    assert ended["greet"].result == "hello ann"
    assert ended["leave"].error == "Exit code 7."
    assert "No handler 'nobody'" in ended["nobody"].error


@contextmanager
def serve_hook(status: int) -> Iterator[tuple[str, list[tuple[str, dict[str, Any]]]]]:
    heard: list[tuple[str, dict[str, Any]]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            heard.append((self.headers["Idempotency-Key"], msgspec.json.decode(body)))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook", heard
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(("status", "ends"), [(204, "completed"), (500, "failed"), (302, "failed")])
def test_a_webhook_is_called_once_per_attempt(hold: holdfast.Holdfast, db: str, status: int, ends: str) -> None:
    with serve_hook(status) as (url, heard):
        task = hold.task_add(title="Tell", due_at=PAST, handler="webhook", target=url).task
        work(hold, db)
    (run,) = hold.task_runs(id=task.id).runs
    assert run.status == ends
    assert [(key.split(":")[0], said["title"]) for key, said in heard] == [(task.id, "Tell")]


def test_a_stopping_worker_releases_unfinished_tasks(
    hold: holdfast.Holdfast, db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess_runner, "GRACE_SECONDS", 0.3)
    mark = tmp_path / "begun"
    task = hold.task_add(title="Long", due_at=PAST, handler="command", target=f"touch {mark}; sleep 300").task
    worker = Worker(hold.ctx, WorkerOptions("w", db, handlers=("command",)))
    thread = threading.Thread(target=worker.run)
    thread.start()
    wait_until(mark.exists)
    worker.stop()
    thread.join(TIMEOUT)
    left = hold.task_show(id=task.id)
    assert (left.state, left.attempts) == ("pending", 0)
    assert hold.task_runs(id=task.id).count == 0


def test_a_task_cancelled_while_running_ends_soon(hold: holdfast.Holdfast, db: str, tmp_path: Path) -> None:
    mark = tmp_path / "begun"
    task = hold.task_add(title="Long", due_at=PAST, handler="command", target=f"touch {mark}; sleep 300").task
    worker = Worker(hold.ctx, WorkerOptions("w", db, lease=3, handlers=("command",)))
    thread = threading.Thread(target=lambda: worker.run(once=True))
    thread.start()
    wait_until(mark.exists)
    hold.task_cancel(id=task.id)
    thread.join(TIMEOUT)
    assert hold.task_show(id=task.id).state == "cancelled"
    assert hold.task_runs(id=task.id).runs[0].error == "The task was cancelled."
