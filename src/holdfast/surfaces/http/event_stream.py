"""A live feed as server-sent events."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

from starlette.requests import Request

from holdfast.kernel.errors import HoldfastError
from holdfast.surfaces import error_responses as wire

WAIT_SECONDS = 1.0
"""Longest wait at the store before checking for remaining followers."""
KEEP_ALIVE_SECONDS = 15.0
MEDIA_TYPE = "text/event-stream"


def accepts_event_stream(request: Request) -> bool:
    return request.method == "GET" and MEDIA_TYPE in request.headers.get("accept", "")


class ChangeWatcher:
    """Wake all streams when the store changes, with one thread that runs only while there are streams."""

    def __init__(self, wait: Callable[[float], bool], closing: asyncio.Event) -> None:
        self.closing = closing
        self.wakeups = 0
        self._wait = wait
        self._followers = 0
        self._woken = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    @contextmanager
    def following(self) -> Iterator[None]:
        self._followers += 1
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            self._followers -= 1

    async def wait_for_change(self, seen: int, seconds: float) -> None:
        """Return when there is a new change, when the time has passed, or when the server closes."""
        if self.wakeups != seen:
            return
        waiting = [asyncio.create_task(event.wait()) for event in (self._woken, self.closing)]
        try:
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()

    async def _watch(self) -> None:
        thread = ThreadPoolExecutor(1, thread_name_prefix="holdfast-watch")
        try:
            while self._followers and not self.closing.is_set():
                if await asyncio.get_running_loop().run_in_executor(thread, self._poll_store):
                    self._wake()
        finally:
            self._watching = None
            thread.shutdown(wait=False)

    def _poll_store(self) -> bool:
        """Return whether there may be changes; if the store fails, wait and return True, so streams poll."""
        try:
            return self._wait(WAIT_SECONDS)
        except HoldfastError:
            sleep(WAIT_SECONDS)
            return True

    def _wake(self) -> None:
        self.wakeups += 1
        self._woken.set()
        self._woken = asyncio.Event()


async def stream_events(
    first: Any, page: Callable[[int], Awaitable[Any]], watch: ChangeWatcher, keep_alive: float = KEEP_ALIVE_SECONDS
) -> AsyncIterator[bytes]:
    """Yield every event from the first page on, until the server closes or the caller loses access.

    Between two polls no thread and no transaction is held. If the store becomes unreachable, wait for it.
    """
    with watch.following():
        coming, after, spoke, seen, moved = first.events, first.next, monotonic(), -1, False
        while not watch.closing.is_set():
            for event in coming:
                yield b"id: %d\ndata: %b\n\n" % (event.seq, wire.encode(event))
            if coming:
                spoke = monotonic()
            elif not moved:
                if monotonic() - spoke > keep_alive:
                    spoke = monotonic()
                    yield b": keep-alive\n\n"
                await watch.wait_for_change(seen, keep_alive)
            seen = watch.wakeups
            try:
                answer = await page(after)
                coming, moved, after = answer.events, answer.next > after, answer.next
            except HoldfastError as error:
                if not error.retryable:
                    return
                coming, moved = (), False
