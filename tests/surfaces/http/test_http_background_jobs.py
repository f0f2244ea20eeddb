"""Background jobs of the server."""

import asyncio

from serving import with_settings

import holdfast
from holdfast import Holdfast
from holdfast.kernel.errors import StoreBusy
from holdfast.surfaces.http.background_jobs import run_background_jobs, run_every
from timeouts import wait_until


def test_accesses_are_flushed_while_the_server_runs(hold: Holdfast) -> None:
    id = hold.store(title="Deploy day", content="Tuesdays.").id
    hold.recall(context="tuesdays")

    async def run() -> None:
        async with run_background_jobs(hold, flush_seconds=0):
            await asyncio.to_thread(wait_until, lambda: hold.get(id=id).access_count)

    asyncio.run(run())


def test_accesses_are_flushed_when_the_server_stops(hold: Holdfast) -> None:
    id = hold.store(title="Deploy day", content="Tuesdays.").id

    async def run() -> None:
        async with run_background_jobs(hold, flush_seconds=3600):
            hold.recall(context="tuesdays")

    asyncio.run(run())

    assert hold.get(id=id).access_count == 1


def test_expired_memories_are_collected_while_the_server_runs(db: str) -> None:
    clock = [1_800_000_000_000_000]
    with holdfast.open(db, now=lambda: clock[0]) as opened:
        opened.store(title="Soon gone", content="x", ttl_secs=60)
        clock[0] += 120_000_000

        async def run() -> None:
            async with run_background_jobs(with_settings(opened, gc_interval_secs=1)):
                await asyncio.to_thread(wait_until, lambda: not opened.gc(dry_run=True).collected)

        assert opened.gc(dry_run=True).collected == 1
        asyncio.run(run())


def test_a_failing_background_job_is_retried() -> None:
    tries: list[int] = []

    async def run() -> None:
        done = asyncio.Event()
        loop = asyncio.get_running_loop()

        def chore() -> None:
            tries.append(len(tries))
            if len(tries) < 3:
                raise StoreBusy if len(tries) == 1 else RuntimeError("anything")
            loop.call_soon_threadsafe(done.set)

        task = asyncio.create_task(run_every(0, chore))
        await done.wait()
        task.cancel()

    asyncio.run(run())

    assert tries[:3] == [0, 1, 2]
