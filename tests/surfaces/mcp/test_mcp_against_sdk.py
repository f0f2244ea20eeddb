"""One script sent to our loop and to the SDK's server gets the same answers, compared by id."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest
from mcp_wire import META, call, connect_client, initialize, notification, request, stateless

import holdfast

How = Literal["same", "text", "silent"]
"""The same reply; the same error code in other words; or nothing from the SDK where we answer."""


class Step(NamedTuple):
    message: dict[str, Any] | bytes
    how: How = "same"
    why: str = ""


WORDS = "the error's text is ours: it names the fault"
LOST = "the SDK drops a line that it cannot read, and its client waits for ever"


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in META.items() if not name.endswith(key)}


HANDSHAKE = [
    Step(request(1, "ping")),
    Step(request(2, "tools/list"), "text", WORDS),
    Step(request(3, "no/such/method")),
    Step(initialize(4, "2025-06-18")),
    Step(notification("notifications/initialized")),
    Step(request(5, "ping")),
    Step(request(6, "tools/list")),
    Step(call(7, "memory_store", {"title": "Deploy", "content": "On Tuesdays.", "tags": ["ops"]})),
    Step(call(8, "memory_recall", {"context": "tuesdays"})),
    Step(call(9, "memory_store", {"title": "Deploy"})),
    Step(call(10, "memory_get", {"id": "nowhere"})),
    Step(call(11, "memory_nonsense")),
    Step(call("twelve", "memory_delete", {"id": "x"})),
    Step(request(13, "tools/call", {"name": "memory_list"})),
    Step(request(14, "tools/call", {"arguments": {}}), "text", WORDS),
    Step(request(15, "tools/call", {"name": "memory_list", "arguments": [1]}), "text", WORDS),
    Step(request(16, "resources/list")),
    Step(request(17, "resources/templates/list")),
    Step(request(18, "resources/read", {"uri": "memory://nowhere"})),
    Step(request(19, "prompts/list")),
    Step(request(20, "prompts/get", {"name": "recall-first", "arguments": {"namespace": "team"}})),
    Step(request(21, "prompts/get", {"name": "nonsense"})),
    Step(request(22, "server/discover")),
    Step(request(23, "logging/setLevel", {"level": "info"})),
    Step(stateless(24, "tools/list"), "text", WORDS),
    Step(initialize(25, "1999-01-01")),
    Step(request(26, "tools/list", {"cursor": "x"})),
    Step({"jsonrpc": "2.0", "id": 27, "method": "initialize", "params": {}}, "text", WORDS),
    Step(b"hello", "silent", LOST),
    Step(b'{"jsonrpc":"2.0","id":28,"method":"ping"} {}', "silent", LOST),
    Step(b"\xff\xfe", "silent", LOST),
    Step([], "silent", LOST),  # type: ignore[arg-type]
    Step({"jsonrpc": "1.0", "id": 29, "method": "ping"}, "silent", LOST),
    Step({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, "silent", "the SDK takes it for a notification"),
    Step(request(30, "ping")),
]

STATELESS = [
    Step(stateless(1, "server/discover")),
    Step(stateless(2, "tools/list")),
    Step(stateless(3, "tools/call", {"name": "memory_store", "arguments": {"title": "a", "content": "canary"}})),
    Step(stateless(4, "tools/call", {"name": "memory_recall", "arguments": {"context": "canary"}})),
    Step(stateless(5, "tools/call", {"name": "memory_get", "arguments": {"id": "nowhere"}})),
    Step(stateless(6, "tools/call", {"name": "memory_nonsense"})),
    Step(stateless(7, "resources/list")),
    Step(stateless(8, "resources/templates/list")),
    Step(stateless(9, "resources/read", {"uri": "memory://nowhere"})),
    Step(stateless(10, "prompts/list")),
    Step(stateless(11, "prompts/get", {"name": "memory-workflow"})),
    Step(stateless(12, "ping")),
    Step(stateless(13, "resources/subscribe", {"uri": "memory://x"})),
    Step(initialize(14), "text", WORDS),
    Step(request(15, "tools/list"), "text", WORDS),
    Step(request(16, "tools/list", {"_meta": without("clientCapabilities")}), "text", WORDS),
    Step(request(17, "tools/list", {"_meta": without("clientInfo")})),
    Step(stateless(18, "tools/list", **{"io.modelcontextprotocol/protocolVersion": "2027-01-01"})),
    Step(stateless(19, "tools/list", **{"io.modelcontextprotocol/protocolVersion": 5}), "text", WORDS),
    Step(stateless(20, "tools/list", **{"io.modelcontextprotocol/clientInfo": {"name": 5}}), "text", WORDS),
    Step(stateless(21, "no/such/method")),
    Step(stateless(23, "skills/list")),
    Step(stateless(24, "skills/get", {"uri": "skill://global/deploy/SKILL.md"})),
    Step(stateless(25, "skills/get", {"uri": "skill://nowhere/SKILL.md"})),
    Step(stateless(26, "resources/directory/read", {"uri": "skill://global/deploy"})),
    Step(stateless(27, "resources/read", {"uri": "skill://global/deploy/SKILL.md"})),
]

_VARIES = [
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "ID"),
    (re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z"), "TIME"),
    (re.compile(r"(memory|answer|between the) [0-9a-f]{16}"), r"\1 MARK"),
    (re.compile(r'(tokens_used\\?": ?)[0-9]+'), r"\g<1>0"),  # the SDK limits an id by its characters
]


def normalize(reply: dict[str, Any]) -> Any:
    """Return a reply without the parts that differ between runs."""
    text = json.dumps(reply, sort_keys=True)
    for varies, name in _VARIES:
        text = varies.sub(name, text)
    return json.loads(text)


def line(message: Any) -> bytes:
    return message if isinstance(message, bytes) else json.dumps(message).encode()


def ours(path: Path, script: list[Step]) -> list[dict[str, Any] | None]:
    with holdfast.open(str(path)) as hold, connect_client(hold) as client:
        return [
            client.send(line(step.message)) if is_notification(step.message) else client.ask(line(step.message))
            for step in script
        ]


def theirs(path: Path, script: list[Step]) -> list[dict[str, Any] | None]:
    server = Path(__file__).with_name("sdk_stdio_server.py")
    with subprocess.Popen(
        [sys.executable, str(server), str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        replies = [ask_process(process, step) for step in script]
        process.stdin.close()
    return replies


def ask_process(process: "subprocess.Popen[bytes]", step: Step) -> dict[str, Any] | None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line(step.message) + b"\n")
    process.stdin.flush()
    if step.how == "silent" or is_notification(step.message):
        return None
    reply: dict[str, Any] = json.loads(process.stdout.readline())
    return reply


def is_notification(message: Any) -> bool:
    return isinstance(message, dict) and "id" not in message


@pytest.fixture(params=[HANDSHAKE, STATELESS], ids=["handshake", "stateless"])
def reply_pairs(request: pytest.FixtureRequest, tmp_path: Path) -> list[tuple[Step, Any, Any]]:
    first, second = tmp_path / "ours.db", tmp_path / "theirs.db"
    with holdfast.open(str(first)) as hold:
        hold.skill_register(inline_skill="---\nname: deploy\ndescription: How.\n---\nOn Tuesdays.\n")
    shutil.copy(first, second)
    script: list[Step] = request.param
    return list(zip(script, ours(first, script), theirs(second, script), strict=True))


def test_the_loop_replies_like_the_sdk(reply_pairs: list[tuple[Step, Any, Any]]) -> None:
    for step, own, other in reply_pairs:
        if own is None:
            continue
        match step.how:
            case "same":
                assert normalize(own) == normalize(other), step
            case "text":
                assert own["error"].pop("message") != other["error"].pop("message"), step
                assert (own["id"], own["error"]["code"]) == (other["id"], other["error"]["code"]), step
            case "silent":
                assert own["error"]["code"] in (-32700, -32600), step


def test_most_steps_of_the_script_get_equal_replies() -> None:
    steps = HANDSHAKE + STATELESS
    assert len(steps) >= 50
    assert sum(step.how == "same" for step in steps) >= 38
    assert all(step.why for step in steps if step.how != "same")
