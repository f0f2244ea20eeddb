"""The writers of one process take turns, and none of them waits for ever."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from holdfast.kernel.errors import StoreBusy

LOCK_SECONDS = 30.0
"""How long a writer waits for its turn: for the threads of its own process and for all other processes together."""


@contextmanager
def turn(lock: "threading.RLock") -> Iterator[Callable[[], float]]:
    """A thread's turn among those of its process. Tells how many seconds are left to wait for other processes."""
    until = monotonic() + LOCK_SECONDS
    if not lock.acquire(timeout=LOCK_SECONDS):
        raise StoreBusy("Another writer held the store for too long: try again.")
    try:
        yield lambda: max(0.001, until - monotonic())
    finally:
        lock.release()
