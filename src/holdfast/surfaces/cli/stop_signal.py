"""Stop on SIGTERM or SIGINT: a wait, or a job that repeats with pauses."""

import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue

from holdfast.kernel.context import Progress
from holdfast.kernel.errors import HoldfastError, OperationCancelled


def on_stop_signal(stop: Callable[[], object]) -> None:
    """Call `stop` on the first signal, in a separate thread.

    A signal handler interrupts the main thread anywhere, even while it holds a lock that `stop` needs.
    """
    signals: SimpleQueue[int] = SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: signals.put(number))

    def wait() -> None:
        signals.get()
        stop()

    threading.Thread(target=wait, name="holdfast-signals", daemon=True).start()


def repeat_until_stopped(
    once: Callable[[Progress], None], seconds: float, report_error: Callable[[HoldfastError], object]
) -> None:
    """Repeat until SIGTERM or SIGINT, which stop a run between two changes. Retryable errors are reported."""
    stop = threading.Event()
    on_stop_signal(stop.set)
    while not stop.is_set():
        try:
            once(Progress(stop=stop))
        except OperationCancelled:
            break
        except HoldfastError as error:
            if not error.retryable:
                raise
            report_error(error)
        stop.wait(seconds)
