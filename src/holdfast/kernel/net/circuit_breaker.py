"""Circuit breaker: stop sending requests to a failing provider for a while."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from time import monotonic

from holdfast.kernel.net.failure import Failure

FAILURES = 3
"""Consecutive failures that open the breaker; a timeout counts as all of them."""
OPEN_SECONDS = 30.0


class Breaker:
    """Passes requests while closed and none while open; after a while one probe decides. Thread-safe."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._lock = RLock()
        self._failures = 0
        self._until = 0.0
        self._probing = False
        self._why = ""

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Pass a request or raise immediately; its outcome opens or closes the breaker."""
        self._enter()
        try:
            yield
        except Failure as failure:
            self._note(failure)
            raise
        except BaseException:
            self._probing = False
            raise
        else:
            self._note(None)

    def must_let_pass(self) -> None:
        """Raise if a request would be rejected now."""
        with self._lock:
            left = self._until - self._now()
            if self._failures >= FAILURES and (left > 0 or self._probing):
                raise Failure(_left_alone(left, self._why), retryable=True, undone=True)

    def _enter(self) -> None:
        with self._lock:
            self.must_let_pass()
            self._probing = self._failures >= FAILURES

    def _note(self, failure: Failure | None) -> None:
        """Count a failure. A permanent refusal does not count: it shows that the provider is up."""
        with self._lock:
            self._probing = False
            if failure is None or not failure.retryable:
                self._failures = 0
                return
            self._failures += FAILURES if failure.late else 1
            self._until = self._now() + OPEN_SECONDS
            self._why = failure.what


def _left_alone(left: float, why: str) -> str:
    when = f"for another {left:.0f} seconds" if left >= 1 else "while another request tries it"
    return f"is skipped {when}, because it {why}"
