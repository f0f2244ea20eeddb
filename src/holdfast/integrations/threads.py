"""Run synchronous library calls in a thread, for asynchronous frameworks."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

R = TypeVar("R")


async def in_thread(work: Callable[[], R]) -> R:
    """Run work in a thread. When cancelled, wait for its end, so nothing is written after this returns."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
