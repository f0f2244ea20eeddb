"""Sampling: the model of the connected client is called over real pipes, with every possible reaction of the client."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp_wire import call, initialize, notification, stateless

from holdfast.kernel.errors import ModelFailed
from holdfast.surfaces.mcp.client_requests import ClientRequests
from holdfast.surfaces.mcp.stdio import Call
from timeouts import TIMEOUT

Message = dict[str, Any]
TEST = call(1, "memory_llm_test")


class Process:
    """`holdfast mcp` with the client's end of its pipes."""

    def __init__(self, running: "subprocess.Popen[bytes]") -> None:
        self._running = running

    def send(self, *messages: Message) -> None:
        assert self._running.stdin
        for message in messages:
            self._running.stdin.write(json.dumps(message).encode() + b"\n")
        self._running.stdin.flush()

    def reply(self) -> Message:
        assert self._running.stdout
        found: Message = json.loads(self._running.stdout.readline())
        return found

    def leave(self) -> list[Message]:
        """Return everything written after the client has disconnected."""
        out, _ = self._running.communicate()
        return [json.loads(line) for line in out.splitlines()]


@contextmanager
def start_process(folder: Path, **settings: str) -> Iterator[Process]:
    ours = {
        "db": str(folder / "m.db"),
        "llm": "sampling",
        "llm_timeout_secs": str(TIMEOUT),
        "embedder": "none",
        **settings,
    }
    environment = os.environ | {f"HOLDFAST_{name.upper()}": value for name, value in ours.items()}
    command = [sys.executable, "-m", "holdfast", "mcp", "--profile", "full"]
    running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    try:
        yield Process(running)
    finally:
        running.kill()
        running.wait()
        for pipe in (running.stdin, running.stdout):
            if pipe and not pipe.closed:
                pipe.close()


def shake_hands(client: Process, version: str = "2025-11-25", **capabilities: Any) -> None:
    hello = initialize(version=version)
    hello["params"]["capabilities"] = capabilities
    client.send(hello)
    client.reply()
    client.send(notification("notifications/initialized"))


def answer(asked: Message, text: str) -> Message:
    message = {"role": "assistant", "content": {"type": "text", "text": text}, "model": "claude-9", "stopReason": "end"}
    return {"jsonrpc": "2.0", "id": asked["id"], "result": message}


def material_of(asked: Message) -> str:
    text: str = asked["params"]["messages"][0]["content"]["text"]
    return text.partition(">>>\n")[2].partition("\n<<<end")[0]


def report(client: Process) -> Message:
    answer = client.reply()
    assert answer["id"] == 1
    found: Message = answer["result"]["structuredContent"]
    return found


@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25"])
def test_the_model_of_the_client_is_called_in_revisions_with_a_handshake(tmp_path: Path, version: str) -> None:
    with start_process(tmp_path, llm_model="claude") as client:
        shake_hands(client, version, sampling={})
        client.send(TEST)
        sampling_request = client.reply()
        assert sampling_request["method"] == "sampling/createMessage"
        assert sampling_request["params"]["systemPrompt"].startswith("You help to keep a memory")
        assert sampling_request["params"]["modelPreferences"] == {"hints": [{"name": "claude"}]}
        assert (sampling_request["params"]["maxTokens"], sampling_request["params"]["includeContext"]) == (256, "none")
        client.send(answer(sampling_request, json.dumps({"word": material_of(sampling_request)})))
        result = report(client)
    assert (result["status"], result["provider"], result["answered_by"]) == ("ok", "sampling", "claude-9")


def test_an_invalid_model_answer_is_requested_once_more(tmp_path: Path) -> None:
    with start_process(tmp_path) as client:
        shake_hands(client, sampling={})
        client.send(TEST)
        first = client.reply()
        client.send(answer(first, "Of course! The word is"))
        second = client.reply()
        assert "your previous answer" in second["params"]["messages"][0]["content"]["text"]
        client.send(answer(second, json.dumps({"word": material_of(second)})))
        assert report(client)["status"] == "ok"


def error(asked: Message) -> Message:
    return {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -1, "message": "User rejected: <<<secret>>>"}}


def with_result(result: Any) -> Callable[[Message], Message]:
    return lambda asked: {"jsonrpc": "2.0", "id": asked["id"], "result": result}


ENDS: dict[str, tuple[Callable[[Message], Message], str]] = {
    "declines": (error, "declined to ask its model (error -1)"),
    "a text": (with_result("hello"), "no message"),
    "nothing": (with_result({}), "sent a response that is not a message"),
    "an image": (with_result({"content": {"type": "image", "data": "AA=="}, "model": "m"}), "sent an empty answer"),
    "no content": (with_result({"content": 5}), "sent a response that is not a message"),
}


def test_a_client_without_a_usable_answer_is_reported(tmp_path: Path) -> None:
    with start_process(tmp_path) as client:
        shake_hands(client, sampling={})
        for reply, said in ENDS.values():
            client.send(TEST)
            client.send(reply(client.reply()))
            result = report(client)
            assert (result["status"], result["reachable"]) == ("critical", True)
            assert said in result["problem"]
            assert "secret" not in result["problem"]


def test_an_unanswered_sampling_request_is_cancelled(tmp_path: Path) -> None:
    with start_process(tmp_path, llm_timeout_secs="0.2") as client:
        shake_hands(client, sampling={})
        client.send(TEST)
        sampling_request, cancelled = client.reply(), client.reply()
        assert cancelled["method"] == "notifications/cancelled"
        assert cancelled["params"]["requestId"] == sampling_request["id"]
        assert "did not answer within 0.2 seconds" in report(client)["problem"]
        client.send(answer(sampling_request, "too late"))
        client.send(call(2, "memory_llm_usage"))
        assert client.reply()["id"] == 2


def test_a_cancelled_call_does_not_wait_for_an_answer(tmp_path: Path) -> None:
    with start_process(tmp_path) as client:
        shake_hands(client, sampling={})
        client.send(TEST)
        client.reply()
        client.send(notification("notifications/cancelled", {"requestId": 1}), call(2, "memory_llm_usage"))
        assert client.reply()["id"] == 2


def test_a_client_that_disconnects_is_not_awaited(tmp_path: Path) -> None:
    with start_process(tmp_path) as client:
        shake_hands(client, sampling={})
        client.send(TEST)
        client.reply()
        (answer,) = client.leave()
    assert "disconnected before its model answered" in answer["result"]["structuredContent"]["problem"]


def test_a_disconnected_client_is_not_asked_again() -> None:
    sent: list[Message] = []
    asking = ClientRequests(sent.append)
    asking.close()
    with pytest.raises(ModelFailed, match="disconnected before"):
        asking.ask(Call(), {}, 30)
    assert sent == []


def test_a_client_without_sampling_is_not_asked(tmp_path: Path) -> None:
    with start_process(tmp_path) as client:
        shake_hands(client)
        client.send(TEST)
        assert "no `sampling` capability" in report(client)["problem"]


def test_sampling_reports_a_revision_without_server_requests(tmp_path: Path) -> None:
    able = {"io.modelcontextprotocol/clientCapabilities": {"sampling": {}}}
    with start_process(tmp_path) as client:
        client.send(stateless(1, "tools/call", {"name": "memory_llm_test", "arguments": {}}, **able))
        assert "This revision of MCP" in report(client)["problem"]


def test_the_model_of_the_client_is_called_only_within_a_session(tmp_path: Path) -> None:
    environment = os.environ | {"HOLDFAST_LLM": "sampling", "HOLDFAST_DB": str(tmp_path / "m.db")}
    command = [sys.executable, "-m", "holdfast", "--json", "llm", "test"]
    ran = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert ran.returncode == 1
    assert "No agent with sampling support is connected" in json.loads(ran.stdout)["problem"]
