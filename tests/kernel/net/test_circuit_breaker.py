"""A failing provider is skipped, tried by one request, and used again."""

import pytest

from holdfast.kernel.net.circuit_breaker import MAX_FAILURES, OPEN_SECONDS, CircuitBreaker
from holdfast.kernel.net.failure import RequestFailure

DOWN = RequestFailure("cannot be reached", retryable=True)
LATE = RequestFailure("did not answer", retryable=True, is_timeout=True)
REFUSED = RequestFailure("does not accept the key", status=401)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker(clock)


def meet(breaker: CircuitBreaker, end: BaseException | None = None) -> str | None:
    """Return why a request was rejected, or its own outcome."""
    try:
        with breaker.guard():
            if end is not None:
                raise end
    except RequestFailure as failure:
        return failure.reason
    return None


def test_the_breaker_opens_after_three_failures_in_a_row(breaker: CircuitBreaker) -> None:
    for _ in range(MAX_FAILURES - 1):
        meet(breaker, DOWN)
    assert meet(breaker) is None
    for _ in range(MAX_FAILURES):
        assert meet(breaker, DOWN) == DOWN.reason
    assert meet(breaker) == "is skipped for another 30 seconds, because it cannot be reached"


def test_one_timeout_opens_the_breaker(breaker: CircuitBreaker) -> None:
    meet(breaker, LATE)
    assert "skipped" in (meet(breaker) or "")


def test_permanent_refusals_do_not_open_the_breaker(breaker: CircuitBreaker) -> None:
    for _ in range(2 * MAX_FAILURES):
        assert meet(breaker, REFUSED) == REFUSED.reason


def test_after_a_pause_one_request_probes_and_the_others_still_do_not_wait(
    breaker: CircuitBreaker, clock: Clock
) -> None:
    meet(breaker, LATE)
    clock.now += OPEN_SECONDS
    with breaker.guard():
        assert meet(breaker) == "is skipped while another request tries it, because it did not answer"
    assert meet(breaker) is None


def test_a_provider_that_fails_again_is_skipped_for_as_long_again(breaker: CircuitBreaker, clock: Clock) -> None:
    meet(breaker, LATE)
    clock.now += OPEN_SECONDS
    assert meet(breaker, DOWN) == DOWN.reason
    assert "for another 30 seconds, because it cannot be reached" in (meet(breaker) or "")


def test_a_probe_cancelled_here_lets_the_next_request_probe(breaker: CircuitBreaker, clock: Clock) -> None:
    meet(breaker, LATE)
    clock.now += OPEN_SECONDS
    with pytest.raises(KeyboardInterrupt):
        meet(breaker, KeyboardInterrupt())
    assert meet(breaker) is None
