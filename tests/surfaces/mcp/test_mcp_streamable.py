"""MCP over HTTP: the same answers as over stdio, the same guard as all paths, and sessions bound to their opener."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import anyio
import apsw
import httpx
import mcp_types as types
import pytest
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_wire import call, initialize, notification, request, stateless

import holdfast
from holdfast.settings import Settings
from holdfast.surfaces.http.app import build_app
from holdfast.surfaces.mcp.streamable import Endpoint
from timeouts import TIMEOUT, wait_until

ACCEPT = {"accept": "application/json, text/event-stream"}


class Server(uvicorn.Server):
    """A uvicorn server that signals when it is listening."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = threading.Event()
        self.url = ""

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/mcp"
        self.listening.set()


@contextmanager
def serve_endpoint(hold: holdfast.Holdfast, profile: str = "core", **more: Any) -> Iterator[str]:
    """Yield the URL of a real server on a free port."""
    endpoint = Endpoint(hold, profile, **more)
    app = build_app(hold, (endpoint, endpoint.running()))
    server = Server(uvicorn.Config(app, port=0, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert server.listening.wait(TIMEOUT)
        yield server.url
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def url(hold: holdfast.Holdfast) -> Iterator[str]:
    with serve_endpoint(hold) as url:
        yield url


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def key_of(hold: holdfast.Holdfast, name: str, scope: str, **more: Any) -> str:
    key: str = hold.call("key_create", {"name": name, "scope": scope, **more}).key
    return key


def post(url: str, message: Any, **headers: str) -> httpx.Response:
    content = message if isinstance(message, bytes) else json.dumps(message).encode()
    return httpx.post(
        url, content=content, headers={"content-type": "application/json", **ACCEPT, **headers}, timeout=TIMEOUT
    )


def reply_of(response: httpx.Response) -> dict[str, Any]:
    """Return the reply in a response: JSON, or the last event of a stream."""
    text = response.text
    if response.headers["content-type"].startswith("text/event-stream"):
        text = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {")][-1]
    reply: dict[str, Any] = json.loads(text)
    return reply


def open_session(url: str, **headers: str) -> dict[str, str]:
    """Return the headers of a session of the newest handshake revision."""
    response = post(url, initialize(0), **headers)
    assert response.status_code == 200
    session = {"mcp-session-id": response.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25", **headers}
    assert post(url, notification("notifications/initialized"), **session).status_code == 202
    return session


def now(url: str, id: Any, method: str, params: dict[str, Any] | None = None, **headers: str) -> httpx.Response:
    """A request of the stateless revision."""
    name = {"mcp-name": params["name"]} if params and "name" in params else {}
    routing = {"mcp-protocol-version": "2026-07-28", "mcp-method": method, **name}
    return post(url, stateless(id, method, params), **routing, **headers)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_the_sdk_client_stores_and_recalls_in_both_protocol_versions(url: str, mode: str) -> None:
    async def drive() -> tuple[list[str], Any, Any]:
        async with Client(streamable_http_client(url), mode=mode) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            stored = await client.call_tool("memory_store", {"title": "Deploy", "content": "On Tuesdays."})
            found = await client.call_tool("memory_recall", {"context": "tuesdays"})
            return tools, stored.structured_content, found.structured_content

    tools, stored, found = anyio.run(drive)
    assert len(tools) == 7
    assert stored["agent_id"].startswith("ai:mcp@")
    assert stored["source"] == "nhi"
    assert [memory["id"] for memory in found["memories"]] == [stored["id"]]


def test_both_protocol_versions_give_the_same_answer_on_one_path(url: str, hold: holdfast.Holdfast) -> None:
    hold.store(title="Deploy", content="On Tuesdays.")
    old = reply_of(post(url, call(1, "memory_list"), **open_session(url)))["result"]
    new = reply_of(now(url, 1, "tools/call", {"name": "memory_list", "arguments": {}}))["result"]
    assert old == {name: new[name] for name in ("content", "structuredContent", "isError")}


def test_a_session_belongs_to_the_key_that_opened_it(hold: holdfast.Holdfast) -> None:
    first, second = key_of(hold, "first", "write"), key_of(hold, "second", "admin")
    with serve_endpoint(hold) as url:
        session = open_session(url, **bearer(first))
        stolen = {**session, **bearer(second)}
        assert post(url, call(1, "memory_list"), **stolen).status_code == 404
        assert httpx.delete(url, headers=stolen, timeout=TIMEOUT).status_code == 404
        assert httpx.get(url, headers={**stolen, "accept": "text/event-stream"}, timeout=TIMEOUT).status_code == 404
        assert post(url, notification("notifications/cancelled", {"requestId": 1}), **stolen).status_code == 404
        assert post(url, call(1, "memory_list"), **{**session, "authorization": ""}).status_code == 401
        assert reply_of(post(url, call(2, "memory_list"), **session))["result"]["isError"] is False


def test_a_session_belongs_to_the_agent_of_its_header(hold: holdfast.Holdfast) -> None:
    with serve_endpoint(hold) as url:
        session = open_session(url, **{"x-agent-id": "ai:one@here"})
        assert post(url, call(1, "memory_list"), **{**session, "x-agent-id": "ai:two@here"}).status_code == 404
        stored = reply_of(post(url, call(2, "memory_store", {"title": "a", "content": "b"}), **session))
    assert stored["result"]["structuredContent"]["agent_id"] == "ai:one@here"


def test_a_forged_session_is_not_found(url: str) -> None:
    for session in ("0" * 32, "x", "../../etc", "a" * 5000):
        headers = {"mcp-session-id": session, "mcp-protocol-version": "2025-11-25"}
        assert post(url, call(1, "memory_list"), **headers).status_code == 404, session
        assert httpx.delete(url, headers=headers, timeout=TIMEOUT).status_code == 404, session


def test_an_ended_session_is_not_found(url: str) -> None:
    session = open_session(url)
    assert httpx.delete(url, headers=session, timeout=TIMEOUT).status_code == 200
    assert post(url, call(1, "memory_list"), **session).status_code == 404


def test_a_read_key_cannot_write_in_either_protocol_version(hold: holdfast.Holdfast) -> None:
    key = bearer(key_of(hold, "reader", "read"))
    tool = {"name": "memory_store", "arguments": {"title": "a", "content": "b"}}
    with serve_endpoint(hold) as url:
        old = reply_of(post(url, request(1, "tools/call", tool), **open_session(url, **key)))["result"]
        new = reply_of(now(url, 1, "tools/call", tool, **key))["result"]
    assert [answer["structuredContent"]["code"] for answer in (old, new)] == ["FORBIDDEN", "FORBIDDEN"]
    assert hold.list().count == 0


def test_a_key_sees_only_its_namespaces(hold: holdfast.Holdfast) -> None:
    id = hold.store(title="Secret", content="canary", namespace="other").id
    key = bearer(key_of(hold, "team", "read", namespaces=["team"]))
    tool = {"name": "memory_recall", "arguments": {"context": "canary"}}
    with serve_endpoint(hold) as url:
        assert reply_of(now(url, 1, "tools/call", tool, **key))["result"]["structuredContent"]["memories"] == []
        assert reply_of(now(url, 2, "resources/list", **key))["result"]["resources"] == []
        session = open_session(url, **key)
        read = reply_of(post(url, request(3, "resources/read", {"uri": f"memory://{id}"}), **session))
    assert read["error"]["code"] == -32002


def test_a_foreign_site_is_refused(url: str) -> None:
    for host in ("evil.example", "localhost.evil.example"):
        assert post(url, initialize(1), host=host).status_code == 421, host
    for origin in ("http://evil.example", "null"):
        assert post(url, initialize(1), origin=origin).status_code == 403, origin


@pytest.mark.full
def test_a_body_over_the_limit_is_refused_before_it_is_read(db: str) -> None:
    with holdfast.open(settings=Settings(db=db, body_limit=4096)) as hold, serve_endpoint(hold) as url:
        session = open_session(url)
        tool = call(1, "memory_store", {"title": "a", "content": "x" * 5000})
        assert post(url, tool, **session).status_code == 413
        assert reply_of(post(url, call(2, "memory_list"), **session))["result"]["structuredContent"]["count"] == 0


def test_a_malformed_body_is_a_client_error_in_either_protocol_version(url: str) -> None:
    for body in (b"hello", b"\xff", b"[]", b'{"jsonrpc":"2.0","id":1}', b"[" * 50_000, b"5"):
        for headers in (open_session(url), {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list"}):
            assert post(url, body, **headers).status_code == 400, body
        assert reply_of(now(url, 1, "tools/list"))["id"] == 1, body


def test_a_cancelled_call_writes_nothing(url: str, db: str) -> None:
    session = open_session(url)
    doomed = call("doomed", "memory_store", {"title": "a", "content": "b"})
    with holdfast.open(db) as other:
        with (
            other.ctx.transaction(),
            httpx.stream("POST", url, json=doomed, headers={**ACCEPT, **session}, timeout=TIMEOUT) as answer,
        ):
            cancelled = notification("notifications/cancelled", {"requestId": "doomed"})
            assert post(url, cancelled, **session).status_code == 202
            assert reply_of(post(url, request(1, "ping"), **session))["result"] == {}
            body = answer.read()
        assert b'"result"' not in body
        assert reply_of(post(url, call(2, "memory_list"), **session))["result"]["structuredContent"]["count"] == 0


@pytest.mark.full
def test_a_call_that_times_out_writes_nothing_and_reports_it(db: str) -> None:
    tool = {"name": "memory_store", "arguments": {"title": "a", "content": "b"}}
    settings = Settings(db=db, timeout_secs=0.2)
    with holdfast.open(settings=settings) as hold, serve_endpoint(hold, grace=0.05) as url, holdfast.open(db) as other:
        with other.ctx.transaction():
            answer = reply_of(now(url, 1, "tools/call", tool))["result"]
        assert (answer["isError"], answer["structuredContent"]["code"]) == (True, "TIMED_OUT")
        assert other.list().count == 0


@pytest.mark.full
def test_a_call_whose_commit_outlasts_the_timeout_is_not_reported_as_unwritten(db: str) -> None:
    tool = {"name": "memory_store", "arguments": {"title": "a", "content": "b"}}
    settings, disk = Settings(db=db, timeout_secs=0.2), threading.Event()

    def slow_disk(connection: apsw.Connection) -> None:
        connection.set_commit_hook(lambda: not disk.wait(TIMEOUT))

    with holdfast.open(settings=settings) as hold, serve_endpoint(hold, grace=0.05) as url:
        apsw.connection_hooks.append(slow_disk)
        try:
            answer = reply_of(now(url, 1, "tools/call", tool))["result"]
        finally:
            apsw.connection_hooks.remove(slow_disk)
            disk.set()
        assert (answer["isError"], answer["structuredContent"]["code"]) == (True, "OUTCOME_UNKNOWN")
        wait_until(lambda: hold.list().count)


@pytest.mark.full
def test_writers_waiting_for_the_store_do_not_block_readers(db: str) -> None:
    impatient = Settings(db=db, timeout_secs=3)
    with holdfast.open(settings=impatient) as hold, serve_endpoint(hold) as url, holdfast.open(db) as other:
        session = open_session(url)
        with ExitStack() as waiting, other.ctx.transaction():
            for number in range(20):
                write = call(f"w{number}", "memory_store", {"title": f"T {number}", "content": "x"})
                waiting.enter_context(
                    httpx.stream("POST", url, json=write, headers={**ACCEPT, **session}, timeout=TIMEOUT)
                )
            assert reply_of(post(url, call(1, "memory_list"), **session))["result"]["structuredContent"]["count"] == 0


@pytest.mark.full
def test_progress_reaches_the_client_before_the_answer(hold: holdfast.Holdfast) -> None:
    items = [{"title": f"Note {number}", "content": "x"} for number in range(10)]
    message = call(1, "memory_bulk_store", {"memories": items}, _meta={"progressToken": "t"})
    with serve_endpoint(hold, "lifecycle") as url:
        response = post(url, message, **open_session(url))
    messages = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    assert [one["params"]["progress"] for one in messages[:-1]] == list(range(10))
    assert messages[-1]["result"]["structuredContent"]["created"] == 10


@pytest.mark.full
def test_the_number_of_open_sessions_is_limited(hold: holdfast.Holdfast) -> None:
    with serve_endpoint(hold, max_sessions=2) as url:
        first, second = open_session(url), open_session(url)
        assert post(url, initialize(1)).status_code == 503
        assert reply_of(post(url, call(1, "memory_list"), **second))["id"] == 1
        assert reply_of(now(url, 1, "tools/list"))["id"] == 1
        assert httpx.delete(url, headers=first, timeout=TIMEOUT).status_code == 200
        assert post(url, initialize(2)).status_code == 200


ModelReply = types.CreateMessageResult | types.ErrorData


def asked_over_http(hold: holdfast.Holdfast, mode: str, said: Callable[[str], ModelReply]) -> dict[str, Any]:
    """Return the report of `llm test` for the official client with a fake model."""

    async def model(_: Any, params: types.CreateMessageRequestParams) -> ModelReply:
        (content,) = params.messages[0].content_as_list
        assert isinstance(content, types.TextContent)
        return said(content.text.partition(">>>\n")[2].partition("\n<<<end")[0])

    async def talk(url: str) -> dict[str, Any]:
        async with Client(streamable_http_client(url), mode=mode, sampling_callback=model) as client:
            result = await client.call_tool("memory_llm_test", {})
            assert result.structured_content
            return result.structured_content

    with serve_endpoint(hold, "full") as url:
        return anyio.run(talk, url)


@pytest.fixture
def sampling(db: str) -> Iterator[holdfast.Holdfast]:
    with holdfast.app.open(settings=Settings(db=db, llm="sampling", llm_timeout_secs=0.5)) as opened:
        yield opened


@pytest.mark.full
def test_the_model_of_the_client_is_called_on_the_stream_of_the_call(sampling: holdfast.Holdfast) -> None:
    def make_reply(word: str) -> ModelReply:
        content = types.TextContent(text=json.dumps({"word": word}))
        return types.CreateMessageResult(role="assistant", content=content, model="claude-9")

    result = asked_over_http(sampling, "legacy", make_reply)
    assert (result["status"], result["answered_by"]) == ("ok", "claude-9")


@pytest.mark.full
def test_a_client_that_declines_over_http_is_reported(sampling: holdfast.Holdfast) -> None:
    result = asked_over_http(sampling, "legacy", lambda _: types.ErrorData(code=-1, message="no"))
    assert "declined to ask its model (error -1)" in result["problem"]
    assert result["reachable"]


@pytest.mark.full
def test_a_silent_client_over_http_is_awaited_only_until_the_timeout(sampling: holdfast.Holdfast) -> None:
    async def hanging(*_: Any) -> ModelReply:
        await anyio.sleep_forever()
        raise AssertionError

    async def talk(url: str) -> Any:
        async with Client(streamable_http_client(url), mode="legacy", sampling_callback=hanging) as client:
            return (await client.call_tool("memory_llm_test", {})).structured_content

    with serve_endpoint(sampling, "full") as url:
        assert "did not answer within 0.5 seconds" in anyio.run(talk, url)["problem"]


@pytest.mark.full
def test_sampling_over_http_reports_a_stateless_revision(sampling: holdfast.Holdfast) -> None:
    result = asked_over_http(sampling, "2026-07-28", lambda _: types.ErrorData(code=-1, message="no"))
    assert "This revision of MCP" in result["problem"]
