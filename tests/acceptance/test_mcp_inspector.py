"""The official inspector, over stdio and HTTP, in both protocol eras."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from mcp_tools import cli, serving, tools_environment

import holdfast
from timeouts import TIMEOUT

pytestmark = pytest.mark.full

ERAS = ["legacy", "modern"]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("inspector") / "memory.db")


@pytest.fixture(scope="module")
def memory(db: str) -> str:
    with holdfast.open(db) as hold:
        return str(hold.store(title="Deploy", content="On Tuesdays.").id)


@pytest.fixture(scope="module")
def url(db: str, memory: str) -> Iterator[str]:
    with serving(db) as url:
        yield url


@pytest.fixture(params=["stdio", "http"])
def target(request: pytest.FixtureRequest, db: str) -> list[str]:
    """Arguments by which the inspector reaches the server."""
    if request.param == "stdio":
        return cli("mcp", "--db", db)
    return [str(request.getfixturevalue("url")), "--transport", "http"]


def inspect(target: list[str], era: str, method: str, *more: str) -> tuple[int, Any]:
    """Call one method; return exit code and result."""
    command = ["mcp-inspector", "--cli", *target, "--protocol-era", era, "--method", method, *more]
    done = subprocess.run(
        command, env=tools_environment(), capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    return done.returncode, json.loads(done.stdout) if done.stdout.strip() else done.stderr


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_lists_the_tools_with_portable_schemas(target: list[str], era: str) -> None:
    code, listed = inspect(target, era, "tools/list", "--strict")
    assert code == 0
    assert [tool["name"] for tool in listed["tools"]][-1] == "memory_capabilities"
    assert len(listed["tools"]) == 7


def test_the_inspector_finds_every_schema_of_the_full_profile_portable(db: str) -> None:
    code, listed = inspect(cli("mcp", "--db", db, "--profile", "full"), "legacy", "tools/list", "--strict")
    assert code == 0
    assert len(listed["tools"]) > 7


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_stores_and_recalls(target: list[str], era: str, memory: str) -> None:
    title = f"title=By the inspector, {era}"
    code, stored = inspect(
        target, era, "tools/call", "--tool-name", "memory_store", "--tool-arg", title, "content=We ship on Fridays."
    )
    assert (code, stored["isError"]) == (0, False)
    assert stored["structuredContent"]["agent_id"].startswith("ai:inspector")
    code, found = inspect(target, era, "tools/call", "--tool-name", "memory_recall", "--tool-arg", "context=fridays")
    assert code == 0
    assert stored["structuredContent"]["id"] in {one["id"] for one in found["structuredContent"]["memories"]}


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_reads_resources_and_prompts(target: list[str], era: str, memory: str) -> None:
    uri = f"memory://{memory}"
    assert uri in {one["uri"] for one in inspect(target, era, "resources/list")[1]["resources"]}
    assert "On Tuesdays." in inspect(target, era, "resources/read", "--uri", uri)[1]["contents"][0]["text"]
    assert [one["name"] for one in inspect(target, era, "prompts/list")[1]["prompts"]] == [
        "recall-first",
        "memory-workflow",
    ]
    code, prompt = inspect(
        target, era, "prompts/get", "--prompt-name", "recall-first", "--prompt-args", "namespace=team"
    )
    assert code == 0
    assert "namespace team" in prompt["messages"][0]["content"]["text"]


def test_the_inspector_shows_a_tool_error_as_an_error(target: list[str], memory: str) -> None:
    _, answer = inspect(target, "legacy", "tools/call", "--tool-name", "memory_get", "--tool-arg", "id=nowhere")
    assert (answer["isError"], answer["structuredContent"]["code"]) == (True, "NOT_FOUND")
