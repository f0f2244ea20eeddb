"""Do something again and again until told to stop, with a pause between."""

import threading
from collections.abc import Callable

from holdfast.kernel.context import Progress
from holdfast.kernel.errors import Cancelled, HoldfastError
from holdfast.surfaces.cli.stop_signal import when_told


def repeat(once: Callable[[Progress], None], seconds: float, complain: Callable[[HoldfastError], object]) -> None:
    """Until SIGTERM or SIGINT, which end it between two changes. What only fails for now is told and tried later."""
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
