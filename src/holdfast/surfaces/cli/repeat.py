"""Repeat a job with pauses until a signal arrives."""

import threading
from collections.abc import Callable

from holdfast.kernel.context import Progress
from holdfast.kernel.errors import Cancelled, HoldfastError
from holdfast.surfaces.cli.stop_signal import when_told


def repeat(once: Callable[[Progress], None], seconds: float, complain: Callable[[HoldfastError], object]) -> None:
    """Repeat until SIGTERM or SIGINT, which stop a run between two changes. Retryable errors are reported."""
    stop = threading.Event()
    when_told(stop.set)
    while not stop.is_set():
        try:
            once(Progress(stop=stop))
        except Cancelled:
            break
        except HoldfastError as error:
            if not error.retryable:
                raise
            complain(error)
        stop.wait(seconds)
