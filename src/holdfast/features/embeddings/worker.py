"""Background thread that computes embeddings while others read and write."""

from __future__ import annotations

import atexit
import logging
import threading
from random import random
from time import monotonic
from typing import Literal

from holdfast.features.embeddings import service as embedding_service
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.errors import EmbedderFailed, HoldfastError, OperationCancelled

log = logging.getLogger("holdfast")

RETRY_SECONDS = 1.0
MAX_PAUSE_SECONDS = 300.0
"""Maximum pause between attempts with a failing provider."""
QUIET_SECONDS = 0.2
MAX_QUIET_WAIT_SECONDS = 3.0
"""Longest wait for a pause in writing before computing embeddings."""
OTHER_PROCESS_SECONDS = 2.0
"""Wait up to this long before embedding memories of another process, which embeds them itself if it can."""
JOIN_SECONDS = 10.0


class EmbeddingWorker:
    """Computes embeddings in the background. Starts at the first write, or at once to watch other processes."""

    def __init__(self, ctx: Context) -> None:
        self._stop = threading.Event()
        self._wake_event = threading.Event()
        self._lock = threading.Lock()
        self._last_wake = 0.0
        self._thread: threading.Thread | None = None
        self._watcher: threading.Thread | None = None
        self._ctx = ctx.for_caller(ctx.caller, Progress(stop=self._stop))

    def wake(self) -> None:
        """Start embedding: a memory was written."""
        self._last_wake = monotonic()
        self._wake_event.set()
        if self._thread is None:
            self._start()

    def last_write_time(self) -> float:
        """Return the time of the last write, here or in another process; now, while a write is in progress."""
        return max(self._last_wake, self._ctx.activity.last_write_time())

    def watch(self) -> None:
        """Also embed what other processes write."""
        self._watcher = threading.Thread(target=self._watch, name="holdfast-watch-vectors", daemon=True)
        self._watcher.start()

    def close(self) -> None:
        """Stop after the current text."""
        self._stop.set()
        self._wake_event.set()
        for thread in (self._watcher, self._thread):
            if thread is not None and thread is not threading.current_thread():
                thread.join(JOIN_SECONDS)
        atexit.unregister(self.close)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._stop.is_set():
                # A daemon thread, so that a program that never closes its store can exit; atexit stops it first.
                self._thread = threading.Thread(target=self._run, name="holdfast-vectors", daemon=True)
                atexit.register(self.close)
                self._thread.start()

    def _run(self) -> None:
        pause = RETRY_SECONDS
        while self._wake_event.wait() and not self._stop.is_set():
            self._wake_event.clear()
            self._wait_for_quiet()
            match self._step():
                case "more":
                    pause = RETRY_SECONDS
                    self._wake_event.set()
                case "failed":
                    self._stop.wait(pause)
                    pause = min(2 * pause, MAX_PAUSE_SECONDS)
                    self._wake_event.set()

    def _wait_for_quiet(self) -> None:
        """Wait for a pause in writing, so that bulk writes get the processor first."""
        until = monotonic() + MAX_QUIET_WAIT_SECONDS
        while (left := min(until, self.last_write_time() + QUIET_SECONDS) - monotonic()) > 0:
            if self._stop.wait(left):
                return

    def _step(self) -> Literal["more", "done", "failed"]:
        """Compute the next batch."""
        assert self._ctx.embedder is not None
        try:
            made = embedding_service.embed_next(self._ctx, self._ctx.embedder)
        except OperationCancelled:
            return "done"
        except EmbedderFailed as error:
            log.warning("Cannot compute embeddings now: %s", error.message)
            return "failed"
        except HoldfastError as error:
            log.warning("Cannot store embeddings now: %s", error.message)
            return "failed"
        for failed in made.failed if made else ():
            log.warning("Memory %s was not embedded: %s", failed.id, failed.error)
        return "done" if made is None else "more"

    def _watch(self) -> None:
        while not self._stop.is_set():
            try:
                delay = random() * OTHER_PROCESS_SECONDS  # noqa: S311 - no secret
                if self._ctx.store.wait_for_commit(RETRY_SECONDS) and not self._stop.wait(delay):
                    self.wake()
            except HoldfastError:
                self._stop.wait(RETRY_SECONDS)
