"""Threads that run the calls of a client over stdio."""

from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor, wait


class CallPool(ThreadPoolExecutor):
    """A thread pool that can wait for calls for a limited time."""

    def wait(self, calls: Collection[Future[None]], seconds: float) -> None:
        """Return when all calls have ended, at the latest after some seconds."""
        wait(list(calls), seconds)
