"""Being told to stop, by SIGTERM or SIGINT."""

import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue


def when_told(stop: Callable[[], object]) -> None:
    """Stop once a signal comes, in a thread of its own.

    A handler interrupts the main thread wherever that is, also while it holds the very lock that is taken to stop it.
    """
    told: SimpleQueue[int] = SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: told.put(number))

    def wait() -> None:
        told.get()
        stop()

    threading.Thread(target=wait, name="holdfast-signals", daemon=True).start()
