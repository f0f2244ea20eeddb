"""A worker: claims what is due, has it done by its handler, and says how it ended; several may work on one store."""

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
"""What a worker does for the store itself: a command of our own."""
STOPS = "The worker stops."
LOOK_SECONDS = 1.0
"""How often a worker looks for what is due when it knows of nothing sooner."""
SECRETS = ("HOLDFAST_API_KEY", "HOLDFAST_KEY", "HOLDFAST_LLM_KEY", "HOLDFAST_EMBEDDING_KEY", "HOLDFAST_SYNC_API_KEY")
"""What a command that was planned is not told."""

Told = Callable[[str], None]
"""Hears what the worker does, a line each."""


class Terms(NamedTuple):
    """How a worker works."""

    owner: str
    db: str
    """The address of its store, for the commands that it starts."""
    slots: int = 4
    """Tasks at a time."""
    lease: int = 60
    """Seconds for which a task is held without a sign of life."""
    handlers: tuple[Handler, ...] = ("webhook", "job")
    """What it may run."""


class Worker:
    """Works until it is told to stop; what is under way then has a while to end."""

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
        """Work until told to stop, or until nothing is due; how many tasks were taken."""
        taken = 0
        while not self._stop.is_set():
            got = self._take()
            taken += got
            if once and not got and not self._busy:
                break
            if not got:
                self._changed.wait(self._pause())
                self._changed.clear()
        self._drain()
        return taken

    def _take(self) -> int:
        """Claim as much as there is room for, and begin it."""
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
        """Seconds until the next one is due, no longer than a look takes."""
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
        """One try, held by a heartbeat; settled unless the lease was lost or the worker is stopping."""
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
    """Tells the store again and again that a task is still being done."""

    def __init__(self, hold: Hold, task: Task, lease: int) -> None:
        self._hold = hold
        self._task = task
        self._lease = lease
        self._over = threading.Event()
        self._until = monotonic() + lease
        self.why: str | None = None
        """Why the task is to end before its time."""
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
                asked = tasks.beat(self._hold, self._task.id, self._task.token, self._lease)
                self._until = monotonic() + self._lease
                if asked:
                    self.why = "It was cancelled."
            except LeaseLost:
                self.why, self.lost = "Its lease was lost.", True
                return
            except HoldfastError:
                if monotonic() > self._until:
                    self.why, self.lost = "Its lease was lost.", True
                    return


def _handled(task: Task, terms: Terms, stop: Callable[[], str | None]) -> Finish:
    """How a try of the task ended; whatever a handler does, it is one of a result and an error."""
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
                return Finish(error="It has no handler.")
    except (HoldfastError, OSError) as error:
        return Finish(error=str(error))


def _job(task: Task) -> list[str]:
    """The command of a job: its own words, and what the payload adds under `arguments`."""
    more = task.payload.get("arguments", [])
    if task.target not in JOBS or not isinstance(more, list) or not all(isinstance(word, str) for word in more):
        raise Misconfigured(f"There is no job {task.target!r}: choose among {', '.join(JOBS)}.")
    return [*JOBS[task.target], *more]


def _posted(task: Task) -> str:
    headers = {"Idempotency-Key": _occurrence(task)}
    post = Post(address("webhook", task.target), settings="webhook", headers=headers, timeout=task.timeout, quiet=True)
    try:
        return post("", told(task))[: child.MOST_BYTES].decode("utf-8", "replace")
    except Failure as failure:
        raise Misconfigured(f"{post.host} {failure.what}.") from None


def _ran(task: Task, argv: list[str], environment: Mapping[str, str], stop: Callable[[], str | None]) -> Finish:
    ended = child.run(argv, words=told(task), environment=environment, timeout=task.timeout, stop=stop)
    if ended.stopped is not None:
        return Finish(error=ended.stopped, result=ended.output or None)
    if ended.code != 0:
        return Finish(error=ended.errors.strip() or f"It ended with {ended.code}.", result=ended.output or None)
    return Finish(result=ended.output)


def _unprivileged() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in SECRETS}


def _occurrence(task: Task) -> str:
    """The same for every try of one time, so that who is asked twice can tell."""
    return f"{task.id}:{task.due_at}"


def told(task: Task) -> bytes:
    """What a handler is told of a task."""
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
