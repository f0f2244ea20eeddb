"""Circuit breaker: stop sending requests to a failing provider for a while."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from time import monotonic

from holdfast.kernel.net.failure import RequestFailure

MAX_FAILURES = 3
"""Consecutive failures that open the breaker; a timeout counts as all of them."""
OPEN_SECONDS = 30.0


class CircuitBreaker:
    """Passes requests while closed and none while open; after a while one probe decides. Thread-safe."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._lock = RLock()
        self._failures = 0
        self._open_until = 0.0
        self._probing = False
        self._reason = ""

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Pass a request or raise immediately; its outcome opens or closes the breaker."""
        self._enter()
        try:
            yield
        except RequestFailure as failure:
            self._record(failure)
            raise
        except BaseException:
            self._probing = False
            raise
        else:
            self._record(None)

    def require_closed(self) -> None:
        """Raise if a request would be rejected now."""
        with self._lock:
            left = self._open_until - self._now()
            if self._failures >= MAX_FAILURES and (left > 0 or self._probing):
                raise RequestFailure(_describe_open(left, self._reason), retryable=True, is_unprocessed=True)

    def _enter(self) -> None:
        with self._lock:
            self.require_closed()
            self._probing = self._failures >= MAX_FAILURES

    def _record(self, failure: RequestFailure | None) -> None:
        """Count a failure. A permanent refusal does not count: it shows that the provider is up."""
        with self._lock:
            self._probing = False
            if failure is None or not failure.retryable:
                self._failures = 0
                return
            self._failures += MAX_FAILURES if failure.is_timeout else 1
            self._open_until = self._now() + OPEN_SECONDS
            self._reason = failure.reason


def _describe_open(left: float, why: str) -> str:
    when = f"for another {left:.0f} seconds" if left >= 1 else "while another request tries it"
    return f"is skipped {when}, because it {why}"
