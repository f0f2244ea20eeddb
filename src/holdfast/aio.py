"""The library for asyncio: the same methods, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from threading import Event
from types import TracebackType
from typing import Any, TypeVar

from holdfast.app import Holdfast
from holdfast.app import open as open_store
from holdfast.kernel.context import Progress
from holdfast.kernel.errors import StoreClosed
from holdfast.methods import AsyncOperations
from holdfast.settings import Settings

R = TypeVar("R")

DEFAULT_THREADS = 8


class AsyncHoldfast(AsyncOperations):
    """A store for asyncio: `async with holdfast.aopen() as hold: await hold.recall("...")`.

    Calls run in threads of its own, at most `threads` at a time. Cancelling a call stops it before it commits, or waits
    for its commit: afterwards nothing of it is still running.
    """

    def __init__(self, open_hold: Callable[[], Holdfast], threads: int = DEFAULT_THREADS) -> None:
        self._open_hold = open_hold
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="holdfast-call")
        self._hold: Holdfast | None = None

    @property
    def hold(self) -> Holdfast:
        """The open store, for use from other threads. Raises StoreClosed before `async with` and after `aclose`."""
        if self._hold is None:
            raise StoreClosed("The store is not open: use `async with holdfast.aopen() as hold:`.")
        return self._hold

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Run an operation by name and return its answer as it is sent."""
        return await self.run(lambda hold, progress: hold.call(name, arguments, progress=progress))

    async def run(self, work: Callable[[Holdfast, Progress], R]) -> R:
        """Run work in a thread of the store, with a Progress that ends it when the caller is cancelled."""
        stop = Event()
        return await self._run_in_thread(partial(work, self.hold, Progress(stop=stop)), stop)

    async def aclose(self) -> None:
        """Wait for running calls, then close the store. Closing again does nothing."""
        hold, self._hold = self._hold, None
        if hold is not None:
            await asyncio.to_thread(self._pool.shutdown)
            await asyncio.to_thread(hold.close)

    async def _run_in_thread(self, work: Callable[[], R], stop: Event) -> R:
        submitted = self._pool.submit(copy_context().run, work)
        call = asyncio.wrap_future(submitted)
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            stop.set()
            submitted.cancel()  # has an effect while it waits for a thread
            await asyncio.wait({call})
            if not call.cancelled():
                call.exception()  # asyncio would log one that nobody has read
            raise

    async def __aenter__(self) -> AsyncHoldfast:
        try:
            await self._run_in_thread(self._open, Event())
        except asyncio.CancelledError:
            await self.aclose()
            raise
        return self

    def _open(self) -> None:
        self._hold = self._open_hold()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def aopen(
    db: str | None = None,
    *,
    agent_id: str | None = None,
    settings: Settings | None = None,
    source: str = "library",
    make: bool = True,
    threads: int = DEFAULT_THREADS,
) -> AsyncHoldfast:
    """Return a store for asyncio, which `async with` opens; by default the user's own.

    The parameters are those of `open`; at most `threads` calls run at a time.
    """
    opening = partial(open_store, db, agent_id=agent_id, settings=settings, source=source, make=make)
    return AsyncHoldfast(opening, threads)
