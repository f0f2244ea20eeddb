"""Stop on SIGTERM or SIGINT."""

import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue


def on_stop_signal(stop: Callable[[], object]) -> None:
    """Call `stop` on the first signal, in a separate thread.

    A signal handler interrupts the main thread anywhere, even while it holds a lock that `stop` needs.
    """
    told: SimpleQueue[int] = SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: told.put(number))

    def wait() -> None:
        told.get()
        stop()

    threading.Thread(target=wait, name="holdfast-signals", daemon=True).start()
