"""Worker: claims due tasks, runs their handlers and records the results. Several can share a store."""

import os
import threading
from collections.abc import Callable, Mapping
from time import monotonic
from typing import NamedTuple

import msgspec

from holdfast.features.tasks import service as tasks
from holdfast.features.tasks import subprocess_runner
from holdfast.features.tasks.model import Handler, Task
from holdfast.features.tasks.service import AttemptResult
from holdfast.features.tasks.store import TaskFilter
from holdfast.kernel.context import Context
from holdfast.kernel.errors import HoldfastError, InvalidSetting, LeaseLost
from holdfast.kernel.net.failure import RequestFailure
from holdfast.kernel.net.http_client import JsonClient
from holdfast.kernel.net.provider_settings import parse_provider_url
from holdfast.kernel.timestamps import SECOND, format_timestamp

JOBS: dict[str, tuple[str, ...]] = {
    "gc": ("gc",),
    "reaper": ("conversation", "reap"),
    "consolidate": ("conversation", "consolidate"),
    "curate": ("curate", "--apply"),
    "reembed": ("reembed",),
    "backup": ("backup",),
}
"""Maintenance jobs and their Holdfast commands."""
STOPPING = "The worker is stopping."
POLL_SECONDS = 1.0
"""Maximum interval between checks for due tasks."""
SECRET_VARIABLES = (
    "HOLDFAST_API_KEY",
    "HOLDFAST_MCP_KEY",
    "HOLDFAST_KEY",
    "HOLDFAST_LLM_KEY",
    "HOLDFAST_EMBEDDING_KEY",
    "HOLDFAST_SYNC_API_KEY",
)
"""Environment variables hidden from commands."""

LogCallback = Callable[[str], None]
"""Receives one line per worker event."""


class WorkerOptions(NamedTuple):
    """Settings of a worker."""

    owner: str
    db: str
    """Store address passed to jobs."""
    slots: int = 4
    """Concurrent tasks."""
    lease: int = 60
    """Lease length in seconds; heartbeats extend it."""
    handlers: tuple[Handler, ...] = ("webhook", "job")
    """Allowed handlers."""


class Worker:
    """Runs tasks until stopped. Running tasks then get a grace period."""

    def __init__(self, ctx: Context, options: WorkerOptions, log: LogCallback = lambda line: None) -> None:
        self._ctx = ctx
        self._options = options
        self._log = log
        self._stop = threading.Event()
        self._woken = threading.Event()
        self._busy: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()

    def stop(self) -> None:
        self._stop.set()
        self._woken.set()

    def run(self, *, once: bool = False) -> int:
        """Run until stopped or, with `once`, until nothing is due. Returns the number of claimed tasks."""
        count = 0
        while not self._stop.is_set():
            got = self._claim_and_start()
            count += got
            if once and not got and not self._busy:
                break
            if not got:
                self._woken.wait(self._wait_seconds())
                self._woken.clear()
        self._drain()
        return count

    def _claim_and_start(self) -> int:
        """Claim as many tasks as there are free slots and start them."""
        with self._lock:
            free = self._options.slots - len(self._busy)
        if free <= 0:
            return 0
        which = TaskFilter(handlers=self._options.handlers)
        try:
            found = tasks.claim_tasks(self._ctx, self._options.owner, free, self._options.lease, which)
        except HoldfastError as error:
            if not error.retryable:
                raise
            self._log(f"cannot claim: {error.message}")
            return 0
        for task in found:
            self._start(task)
        return len(found)

    def _start(self, task: Task) -> None:
        thread = threading.Thread(target=self._run_task, args=(task,), name=f"holdfast-task-{task.id[:8]}", daemon=True)
        with self._lock:
            self._busy[task.id] = thread
        thread.start()

    def _wait_seconds(self) -> float:
        """Seconds until the next task is due, capped by the poll interval."""
        with self._lock:
            full = len(self._busy) >= self._options.slots
        ready = None if full else tasks.find_next_ready(self._ctx)
        until = POLL_SECONDS if ready is None else (ready - self._ctx.now()) / SECOND
        return min(max(until, 0.05), POLL_SECONDS)

    def _drain(self) -> None:
        with self._lock:
            running = list(self._busy.values())
        for thread in running:
            thread.join(subprocess_runner.GRACE_SECONDS * 2)

    def _run_task(self, task: Task) -> None:
        try:
            self._run_attempt(task)
        except HoldfastError as error:
            self._log(f"{task.id[:8]} {task.title!r}: {error.message}")
        finally:
            with self._lock:
                self._busy.pop(task.id, None)
            self._woken.set()

    def _run_attempt(self, task: Task) -> None:
        """Run one attempt under a heartbeat and finish it, unless the lease was lost or the worker is stopping."""
        with _Heartbeat(self._ctx, task, self._options.lease) as pulse:
            how = _run_handler(
                task, self._options, lambda: pulse.stop_reason or (STOPPING if self._stop.is_set() else None)
            )
        if pulse.is_lost:
            self._log(f"{task.id[:8]} {task.title!r}: its lease was lost")
        elif self._stop.is_set() and how.error == STOPPING:
            tasks.release_task(self._ctx, task.id, task.token)
        else:
            tasks.finish_task(self._ctx, task.id, task.token, how)
            self._log(f"{task.id[:8]} {task.title!r}: {how.error or 'done'}")


class _Heartbeat:
    """Extends the lease of a running task until it ends."""

    def __init__(self, ctx: Context, task: Task, lease: int) -> None:
        self._ctx = ctx
        self._task = task
        self._lease = lease
        self._over = threading.Event()
        self._until = monotonic() + lease
        self.stop_reason: str | None = None
        """Why the task must stop early."""
        self.is_lost = False
        self._thread = threading.Thread(target=self._extend_leases, name="holdfast-pulse", daemon=True)

    def __enter__(self) -> "_Heartbeat":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _extend_leases(self) -> None:
        while not self._over.wait(self._lease / 3):
            try:
                is_cancelled = tasks.extend_lease(self._ctx, self._task.id, self._task.token, self._lease)
                self._until = monotonic() + self._lease
                if is_cancelled:
                    self.stop_reason = "The task was cancelled."
            except LeaseLost:
                self.stop_reason, self.is_lost = "The lease was lost.", True
                return
            except HoldfastError:
                if monotonic() > self._until:
                    self.stop_reason, self.is_lost = "The lease was lost.", True
                    return


def _run_handler(task: Task, options: WorkerOptions, stop: Callable[[], str | None]) -> AttemptResult:
    """Run the handler of a task. Failures become an error result."""
    try:
        match task.handler:
            case "webhook":
                return AttemptResult(result=_post_webhook(task))
            case "command":
                return _run_command(task, ["/bin/sh", "-c", task.target], _environment_without_secrets(), stop)
            case "python":
                argv = subprocess_runner.python_command("-m", "holdfast.features.tasks.run_handler", task.target)
                return _run_command(task, argv, _environment_without_secrets(), stop)
            case "job":
                argv = subprocess_runner.python_command("-m", "holdfast", *_job_command(task))
                return _run_command(task, argv, {**os.environ, "HOLDFAST_DB": options.db}, stop)
            case "none":
                return AttemptResult(error="The task has no handler.")
    except (HoldfastError, OSError) as error:
        return AttemptResult(error=str(error))


def _job_command(task: Task) -> list[str]:
    """Command of a job, plus `arguments` from the payload."""
    more = task.payload.get("arguments", [])
    if task.target not in JOBS or not isinstance(more, list) or not all(isinstance(word, str) for word in more):
        raise InvalidSetting(f"target: a job must be one of {', '.join(JOBS)} (got {task.target!r}).")
    return [*JOBS[task.target], *more]


def _post_webhook(task: Task) -> str:
    headers = {"Idempotency-Key": _occurrence_key(task)}
    post = JsonClient(
        parse_provider_url("webhook", task.target),
        settings="webhook",
        headers=headers,
        timeout=task.timeout,
        allow_empty=True,
    )
    try:
        return post("", encode_task(task))[: subprocess_runner.MAX_OUTPUT_BYTES].decode("utf-8", "replace")
    except RequestFailure as failure:
        raise InvalidSetting(f"{post.host} {failure.reason}.") from None


def _run_command(
    task: Task, argv: list[str], environment: Mapping[str, str], stop: Callable[[], str | None]
) -> AttemptResult:
    result = subprocess_runner.run_program(
        argv, stdin=encode_task(task), environment=environment, timeout=task.timeout, stop=stop
    )
    if result.stop_reason is not None:
        return AttemptResult(error=result.stop_reason, result=result.output or None)
    if result.code != 0:
        return AttemptResult(error=result.errors.strip() or f"Exit code {result.code}.", result=result.output or None)
    return AttemptResult(result=result.output)


def _environment_without_secrets() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in SECRET_VARIABLES}


def _occurrence_key(task: Task) -> str:
    """Idempotency key: the same for every attempt of one occurrence."""
    return f"{task.id}:{task.due_at}"


def encode_task(task: Task) -> bytes:
    """Encode a task as JSON for its handler."""
    return msgspec.json.encode(
        {
            "id": task.id,
            "occurrence": _occurrence_key(task),
            "title": task.title,
            "kind": task.kind,
            "principal": task.principal,
            "namespace": task.namespace,
            "channel": task.channel,
            "reply_to": task.reply_to,
            "due_at": format_timestamp(task.due_at),
            "attempt": task.attempts,
            "payload": task.payload,
        }
    )
