"""Per-process write lock with a timeout."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from holdfast.kernel.errors import StoreBusy

LOCK_SECONDS = 30.0
"""How long a writer waits, for other threads and other processes together."""


@contextmanager
def hold_write_lock(lock: "threading.RLock") -> Iterator[Callable[[], float]]:
    """Hold the process's write lock. Yields a function that returns the seconds left to wait for other processes."""
    until = monotonic() + LOCK_SECONDS
    if not lock.acquire(timeout=LOCK_SECONDS):
        raise StoreBusy("Another writer locked the store for too long: try again.")
    try:
        yield lambda: max(0.001, until - monotonic())
    finally:
        lock.release()
