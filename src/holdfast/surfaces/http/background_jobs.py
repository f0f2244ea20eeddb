"""Background jobs of the server: flush access counts, run gc, sync with peers, deliver events."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace

from holdfast.app import Holdfast
from holdfast.features.recall import flush_access
from holdfast.features.sync.daemon import SyncDaemon
from holdfast.features.sync.quorum.service import Quorum
from holdfast.features.webhooks.deliver import Dispatcher
from holdfast.operations import REGISTRY

FLUSH_SECONDS = 5.0
log = logging.getLogger("holdfast")


@asynccontextmanager
async def run_background_jobs(holdfast: Holdfast, flush_seconds: float = FLUSH_SECONDS) -> AsyncIterator[None]:
    """Run the background jobs until the block ends, then flush the access counts."""
    if holdfast.embedding_worker is not None:
        holdfast.embedding_worker.watch()
    tasks = [asyncio.create_task(run_every(flush_seconds, lambda: flush_access.flush_access_log(holdfast.ctx)))]
    if holdfast.settings.gc_interval_secs and "gc" in REGISTRY:
        tasks.append(asyncio.create_task(run_every(holdfast.settings.gc_interval_secs, lambda: run_gc(holdfast))))
    try:
        with deliver_events(holdfast), require_quorum(holdfast), sync_with_peers(holdfast):
            yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(flush_access.flush_access_log, holdfast.ctx)


def run_gc(holdfast: Holdfast) -> None:
    """Run gc without waiting for a quorum."""
    REGISTRY["gc"].call(replace(holdfast.ctx, quorum=None), holdfast.ctx.caller, {})


@contextmanager
def deliver_events(holdfast: Holdfast) -> Iterator[None]:
    """Deliver events to subscribers until the block ends; a commit wakes the dispatcher at once."""
    before = holdfast.ctx
    dispatcher = Dispatcher(before)

    def wake_dispatcher() -> None:
        before.on_commit()
        dispatcher.wake()

    holdfast.ctx = replace(before, on_commit=wake_dispatcher)
    dispatcher.start()
    try:
        yield
    finally:
        holdfast.ctx = before
        dispatcher.stop()


@contextmanager
def require_quorum(holdfast: Holdfast) -> Iterator[None]:
    """Make writes wait for the quorum of the settings, if there is one, until the block ends."""
    settings, alone = holdfast.settings, holdfast.ctx
    if not settings.quorum_writes:
        yield
        return
    timeout = settings.quorum_timeout_ms / 1000
    quorum = Quorum(alone, needed=settings.quorum_writes, peers=settings.quorum_peers, timeout=timeout)
    quorum.start()
    holdfast.ctx = replace(alone, quorum=quorum)
    try:
        yield
    finally:
        holdfast.ctx = alone
        quorum.stop()


@contextmanager
def sync_with_peers(holdfast: Holdfast) -> Iterator[None]:
    """Sync with the peers of the settings, if there are any, until the block ends."""
    settings = holdfast.settings
    if not settings.sync_peers:
        yield
        return
    daemon = SyncDaemon(
        holdfast.ctx, settings.sync_peers, interval=settings.sync_interval_secs, batch=settings.sync_batch_size
    )
    daemon.start()
    try:
        yield
    finally:
        daemon.stop()


async def run_every(seconds: float, job: Callable[[], object]) -> None:
    """Run a job at an interval. A failure is logged; the next run tries again."""
    while True:
        await asyncio.sleep(seconds)
        try:
            await asyncio.to_thread(job)
        except Exception as error:  # noqa: BLE001 - the next run must come
            log.warning("A background job failed with %s and will be retried.", type(error).__name__)
