"""The library is synchronous: what asynchronous frameworks ask of it is done in a thread."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

R = TypeVar("R")


async def in_thread(work: Callable[[], R]) -> R:
    """Do something in a thread. One that is cancelled waits for its end, so that nothing is written behind its back."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
