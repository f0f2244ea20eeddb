"""A provider that fails is left alone for a while: nobody waits for it again and again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from time import monotonic

from holdfast.kernel.net.failure import Failure

FAILURES = 3
"""In a row, after which a provider is left alone; one that took the whole time limit counts as many."""
OPEN_SECONDS = 30.0


class Breaker:
    """Lets requests pass, none, or after a while a single one that finds out. Any number of threads may ask it."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._lock = RLock()
        self._failures = 0
        self._until = 0.0
        self._probing = False
        self._why = ""

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Let a request pass, or raise at once; what becomes of it decides on the next ones."""
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
        """Raise if a request would not be let pass now."""
        with self._lock:
            left = self._until - self._now()
            if self._failures >= FAILURES and (left > 0 or self._probing):
                raise Failure(_left_alone(left, self._why), retryable=True, undone=True)

    def _enter(self) -> None:
        with self._lock:
            self.must_let_pass()
            self._probing = self._failures >= FAILURES

    def _note(self, failure: Failure | None) -> None:
        """A refusal for good shows that the provider is there: it is no failure in this sense."""
        with self._lock:
            self._probing = False
            if failure is None or not failure.retryable:
                self._failures = 0
                return
            self._failures += FAILURES if failure.late else 1
            self._until = self._now() + OPEN_SECONDS
            self._why = failure.what


def _left_alone(left: float, why: str) -> str:
    when = f"for another {left:.0f} seconds" if left >= 1 else "while it is being tried again"
    return f"is left alone {when}, because it {why}"
