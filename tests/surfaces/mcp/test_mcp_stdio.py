"""The stdio loop: protocol versions, malformed lines, concurrent calls, cancellation, progress, shutdown."""

import os
from pathlib import Path
from typing import Any

import pytest
from mcp_wire import META, call, connect_client, connect_with_handshake, initialize, notification, request, stateless

import holdfast
from holdfast.surfaces.mcp.protocol import CAPABILITIES, HANDSHAKE_CAPABILITIES, INSTRUCTIONS, SERVER_INFO
from holdfast.surfaces.mcp.stdio import MAX_LINE_BYTES, LineReader

STAMP = {"resultType": "complete", "_meta": {"io.modelcontextprotocol/serverInfo": SERVER_INFO}}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_initialize_accepts_the_requested_revision(hold: holdfast.Holdfast, version: str) -> None:
    with connect_client(hold) as client:
        assert client.ask(initialize(7, version)) == {
            "jsonrpc": "2.0",
            "id": 7,
            "result": {
                "protocolVersion": version,
                "capabilities": HANDSHAKE_CAPABILITIES,
                "serverInfo": SERVER_INFO,
                "instructions": INSTRUCTIONS,
            },
        }


@pytest.mark.parametrize("version", ["1999-01-01", "2026-07-28", "draft", ""])
def test_initialize_offers_the_newest_handshake_for_an_unknown_revision(hold: holdfast.Holdfast, version: str) -> None:
    with connect_client(hold) as client:
        assert client.ask(initialize(1, version))["result"]["protocolVersion"] == "2025-11-25"


def test_a_request_before_initialize_is_refused_except_ping(hold: holdfast.Holdfast) -> None:
    with connect_client(hold) as client:
        assert client.ask(request(1, "ping"))["result"] == {}
        assert client.ask(request(2, "tools/list"))["error"]["code"] == -32602
        assert client.ask(request(3, "no/such/method"))["error"]["code"] == -32601
        assert "result" in client.ask(initialize(4))
        assert "result" in client.ask(request(5, "tools/list"))


def test_a_stateless_request_needs_no_handshake_and_its_answer_names_the_revision(hold: holdfast.Holdfast) -> None:
    with connect_client(hold) as client:
        assert client.ask(stateless(1, "server/discover"))["result"] == {
            "supportedVersions": ["2026-07-28"],
            "capabilities": {**CAPABILITIES, "extensions": {"io.modelcontextprotocol/skills": {"directoryRead": True}}},
            "instructions": INSTRUCTIONS,
            "ttlMs": 3_600_000,
            "cacheScope": "public",
            **STAMP,
        }
        called = client.ask(stateless(2, "tools/call", {"name": "memory_list", "arguments": {}}))["result"]
    assert {name: called[name] for name in STAMP} == STAMP
    assert "ttlMs" not in called


@pytest.mark.parametrize(
    ("method", "scope"),
    [
        ("tools/list", "public"),
        ("prompts/list", "public"),
        ("resources/templates/list", "public"),
        ("resources/list", "private"),
    ],
)
def test_a_stateless_list_has_its_cache_lifetime(hold: holdfast.Holdfast, method: str, scope: str) -> None:
    with connect_client(hold) as client:
        answer = client.ask(stateless(1, method))["result"]
    assert answer["cacheScope"] == scope
    assert answer["ttlMs"] == (3_600_000 if scope == "public" else 0)


def test_the_first_request_decides_the_protocol_version(hold: holdfast.Holdfast) -> None:
    with connect_client(hold) as client:
        client.send(notification("notifications/initialized"))
        assert "result" in client.ask(stateless(1, "tools/list"))
        late = client.ask(initialize(2))["error"]
        assert late["code"] == -32022
        assert late["data"] == {"supported": ["2026-07-28"], "requested": "2025-11-25"}
        assert client.ask(request(3, "ping"))["error"]["code"] == -32602
        assert client.ask(stateless(4, "ping"))["error"]["code"] == -32601
    with connect_with_handshake(hold) as client:
        assert client.ask(stateless(1, "tools/list"))["error"]["code"] == -32600
        assert client.ask(request(2, "server/discover"))["error"]["code"] == -32601


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({**META, "io.modelcontextprotocol/protocolVersion": "2027-01-01"}, -32022),
        ({**META, "io.modelcontextprotocol/protocolVersion": 5}, -32602),
        ({name: META[name] for name in META if "Capabilities" not in name}, -32602),
        ({**META, "io.modelcontextprotocol/clientCapabilities": []}, -32602),
        ({**META, "io.modelcontextprotocol/clientInfo": {"name": 5}}, -32602),
    ],
    ids=["unknown revision", "no text", "no capabilities", "odd capabilities", "odd client"],
)
def test_an_invalid_envelope_is_refused(hold: holdfast.Holdfast, meta: dict[str, Any], code: int) -> None:
    with connect_client(hold) as client:
        assert client.ask(request(1, "tools/list", {"_meta": meta}))["error"]["code"] == code


def test_an_unsupported_revision_gets_the_supported_ones(hold: holdfast.Holdfast) -> None:
    with connect_client(hold) as client:
        message = stateless(1, "tools/list", **{"io.modelcontextprotocol/protocolVersion": "2027-01-01"})
        assert client.ask(message)["error"]["data"] == {"supported": ["2026-07-28"], "requested": "2027-01-01"}


BAD_LINES: list[tuple[str, bytes, int]] = [
    ("not json", b"hello", -32700),
    ("cut off", b'{"jsonrpc":"2.0","id":1,"method":', -32700),
    ("invalid utf-8", b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}', -32700),
    ("two on a line", b'{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}', -32700),
    ("byte order mark", b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}', -32700),
    ("not a number", b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', -32700),
    ("nested deeply", b"[" * 100_000, -32700),
    ("lone surrogate", b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', -32700),
    ("batch", b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
    ("empty batch", b"[]", -32600),
    ("a text", b'"ping"', -32600),
    ("null", b"null", -32600),
    ("empty object", b"{}", -32600),
    ("id null", b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
    ("id a fraction", b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
    ("id a float", b'{"jsonrpc":"2.0","id":1.0,"method":"ping"}', -32600),
    ("id true", b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
    ("id a list", b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', -32600),
]


@pytest.mark.parametrize(("line", "code"), [case[1:] for case in BAD_LINES], ids=[case[0] for case in BAD_LINES])
def test_a_malformed_line_is_answered_without_an_id_and_the_next_one_is_served(
    hold: holdfast.Holdfast, line: bytes, code: int
) -> None:
    with connect_with_handshake(hold) as client:
        reply = client.ask(line)
        assert (reply["id"], reply["error"]["code"]) == (None, code)
        assert client.ask(request(2, "ping")) == {"jsonrpc": "2.0", "id": 2, "result": {}}


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"jsonrpc": "1.0", "id": 5, "method": "ping"}, -32600),
        ({"id": 5, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": 5}, -32600),
        ({"jsonrpc": "2.0", "id": 5, "method": 7}, -32600),
        ({"jsonrpc": "2.0", "id": 5, "method": "ping", "params": [1]}, -32602),
        ({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {}}, -32602),
        ({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": 5}}, -32602),
        (
            {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "memory_list", "arguments": 5}},
            -32602,
        ),
        ({"jsonrpc": "2.0", "id": 5, "method": "resources/read", "params": {}}, -32602),
        ({"jsonrpc": "2.0", "id": 5, "method": "no/such/method"}, -32601),
        ({"jsonrpc": "2.0", "id": 5, "method": ""}, -32601),
        ({"jsonrpc": "2.0", "id": 5, "method": "initialize", "params": {"protocolVersion": 5}}, -32602),
    ],
)
def test_a_malformed_request_with_a_readable_id_is_answered_with_it(
    hold: holdfast.Holdfast, message: dict[str, Any], code: int
) -> None:
    with connect_with_handshake(hold) as client:
        reply = client.ask(message)
    assert (reply["id"], reply["error"]["code"]) == (5, code)


@pytest.mark.parametrize("size", [MAX_LINE_BYTES + 1, 50 * 1024 * 1024])
def test_a_line_over_the_limit_is_refused_and_the_next_one_is_served(hold: holdfast.Holdfast, size: int) -> None:
    with connect_with_handshake(hold) as client:
        reply = client.ask(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * size)
        assert (reply["id"], reply["error"]["code"]) == (None, -32700)
        assert client.ask(request(2, "ping"))["id"] == 2


def test_a_line_at_the_limit_is_served(hold: holdfast.Holdfast) -> None:
    line = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"%s"}}'
    with connect_with_handshake(hold) as client:
        assert client.ask(line % (b"x" * (MAX_LINE_BYTES - len(line) + 2)))["id"] == 1


def test_lines_are_assembled_from_any_chunks(tmp_path: Path) -> None:
    read, write = os.pipe()
    source = LineReader(read).lines()
    for piece in (b'{"a', b'":1}\n{"b":2}\n', b"\r\n", b"{", b'"c":3}'):
        os.write(write, piece)
    os.close(write)
    assert list(source) == [b'{"a":1}', b'{"b":2}', b"\r", b'{"c":3}']


def test_blank_lines_and_unexpected_answers_are_ignored(hold: holdfast.Holdfast) -> None:
    with connect_with_handshake(hold) as client:
        client.send(b"", b"   ", b"\r", {"jsonrpc": "2.0", "id": 9, "result": {}})
        assert client.ask(request(1, "ping"))["id"] == 1


def test_a_flood_of_notifications_is_survived(hold: holdfast.Holdfast) -> None:
    with connect_with_handshake(hold) as client:
        client.send(*[notification("notifications/cancelled", {"requestId": number}) for number in range(5000)])
        client.send(*[notification("notifications/cancelled", {"requestId": odd}) for odd in (None, [], {}, 1.5, True)])
        assert client.ask(request(1, "ping"))["id"] == 1


def test_concurrent_calls_are_each_answered_once(hold: holdfast.Holdfast) -> None:
    numbers = range(200)
    with connect_with_handshake(hold) as client:
        for number in numbers:
            client.send(call(number, "memory_store", {"title": f"Note {number}", "content": "x"}))
        replies = client.rest()
    assert sorted(reply["id"] for reply in replies) == list(numbers)
    assert hold.list(limit=1000).count == len(numbers)


def test_a_call_sees_earlier_writes_on_the_same_connection(hold: holdfast.Holdfast) -> None:
    with connect_with_handshake(hold) as client:
        for number in range(50):
            client.send(call(f"s{number}", "memory_store", {"title": f"Note {number}", "content": f"canary{number}"}))
            client.send(call(f"r{number}", "memory_recall", {"context": f"canary{number}"}))
        replies = {reply["id"]: reply["result"]["structuredContent"] for reply in client.rest()}
    assert [replies[f"r{number}"]["memories"][0]["title"] for number in range(50)] == [
        f"Note {number}" for number in range(50)
    ]


def test_a_second_request_with_the_id_of_a_running_one_is_refused(hold: holdfast.Holdfast, db: str) -> None:
    with holdfast.open(db) as other, connect_with_handshake(hold) as client:
        with other.ctx.transaction():
            client.send(call(1, "memory_store", {"title": "a", "content": "b"}))
            again = client.ask(call(1, "memory_list"))
        assert (again["id"], again["error"]["code"]) == (None, -32600)
        assert client.reply()["id"] == 1


def test_a_cancelled_call_writes_nothing_and_gets_no_answer(hold: holdfast.Holdfast, db: str) -> None:
    with holdfast.open(db) as other, connect_with_handshake(hold) as client:
        with other.ctx.transaction():
            client.send(call("doomed", "memory_store", {"title": "a", "content": "b"}))
            client.send(notification("notifications/cancelled", {"requestId": "doomed"}))
            assert client.ask(request(1, "ping"))["id"] == 1
        assert client.ask(call(2, "memory_list"))["result"]["structuredContent"]["count"] == 0
        assert client.rest() == []
    assert hold.list().count == 0


def test_a_queued_call_is_cancelled_before_it_starts(hold: holdfast.Holdfast, db: str) -> None:
    with holdfast.open(db) as other, connect_with_handshake(hold) as client:
        with other.ctx.transaction():
            client.send(call("first", "memory_store", {"title": "a", "content": "b"}))
            client.send(call("second", "memory_store", {"title": "c", "content": "d"}))
            client.send(notification("notifications/cancelled", {"requestId": "second"}))
            assert client.ask(request(1, "ping"))["id"] == 1
        assert [reply["id"] for reply in client.rest()] == ["first"]
    assert [memory.title for memory in hold.list().memories] == ["a"]


def test_cancelling_a_finished_or_unknown_request_changes_nothing(hold: holdfast.Holdfast) -> None:
    with connect_with_handshake(hold) as client:
        assert client.ask(call(1, "memory_store", {"title": "a", "content": "b"}))["id"] == 1
        client.send(notification("notifications/cancelled", {"requestId": 1}))
        assert client.ask(call(1, "memory_list"))["result"]["structuredContent"]["count"] == 1


def test_a_read_continues_while_a_write_waits(hold: holdfast.Holdfast, db: str) -> None:
    with holdfast.open(db) as other, connect_with_handshake(hold, "full") as client:
        with other.ctx.transaction():
            assert client.ask(call(1, "memory_list"))["id"] == 1
            client.send(call(2, "memory_gc", {}))
            assert client.ask(call(3, "memory_list"))["id"] == 3
        assert client.reply()["id"] == 2


def test_progress_is_reported_to_the_requesting_token(hold: holdfast.Holdfast) -> None:
    items = [{"title": f"Note {number}", "content": "x"} for number in range(20)]
    with connect_with_handshake(hold, "lifecycle") as client:
        client.send(call(1, "memory_bulk_store", {"memories": items}, _meta={"progressToken": "t"}))
        replies = [client.reply() for _ in range(21)]
    progress = [reply["params"] for reply in replies[:-1]]
    assert {reply["method"] for reply in replies[:-1]} == {"notifications/progress"}
    assert [(said["progressToken"], said["progress"], said["total"]) for said in progress] == [
        ("t", number, 20) for number in range(20)
    ]
    assert replies[-1]["result"]["structuredContent"]["created"] == 20


@pytest.mark.parametrize("meta", [{}, {"_meta": {}}, {"_meta": {"progressToken": True}}, {"_meta": 5}])
def test_without_a_token_no_progress_is_reported(hold: holdfast.Holdfast, meta: dict[str, Any]) -> None:
    items = [{"title": f"Note {number}", "content": "x"} for number in range(20)]
    with connect_with_handshake(hold, "lifecycle") as client:
        assert client.ask(call(1, "memory_bulk_store", {"memories": items}, **meta))["id"] == 1


def test_requests_sent_before_the_client_left_are_answered(hold: holdfast.Holdfast, db: str) -> None:
    with holdfast.open(db) as other, connect_with_handshake(hold) as client:
        with other.ctx.transaction():
            client.send(call(1, "memory_store", {"title": "a", "content": "b"}))
            client.leave()
        assert [reply["id"] for reply in client.rest()] == [1]
    assert hold.list().count == 1


def test_a_last_line_without_a_newline_is_served(hold: holdfast.Holdfast) -> None:
    with connect_with_handshake(hold) as client:
        client.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
        assert client.rest() == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


def test_a_client_that_stops_reading_does_not_stop_the_loop(hold: holdfast.Holdfast) -> None:
    with connect_with_handshake(hold) as client:
        client.stop_reading()
        client.send(call(1, "memory_store", {"title": "a", "content": "b"}))
    assert hold.list().count == 1
