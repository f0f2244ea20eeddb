"""`holdfast mcp` as a process: works with the official client, clean output, clean exit."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

import holdfast
from timeouts import TIMEOUT, wait_until

pytestmark = pytest.mark.full

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tester", "version": "1"}}

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(db: str) -> Iterator[Start]:
    """Start a server on this test's store; it is stopped at the end."""
    started: list[subprocess.Popen[bytes]] = []

    def run(*command: str, **more: Any) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            command or mcp(db), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def mcp(db: str, *more: str) -> list[str]:
    return [sys.executable, "-c", "from holdfast.__main__ import main; main()", "mcp", "--db", db, *more]


def tell(process: "subprocess.Popen[bytes]", id: Any, method: str, params: dict[str, Any] | None = None) -> None:
    assert process.stdin is not None
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()


def ask(process: "subprocess.Popen[bytes]", id: Any, method: str, params: dict[str, Any] | None = None) -> Any:
    assert process.stdout is not None
    tell(process, id, method, params)
    return json.loads(process.stdout.readline())


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28", "auto"])
def test_the_official_client_works_with_every_protocol_version(db: str, mode: str) -> None:
    async def drive() -> dict[str, Any]:
        command, *arguments = mcp(db)
        server = stdio_client(StdioServerParameters(command=command, args=arguments))
        async with Client(server, mode=mode) as client:
            stored = await client.call_tool("memory_store", {"title": "Deploy", "content": "On Tuesdays."})
            assert stored.structured_content is not None
            uri = f"memory://{stored.structured_content['id']}"
            return {
                "version": client.protocol_version,
                "tools": len((await client.list_tools()).tools),
                "found": (await client.call_tool("memory_recall", {"context": "tuesdays"})).structured_content,
                "wrong": (await client.call_tool("memory_get", {"id": "nowhere"})).is_error,
                "resources": [str(one.uri) for one in (await client.list_resources()).resources],
                "read": (await client.read_resource(uri)).contents[0],
                "prompts": [prompt.name for prompt in (await client.list_prompts()).prompts],
                "prompt": (await client.get_prompt("recall-first", {"namespace": "team"})).messages[0].content,
                "uri": uri,
            }

    seen = anyio.run(drive)
    assert seen["version"] == ("2025-11-25" if mode == "legacy" else "2026-07-28")
    assert (seen["tools"], seen["wrong"]) == (7, True)
    assert seen["found"]["count"] == 1
    assert seen["resources"] == [seen["uri"]]
    assert "On Tuesdays." in seen["read"].text
    assert seen["prompts"] == ["recall-first", "memory-workflow"]
    assert "namespace team" in seen["prompt"].text


LOUD = """
import os, subprocess, sys
import holdfast
import holdfast.operations
from holdfast.kernel.registry.operation import REGISTRY, Effect, EmptyRequest, operation
from holdfast.kernel.context import Context
from msgspec import Struct
from holdfast.surfaces.mcp.stdio import serve

class ShoutResult(Struct):
    done: bool

@operation(Effect.READ, "GET /api/v1/shout")
def shout(ctx: Context, request: EmptyRequest) -> ShoutResult:
    "Print on every way out."
    print("printed")
    sys.stdout.write("written")
    sys.stdout.flush()
    os.write(1, b"low level")
    subprocess.run(["echo", "from a child"], check=True)
    subprocess.run(["cat"], check=True)
    assert sys.stdin.read() == ""
    return ShoutResult(True)

with holdfast.open(sys.argv[1]) as hold:
    sys.exit(serve(hold, "full"))
"""


def test_output_contains_only_json_rpc_even_if_a_tool_prints(start: Start, db: str) -> None:
    process = start(sys.executable, "-c", LOUD, db)
    ask(process, 1, "initialize", HELLO)
    assert ask(process, 2, "tools/call", tool("memory_shout"))["result"]["structuredContent"] == {"done": True}
    out, err = process.communicate(timeout=TIMEOUT)
    assert out == b""
    assert process.returncode == 0
    for said in (b"printed", b"written", b"low level", b"from a child"):
        assert said in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_idle_server_quietly(start: Start, number: signal.Signals) -> None:
    process = start()
    ask(process, 1, "initialize", HELLO)
    process.send_signal(number)
    out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, out, err) == (0, b"", b"")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_a_write_leaves_it_unwritten_and_unanswered(
    start: Start, db: str, number: signal.Signals
) -> None:
    with holdfast.open(db) as other:
        process = start()
        ask(process, 1, "initialize", HELLO)
        with other.ctx.transaction():
            tell(process, 2, "tools/call", tool("memory_store", title="a", content="b"))
            assert ask(process, 3, "ping")["id"] == 3
            process.send_signal(number)
            assert process.stdin is not None
            process.stdin.close()
            process.stdin = None
            # The end of the input is noticed only after the signal: a stopping process reads no more.
            wait_until_it_stops_reading(process.pid)
        out, err = process.communicate(timeout=TIMEOUT)
        assert (process.returncode, out, err) == (0, b"", b"")
        assert other.list().count == 0


def wait_until_it_stops_reading(pid: int) -> None:
    """Wait until its signal handlers are the defaults again: running calls are then being stopped."""

    def catches_no_signal() -> bool:
        status = Path(f"/proc/{pid}/status").read_text()
        mask = next(line for line in status.splitlines() if line.startswith("SigCgt:")).split()[1]
        return not int(mask, 16) & 1 << (signal.SIGTERM - 1)

    wait_until(catches_no_signal)


def test_end_of_input_ends_the_server_after_every_answer(start: Start) -> None:
    process = start()
    tell(process, 1, "initialize", HELLO)
    for number in range(2, 12):
        tell(process, number, "tools/call", tool("memory_store", title=f"Note {number}", content="x"))
    out, err = process.communicate(timeout=TIMEOUT)
    assert sorted(json.loads(line)["id"] for line in out.splitlines()) == list(range(1, 12))
    assert (process.returncode, err) == (0, b"")


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_closed_standard_streams_are_harmless(db: str, closed: tuple[int, ...]) -> None:
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}).encode()
    close = " ".join(f"{number}<&-" for number in closed)
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {close}', "sh", *mcp(db)],
        input=message,
        capture_output=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    for line in done.stdout.splitlines():
        assert json.loads(line)["id"] == 1
    assert (done.stdout != b"") == (not {0, 1} & set(closed))


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [(("--profile", "Core"), {}, "core, standard, full"), ((), {"HOLDFAST_MCP_KEY": "hf_nonsense"}, "not valid")],
    ids=["profile", "key"],
)
def test_startup_errors_are_reported_before_serving(
    db: str, arguments: tuple[str, ...], environment: dict[str, str], said: str
) -> None:
    done = subprocess.run(
        mcp(db, *arguments), env=os.environ | environment, input=b"", capture_output=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode != 0
    assert done.stdout == b""
    assert said in done.stderr.decode()


def test_startup_does_not_load_the_sdk_or_its_dependencies(db: str) -> None:
    code = (
        "import sys; from holdfast.__main__ import main\n"
        "try: main()\n"
        "finally: print(sorted({name.split('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}).encode()
    done = subprocess.run(
        [sys.executable, "-c", code, "mcp", "--db", db], input=message, capture_output=True, timeout=TIMEOUT, check=True
    )
    loaded = set(eval(done.stderr.decode().splitlines()[-1]))
    assert json.loads(done.stdout)["id"] == 1
    assert not loaded & {"mcp", "mcp_types", "pydantic", "asyncio", "anyio", "starlette", "uvicorn", "httpx", "rich"}
