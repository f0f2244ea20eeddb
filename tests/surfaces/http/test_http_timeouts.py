"""HTTP timeouts: a request that timed out or was abandoned has written nothing."""

import asyncio
import socket
import threading
from contextlib import closing, suppress
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from serving import LOCAL, open_http_client, serve_app, store_over_http, with_settings

from holdfast import Holdfast
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.errors import OperationCancelled, OutcomeUnknown
from holdfast.kernel.registry.operation import Effect, EmptyRequest, Registry
from holdfast.operations import REGISTRY
from holdfast.surfaces.http.app import build_app
from holdfast.surfaces.http.thread_pool import TimedThreadPool
from timeouts import TIMEOUT

begun = threading.Event()
slow = Registry()
slow.add(REGISTRY)


def wait_for_cancellation(progress: Progress) -> None:
    """Return after the caller has given up."""
    begun.set()
    pause = threading.Event()
    with suppress(OperationCancelled):
        while True:
            progress.check()
            pause.wait(0.002)


@slow.operation(Effect.WRITE, "POST /held")
def write_until_stopped(ctx: Context, request: EmptyRequest, progress: Progress) -> EmptyRequest:
    """Write, be cancelled, and try to commit nevertheless."""
    with ctx.transaction() as write:
        write.session.do("meta_put", name="held", body="{}")
        wait_for_cancellation(progress)
    return EmptyRequest()


@slow.operation(Effect.WRITE, "POST /late")
def late(ctx: Context, request: EmptyRequest, progress: Progress) -> EmptyRequest:
    """Write, commit, and be cancelled only afterwards."""
    with ctx.transaction() as write:
        write.session.do("meta_put", name="late", body="{}")
    wait_for_cancellation(progress)
    return EmptyRequest()


@pytest.fixture(autouse=True)
def reset_events() -> None:
    begun.clear()


def written_names(hold: Holdfast) -> list[str]:
    with hold.ctx.reading() as session:
        return [name for name, _ in session.rows("meta_list")]


def test_a_timed_out_request_writes_nothing(hold: Holdfast) -> None:
    with open_http_client(hold, slow, timeout_secs=0.05) as client:
        answer = client.post("/held")

        assert (answer.status_code, answer.json()) == (
            504,
            {"error": "The request took too long and was stopped; nothing was written.", "code": "TIMED_OUT"},
        )
        assert written_names(hold) == []
        store_over_http(client)


def test_a_request_that_commits_before_its_timeout_succeeds(hold: Holdfast) -> None:
    with open_http_client(hold, slow, timeout_secs=0.05) as client:
        assert client.post("/late").status_code == 200
        assert written_names(hold) == ["late"]


def test_a_request_that_gets_no_thread_is_refused_in_time(hold: Holdfast) -> None:
    app = build_app(with_settings(hold, timeout_secs=0.2), operations=slow)
    with serve_app(app) as url, httpx.Client(base_url=url, timeout=TIMEOUT) as client:
        answers = in_parallel(20, lambda: client.post("/held").status_code)

        assert answers == [504] * 20
        assert written_names(hold) == []
        assert client.get("/health", timeout=TIMEOUT).status_code == 200


def in_parallel(count: int, ask: Any) -> list[int]:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(count) as pool:
        return [job.result() for job in [pool.submit(ask) for _ in range(count)]]


def test_waiting_writers_do_not_block_readers(hold: Holdfast) -> None:
    app = build_app(with_settings(hold, timeout_secs=TIMEOUT), operations=slow)

    async def ask_while_writing() -> tuple[int, list[bool]]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=LOCAL) as client:
            writers = [asyncio.create_task(client.post("/held")) for _ in range(40)]
            await asyncio.to_thread(begun.wait)
            read = await client.get("/api/v1/memories")
            ended = [writer.done() for writer in writers]
            for writer in writers:
                writer.cancel()
            await asyncio.gather(*writers, return_exceptions=True)
            return read.status_code, ended

    assert asyncio.run(ask_while_writing()) == (200, [False] * 40)
    assert written_names(hold) == []


def test_a_disconnected_request_writes_nothing(hold: Holdfast) -> None:
    app = build_app(hold, operations=slow)
    sent: list[Any] = []

    async def call() -> None:
        coming = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> Any:
            if coming:
                return coming.pop()
            await asyncio.to_thread(begun.wait)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await app(post("/held"), receive, send)

    asyncio.run(call())

    assert sent[0]["status"] == 499
    assert written_names(hold) == []


def post(path: str) -> dict[str, Any]:
    return {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "http_version": "1.1",
        "scheme": "http",
        "root_path": "",
    }


def test_a_client_that_disconnects_leaves_nothing_behind(hold: Holdfast) -> None:
    with serve_app(build_app(hold, operations=slow)) as url:
        with closing(connection(url)) as caller:
            caller.sendall(b"POST /held HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n")
            begun.wait()
        with httpx.Client(base_url=url, timeout=TIMEOUT) as client:
            store_over_http(client)
    assert written_names(hold) == []


def connection(url: str) -> socket.socket:
    parts = urlsplit(url)
    assert parts.hostname
    return socket.create_connection((parts.hostname, parts.port or 80))


def test_an_endless_body_is_refused(hold: Holdfast) -> None:
    head = b"POST /api/v1/memories HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    with serve_app(build_app(with_settings(hold, timeout_secs=0.1))) as url:
        for rest in (b'content-length: 100\r\n\r\n{"title"', b"transfer-encoding: chunked\r\n\r\n5\r\n12345\r\n"):
            with closing(connection(url)) as caller:
                caller.sendall(head + rest)
                assert caller.recv(100).startswith(b"HTTP/1.1 400 ")


def test_callers_with_unfinished_requests_do_not_block_others(hold: Holdfast) -> None:
    with serve_app(build_app(hold)) as url, httpx.Client(base_url=url, timeout=TIMEOUT) as client:
        idle = [connection(url) for _ in range(200)]
        for caller in idle:
            caller.sendall(b"POST /api/v1/memories HTTP/1.1\r\nhost: localhost\r\ncontent-ty")
        stored = store_over_http(client)
        assert client.get(f"/api/v1/memories/{stored['id']}").status_code == 200
        for caller in idle:
            caller.close()


@pytest.mark.parametrize(
    "request_line", [b"GET /api/v1/memories HTTP/9.9", b"\x00\x01\x02", b"GET", b"GET / HTTP/1.1\r\nbad header"]
)
def test_non_http_data_is_refused_and_the_server_continues(hold: Holdfast, request_line: bytes) -> None:
    with serve_app(build_app(hold)) as url:
        with closing(connection(url)) as caller:
            caller.sendall(request_line + b"\r\nhost: localhost\r\n\r\n")
            assert not caller.recv(100).startswith((b"HTTP/1.1 2", b"HTTP/1.1 5"))
        assert httpx.get(f"{url}/health", timeout=TIMEOUT).status_code == 200


def test_a_commit_outlasting_the_timeout_is_not_reported_as_unwritten() -> None:
    done = threading.Event()

    def commits(progress: Progress) -> None:
        progress.begin_commit()
        done.wait()

    async def run_commit() -> None:
        threads = TimedThreadPool(0.05, grace=0.05)
        try:
            await threads.run(commits)
        finally:
            done.set()
            threads.close()

    with pytest.raises(OutcomeUnknown):
        asyncio.run(run_commit())
