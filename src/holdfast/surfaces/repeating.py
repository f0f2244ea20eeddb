"""Do something again and again until told to stop, with a pause between."""

import signal
import threading
from collections.abc import Callable

from ..domain.errors import Cancelled, HoldfastError
from ..services.hold import Progress


def repeat(once: Callable[[Progress], None], seconds: float, complain: Callable[[HoldfastError], object]) -> None:
    """Until SIGTERM or SIGINT, which end it between two changes. What only fails for now is told and tried later."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
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
