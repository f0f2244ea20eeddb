"""Background thread that computes embeddings while others read and write."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from random import random
from time import monotonic
from typing import Literal

from holdfast.features.embeddings import service as embed
from holdfast.kernel.context import Hold, Progress
from holdfast.kernel.errors import Cancelled, EmbedderFailed, HoldfastError

log = logging.getLogger("holdfast")

AGAIN_SECONDS = 1.0
LONGEST_PAUSE = 300.0
"""Maximum pause between attempts with a failing provider."""
QUIET_SECONDS = 0.2
PATIENCE_SECONDS = 3.0
"""Longest wait for a pause in writing before computing embeddings."""
OTHERS_SECONDS = 2.0
"""Wait up to this long before embedding memories of another process, which embeds them itself if it can."""
END_SECONDS = 10.0


class Making:
    """Computes embeddings in the background. Starts at the first write, or at once to watch other processes."""

    def __init__(self, hold: Hold) -> None:
        self._stop = threading.Event()
        self._kept = threading.Event()
        self._lock = threading.Lock()
        self._woken = 0.0
        self._keeping = 0
        self._thread: threading.Thread | None = None
        self._watcher: threading.Thread | None = None
        self._hold = hold.seen_by(hold.caller, Progress(stop=self._stop))

    def wake(self) -> None:
        """Start embedding: a memory was written."""
        self._woken = monotonic()
        self._kept.set()
        if self._thread is None:
            self._start()

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Mark that a write is in progress."""
        with self._lock:
            self._keeping += 1
        try:
            yield
        finally:
            with self._lock:
                self._keeping -= 1

    def last(self) -> float:
        """Return the time of the last write; now, while a write is in progress."""
        return monotonic() if self._keeping else self._woken

    def watch(self) -> None:
        """Also embed what other processes write."""
        self._watcher = threading.Thread(target=self._watch, name="holdfast-watch-vectors", daemon=True)
        self._watcher.start()

    def close(self) -> None:
        """Stop after the current text."""
        self._stop.set()
        self._kept.set()
        for thread in (self._watcher, self._thread):
            if thread is not None and thread is not threading.current_thread():
                thread.join(END_SECONDS)
        atexit.unregister(self.close)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._stop.is_set():
                # A daemon thread, so that a program that never closes its store can exit; atexit stops it first.
                self._thread = threading.Thread(target=self._run, name="holdfast-vectors", daemon=True)
                atexit.register(self.close)
                self._thread.start()

    def _run(self) -> None:
        pause = AGAIN_SECONDS
        while self._kept.wait() and not self._stop.is_set():
            self._kept.clear()
            self._wait_for_quiet()
            match self._step():
                case "more":
                    pause = AGAIN_SECONDS
                    self._kept.set()
                case "failed":
                    self._stop.wait(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)
                    self._kept.set()

    def _wait_for_quiet(self) -> None:
        """Wait for a pause in writing, so that bulk writes get the processor first."""
        until = monotonic() + PATIENCE_SECONDS
        while (left := min(until, self.last() + QUIET_SECONDS) - monotonic()) > 0:
            if self._stop.wait(left):
                return

    def _step(self) -> Literal["more", "done", "failed"]:
        """Compute the next batch."""
        assert self._hold.embedder is not None
        try:
            made = embed.step(self._hold, self._hold.embedder)
        except Cancelled:
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
                if self._hold.store.wait(AGAIN_SECONDS) and not self._stop.wait(random() * OTHERS_SECONDS):  # noqa: S311 - no secret
                    self.wake()
            except HoldfastError:
                self._stop.wait(AGAIN_SECONDS)
