"""Background jobs of the server: flush access counts, run gc, sync with peers, deliver events."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace

from holdfast.app import Holdfast
from holdfast.features.recall import flush_access as use
from holdfast.operations import REGISTRY

FLUSH_SECONDS = 5.0
log = logging.getLogger("holdfast")


@asynccontextmanager
async def chores(holdfast: Holdfast, flush_seconds: float = FLUSH_SECONDS) -> AsyncIterator[None]:
    """Run the background jobs until the block ends, then flush the access counts."""
    if holdfast.making is not None:
        holdfast.making.watch()
    tasks = [asyncio.create_task(every(flush_seconds, lambda: use.flush(holdfast.hold)))]
    if holdfast.settings.gc_interval_secs and "gc" in REGISTRY:
        tasks.append(asyncio.create_task(every(holdfast.settings.gc_interval_secs, lambda: collect(holdfast))))
    try:
        with delivering(holdfast), quorate(holdfast), in_step(holdfast):
            yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(use.flush, holdfast.hold)


def collect(holdfast: Holdfast) -> None:
    """Run gc without waiting for a quorum."""
    REGISTRY["gc"].call(replace(holdfast.hold, quorum=None), holdfast.hold.caller, {})


@contextmanager
def delivering(holdfast: Holdfast) -> Iterator[None]:
    """Deliver events to subscribers until the block ends; a commit wakes the dispatcher at once."""
    from holdfast.features.webhooks.deliver import Dispatcher

    before = holdfast.hold
    dispatcher = Dispatcher(before)

    def kept() -> None:
        before.kept()
        dispatcher.wake()

    holdfast.hold = replace(before, kept=kept)
    dispatcher.start()
    try:
        yield
    finally:
        holdfast.hold = before
        dispatcher.stop()


@contextmanager
def quorate(holdfast: Holdfast) -> Iterator[None]:
    """Make writes wait for the quorum of the settings, if there is one, until the block ends."""
    settings, alone = holdfast.settings, holdfast.hold
    if not settings.quorum_writes:
        yield
        return
    from holdfast.features.sync.quorum.service import Quorum

    timeout = settings.quorum_timeout_ms / 1000
    quorum = Quorum(alone, needed=settings.quorum_writes, peers=settings.quorum_peers, timeout=timeout)
    quorum.start()
    holdfast.hold = replace(alone, quorum=quorum)
    try:
        yield
    finally:
        holdfast.hold = alone
        quorum.stop()


@contextmanager
def in_step(holdfast: Holdfast) -> Iterator[None]:
    """Sync with the peers of the settings, if there are any, until the block ends."""
    settings = holdfast.settings
    if not settings.sync_peers:
        yield
        return
    from holdfast.features.sync.daemon import Daemon

    daemon = Daemon(
        holdfast.hold, settings.sync_peers, interval=settings.sync_interval_secs, batch=settings.sync_batch_size
    )
    daemon.start()
    try:
        yield
    finally:
        daemon.stop()


async def every(seconds: float, chore: Callable[[], object]) -> None:
    """Run a job at an interval. A failure is logged; the next run tries again."""
    while True:
        await asyncio.sleep(seconds)
        try:
            await asyncio.to_thread(chore)
        except Exception as error:  # noqa: BLE001 - the next run must come
            log.warning("A background job failed with %s and will be retried.", type(error).__name__)
