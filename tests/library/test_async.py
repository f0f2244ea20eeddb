"""The library for asyncio: the same results, bounded threads, cancellation."""

import asyncio
import threading
from typing import Any

import pytest

import holdfast
from holdfast.kernel.context import Progress
from holdfast.kernel.errors import Invalid, OperationCancelled, StoreClosed, StoreNotFound


def test_methods_are_awaited_and_results_are_those_of_the_library(db: str) -> None:
    async def use() -> None:
        async with holdfast.aopen(db) as hold:
            stored = await hold.store("Plan", "We deploy on Tuesdays.")
            answers = await asyncio.gather(*(hold.recall("deploy", note=False) for _ in range(20)))
            assert all([memory.id for memory in answer] == [stored.id] for answer in answers)
            assert (await hold.call("get", {"id": stored.id})).created_at.endswith("Z")
            with pytest.raises(Invalid):
                await hold.recall("deploy", limit=51)
            with pytest.raises(AttributeError, match="recall"):
                getattr(hold, "recal")  # noqa: B009 - mypy would refuse it

    asyncio.run(use())


def test_a_store_is_open_only_inside_its_block(db: str) -> None:
    async def use() -> None:
        hold = holdfast.aopen(db)
        with pytest.raises(StoreClosed, match="async with"):
            await hold.list()
        async with hold:
            assert len(await hold.list()) == 0
        with pytest.raises(StoreClosed):
            await hold.list()
        await hold.aclose()
        with pytest.raises(StoreNotFound):
            async with holdfast.aopen(f"{db}-missing", make=False):
                pass

    asyncio.run(use())


def test_at_most_as_many_calls_run_as_there_are_threads(db: str) -> None:
    running, most, lock = [0], [0], threading.Lock()
    two = threading.Barrier(2)

    def work(hold: Any, progress: Progress) -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        two.wait()  # passes only with two at a time
        with lock:
            running[0] -= 1

    async def use() -> None:
        async with holdfast.aopen(db, threads=2) as hold:
            await asyncio.gather(*(hold.run(work) for _ in range(6)))

    asyncio.run(use())
    assert most == [2]


def test_a_cancelled_call_ends_before_it_commits(db: str) -> None:
    started, seen = threading.Event(), list[bool]()

    def work(hold: holdfast.Holdfast, progress: Progress) -> None:
        started.set()
        while True:
            try:
                hold.call("store", {"title": "Plan", "content": "x"}, progress=progress)
            except OperationCancelled:
                seen.append(True)
                raise
            hold.call("delete", {"id": hold.list()[0].id})

    async def use() -> None:
        async with holdfast.aopen(db, threads=1) as hold:
            task = asyncio.create_task(hold.run(work))
            waiting = asyncio.create_task(hold.store("Waiting", "for a thread"))
            await asyncio.to_thread(started.wait)
            waiting.cancel()
            task.cancel()
            results = await asyncio.gather(task, waiting, return_exceptions=True)
            assert [type(result) for result in results] == [asyncio.CancelledError] * 2
            assert seen == [True]
            assert len(await hold.list()) == 0

    asyncio.run(use())
