"""Worker: claims due tasks, runs their handlers and records the results. Several can share a store."""

import os
import threading
from collections.abc import Callable, Mapping
from time import monotonic
from typing import NamedTuple

import msgspec

from holdfast.features.tasks import service as tasks
from holdfast.features.tasks import subprocess_runner as child
from holdfast.features.tasks.model import Handler, Task
from holdfast.features.tasks.service import Finish
from holdfast.features.tasks.store import Which
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import HoldfastError, LeaseLost, Misconfigured
from holdfast.kernel.net.address import address
from holdfast.kernel.net.failure import Failure
from holdfast.kernel.net.http_client import Post
from holdfast.kernel.timestamps import SECOND, to_text

JOBS: dict[str, tuple[str, ...]] = {
    "gc": ("gc",),
    "reaper": ("conversation", "reap"),
    "consolidate": ("conversation", "consolidate"),
    "curate": ("curate", "--apply"),
    "reembed": ("reembed",),
    "backup": ("backup",),
}
"""Maintenance jobs and their Holdfast commands."""
STOPS = "The worker is stopping."
LOOK_SECONDS = 1.0
"""Maximum interval between checks for due tasks."""
SECRETS = ("HOLDFAST_API_KEY", "HOLDFAST_KEY", "HOLDFAST_LLM_KEY", "HOLDFAST_EMBEDDING_KEY", "HOLDFAST_SYNC_API_KEY")
"""Environment variables hidden from commands."""

Told = Callable[[str], None]
"""Receives one line per worker event."""


class Terms(NamedTuple):
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

    def __init__(self, hold: Hold, terms: Terms, told: Told = lambda line: None) -> None:
        self._hold = hold
        self._terms = terms
        self._told = told
        self._stop = threading.Event()
        self._changed = threading.Event()
        self._busy: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()

    def stop(self) -> None:
        self._stop.set()
        self._changed.set()

    def work(self, *, once: bool = False) -> int:
        """Run until stopped or, with `once`, until nothing is due. Returns the number of claimed tasks."""
        count = 0
        while not self._stop.is_set():
            got = self._take()
            count += got
            if once and not got and not self._busy:
                break
            if not got:
                self._changed.wait(self._pause())
                self._changed.clear()
        self._drain()
        return count

    def _take(self) -> int:
        """Claim as many tasks as there are free slots and start them."""
        with self._lock:
            free = self._terms.slots - len(self._busy)
        if free <= 0:
            return 0
        which = Which(handlers=self._terms.handlers)
        try:
            found = tasks.claim(self._hold, self._terms.owner, free, self._terms.lease, which)
        except HoldfastError as error:
            if not error.retryable:
                raise
            self._told(f"cannot claim: {error.message}")
            return 0
        for task in found:
            self._begin(task)
        return len(found)

    def _begin(self, task: Task) -> None:
        thread = threading.Thread(target=self._do, args=(task,), name=f"holdfast-task-{task.id[:8]}", daemon=True)
        with self._lock:
            self._busy[task.id] = thread
        thread.start()

    def _pause(self) -> float:
        """Seconds until the next task is due, capped by the poll interval."""
        with self._lock:
            full = len(self._busy) >= self._terms.slots
        ready = None if full else tasks.next_ready(self._hold)
        until = LOOK_SECONDS if ready is None else (ready - self._hold.now()) / SECOND
        return min(max(until, 0.05), LOOK_SECONDS)

    def _drain(self) -> None:
        with self._lock:
            running = list(self._busy.values())
        for thread in running:
            thread.join(child.GRACE_SECONDS * 2)

    def _do(self, task: Task) -> None:
        try:
            self._attempt(task)
        except HoldfastError as error:
            self._told(f"{task.id[:8]} {task.title!r}: {error.message}")
        finally:
            with self._lock:
                self._busy.pop(task.id, None)
            self._changed.set()

    def _attempt(self, task: Task) -> None:
        """Run one attempt under a heartbeat and finish it, unless the lease was lost or the worker is stopping."""
        with _Pulse(self._hold, task, self._terms.lease) as pulse:
            how = _handled(task, self._terms, lambda: pulse.why or (STOPS if self._stop.is_set() else None))
        if pulse.lost:
            self._told(f"{task.id[:8]} {task.title!r}: its lease was lost")
        elif self._stop.is_set() and how.error == STOPS:
            tasks.release(self._hold, task.id, task.token)
        else:
            tasks.finish(self._hold, task.id, task.token, how)
            self._told(f"{task.id[:8]} {task.title!r}: {how.error or 'done'}")


class _Pulse:
    """Extends the lease of a running task until it ends."""

    def __init__(self, hold: Hold, task: Task, lease: int) -> None:
        self._hold = hold
        self._task = task
        self._lease = lease
        self._over = threading.Event()
        self._until = monotonic() + lease
        self.why: str | None = None
        """Why the task must stop early."""
        self.lost = False
        self._thread = threading.Thread(target=self._beat, name="holdfast-pulse", daemon=True)

    def __enter__(self) -> "_Pulse":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._over.wait(self._lease / 3):
            try:
                is_cancelled = tasks.beat(self._hold, self._task.id, self._task.token, self._lease)
                self._until = monotonic() + self._lease
                if is_cancelled:
                    self.why = "The task was cancelled."
            except LeaseLost:
                self.why, self.lost = "The lease was lost.", True
                return
            except HoldfastError:
                if monotonic() > self._until:
                    self.why, self.lost = "The lease was lost.", True
                    return


def _handled(task: Task, terms: Terms, stop: Callable[[], str | None]) -> Finish:
    """Run the handler of a task. Failures become an error result."""
    try:
        match task.handler:
            case "webhook":
                return Finish(result=_posted(task))
            case "command":
                return _ran(task, ["/bin/sh", "-c", task.target], _unprivileged(), stop)
            case "python":
                argv = child.python("-m", "holdfast.features.tasks.run_handler", task.target)
                return _ran(task, argv, _unprivileged(), stop)
            case "job":
                argv = child.python("-m", "holdfast", *_job(task))
                return _ran(task, argv, {**os.environ, "HOLDFAST_DB": terms.db}, stop)
            case "none":
                return Finish(error="The task has no handler.")
    except (HoldfastError, OSError) as error:
        return Finish(error=str(error))


def _job(task: Task) -> list[str]:
    """Command of a job, plus `arguments` from the payload."""
    more = task.payload.get("arguments", [])
    if task.target not in JOBS or not isinstance(more, list) or not all(isinstance(word, str) for word in more):
        raise Misconfigured(f"target: a job must be one of {', '.join(JOBS)} (got {task.target!r}).")
    return [*JOBS[task.target], *more]


def _posted(task: Task) -> str:
    headers = {"Idempotency-Key": _occurrence(task)}
    post = Post(address("webhook", task.target), settings="webhook", headers=headers, timeout=task.timeout, quiet=True)
    try:
        return post("", told(task))[: child.MOST_BYTES].decode("utf-8", "replace")
    except Failure as failure:
        raise Misconfigured(f"{post.host} {failure.what}.") from None


def _ran(task: Task, argv: list[str], environment: Mapping[str, str], stop: Callable[[], str | None]) -> Finish:
    result = child.run(argv, words=told(task), environment=environment, timeout=task.timeout, stop=stop)
    if result.stopped is not None:
        return Finish(error=result.stopped, result=result.output or None)
    if result.code != 0:
        return Finish(error=result.errors.strip() or f"Exit code {result.code}.", result=result.output or None)
    return Finish(result=result.output)


def _unprivileged() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in SECRETS}


def _occurrence(task: Task) -> str:
    """Idempotency key: the same for every attempt of one occurrence."""
    return f"{task.id}:{task.due_at}"


def told(task: Task) -> bytes:
    """Encode a task as JSON for its handler."""
    return msgspec.json.encode(
        {
            "id": task.id,
            "occurrence": _occurrence(task),
            "title": task.title,
            "kind": task.kind,
            "principal": task.principal,
            "namespace": task.namespace,
            "channel": task.channel,
            "reply_to": task.reply_to,
            "due_at": to_text(task.due_at),
            "attempt": task.attempts,
            "payload": task.payload,
        }
    )
