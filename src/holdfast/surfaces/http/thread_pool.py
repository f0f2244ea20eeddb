"""Run blocking work in threads, with a time limit that holds."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

from holdfast.kernel.context import Progress
from holdfast.kernel.errors import OperationCancelled, TimedOut

T = TypeVar("T")

DEFAULT_THREADS = 8
GRACE_SECONDS = 5.0
"""Seconds a stopped job has to report whether it committed."""


class TimedThreadPool:
    """A thread pool that stops a job when its client is gone or its time is over.

    A job stopped before its commit has written nothing; a job that is committing is waited for. anyio's limiter does
    not fit: it returns a thread's token while the thread still runs.
    """

    def __init__(self, seconds: float, *, threads: int = DEFAULT_THREADS, grace: float = GRACE_SECONDS) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="holdfast")
        self._seconds = seconds
        self._grace = grace

    async def run(self, work: Callable[[Progress], T], disconnected: Awaitable[None] | None = None) -> T:
        """Return the result of the work, or raise if the time limit passes or `gone` completes first."""
        stop = threading.Event()
        progress = Progress(stop=stop)
        job = self._pool.submit(copy_context().run, work, progress)
        result = asyncio.wrap_future(job)
        left = asyncio.ensure_future(disconnected) if disconnected is not None else None
        try:
            waiting: set[asyncio.Future[Any]] = {result} if left is None else {result, left}
            await asyncio.wait(waiting, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
            if result.done():
                return result.result()
            stop.set()
            refusal = OperationCancelled if left is not None and left.done() else TimedOut
            return await self._await_end(job, result, progress, refusal)
        finally:
            stop.set()
            if left is not None:
                left.cancel()

    async def _await_end(
        self, job: "Future[T]", result: "asyncio.Future[T]", progress: Progress, refusal: type[OperationCancelled]
    ) -> T:
        if job.cancel():
            raise refusal
        await asyncio.wait({result}, timeout=self._grace)
        if not result.done():
            result.add_done_callback(lambda late: late.exception())
            progress.require_not_committing()
            raise refusal
        try:
            return result.result()
        except OperationCancelled:
            raise refusal from None

    def close(self) -> None:
        """Start nothing more; wait for running jobs."""
        self._pool.shutdown(wait=True, cancel_futures=True)
