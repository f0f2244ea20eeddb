"""Repeat a job with pauses until a signal arrives."""

import threading
from collections.abc import Callable

from holdfast.kernel.context import Progress
from holdfast.kernel.errors import HoldfastError, OperationCancelled
from holdfast.surfaces.cli.stop_signal import on_stop_signal


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
