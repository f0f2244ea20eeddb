"""A feed, live: pages that follow one another, as server-sent events."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from time import monotonic
from typing import Any

from starlette.requests import Request

from ...domain.errors import HoldfastError
from .. import wire

POLL_SECONDS = 0.25
KEEP_ALIVE_SECONDS = 15.0
MEDIA_TYPE = "text/event-stream"


def is_wanted(request: Request) -> bool:
    return request.method == "GET" and MEDIA_TYPE in request.headers.get("accept", "")


async def events(
    first: Any,
    page: Callable[[int], Awaitable[Any]],
    closing: asyncio.Event,
    poll: float = POLL_SECONDS,
    keep_alive: float = KEEP_ALIVE_SECONDS,
) -> AsyncIterator[bytes]:
    """Every event from a first page on, as it comes, until the server closes or the caller may see no more.

    Between two looks nothing is held: no thread, no transaction.
    """
    answer, spoke = first, monotonic()
    while not closing.is_set():
        for event in answer.events:
            yield b"id: %d\ndata: %b\n\n" % (event.seq, wire.encode(event))
        if answer.events:
            spoke = monotonic()
        else:
            if monotonic() - spoke > keep_alive:
                spoke = monotonic()
                yield b": keep-alive\n\n"
            with suppress(TimeoutError):
                await asyncio.wait_for(closing.wait(), poll)
        try:
            answer = await page(answer.next)
        except HoldfastError:
            return
