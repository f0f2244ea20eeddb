"""All timeouts of the test suite.

A time-out only ends a test that hangs; no test is about one. So each is far beyond what the slowest machine needs.
"""

import time
from collections.abc import Callable

TEST_TIMEOUT = 900
"""Seconds for one test, including its fixtures."""
TIMEOUT = 120
"""Seconds for one step of a test: a process to start or to end, an answer to arrive, a condition to become true."""


def wait_until(condition: Callable[[], object], seconds: float = TIMEOUT) -> None:
    """Return as soon as the condition is true; fail the test if it never is."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, f"still not true after {seconds} seconds: {condition}"
        time.sleep(0.01)
