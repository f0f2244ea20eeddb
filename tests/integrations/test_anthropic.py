"""The memory tool of Anthropic's models: the documented commands, texts and errors, over a namespace."""

import asyncio
from itertools import count
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from anthropic import Anthropic
from anthropic.lib.tools import ToolError
from anthropic.tools import BetaLocalFilesystemMemoryTool
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from engines import ENGINES_BY_RING
from holdfast.integrations import AsyncHoldfastMemoryTool, HoldfastMemoryTool
from provider_server import Handler, ReceivedRequest, provider

numbers = count()
FILE = "/memories/notes/todo.md"
NONE = "/memories/none.md"


def call_tool(tool: Any, command: str, **given: Any) -> str:
    """Call the tool; return its answer or its error message."""
    try:
        return str(tool.call({"command": command, **given}))
    except ToolError as error:
        return str(error)


@pytest.mark.parametrize("engine", ENGINES_BY_RING)
def test_every_command_gives_the_documented_answer(hold: holdfast.Holdfast) -> None:
    tool = HoldfastMemoryTool(hold)
    text = "Buy milk\nCall Ann\nPay rent\n" + "x" * 1500
    assert call_tool(tool, "create", path=FILE, file_text=text) == f"File created successfully at: {FILE}"
    assert call_tool(tool, "create", path=FILE, file_text="x") == f"Error: File {FILE} already exists"
    assert (
        call_tool(tool, "create", path="/memories/a.md", file_text="") == "File created successfully at: /memories/a.md"
    )
    for hidden in ("/memories/.git/x", "/memories/node_modules/y", "/memories/notes/deep/er/z"):
        call_tool(tool, "create", path=hidden, file_text="12345")
    head = (
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:"
    )
    assert call_tool(tool, "view", path="/memories") == (
        f"{head}\n1.5K\t/memories\n0B\t/memories/a.md\n1.5K\t/memories/notes/\n5B\t/memories/notes/deep/\n1.5K\t{FILE}"
    )
    assert call_tool(tool, "view", path=FILE, view_range=[2, 3]) == (
        f"Here's the content of {FILE} with line numbers:\n     2\tCall Ann\n     3\tPay rent"
    )
    assert call_tool(tool, "view", path="/memories/a.md") == (
        "Here's the content of /memories/a.md with line numbers:\n     1\t"
    )
    assert call_tool(tool, "view", path=NONE) == f"The path {NONE} does not exist. Please provide a valid path."
    assert call_tool(tool, "str_replace", path=FILE, old_str="Ann", new_str="Ben") == (
        "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
        f"     1\tBuy milk\n     2\tCall Ben\n     3\tPay rent\n     4\t{'x' * 1500}"
    )
    assert call_tool(tool, "str_replace", path=FILE, old_str="Ann", new_str="") == (
        f"No replacement was performed, old_str `Ann` did not appear verbatim in {FILE}."
    )
    assert call_tool(tool, "str_replace", path=FILE, old_str="y", new_str="") == (
        "No replacement was performed. Multiple occurrences of old_str `y` in lines: 1, 3. Please ensure it is unique"
    )
    for folder in (NONE, "/memories/notes"):
        assert call_tool(tool, "str_replace", path=folder, old_str="a", new_str="") == (
            f"Error: The path {folder} does not exist. Please provide a valid path."
        )
        assert call_tool(tool, "insert", path=folder, insert_line=0, insert_text="a") == (
            f"Error: The path {folder} does not exist"
        )
    assert (
        call_tool(tool, "insert", path=FILE, insert_line=1, insert_text="Sweep\n")
        == f"The file {FILE} has been edited."
    )
    assert call_tool(tool, "insert", path=FILE, insert_line=6, insert_text="x") == (
        "Error: Invalid `insert_line` parameter: 6. It should be within the range of lines of the file: [0, 5]"
    )
    assert call_tool(tool, "rename", old_path="/memories/notes", new_path="/memories/a.md") == (
        "Error: The destination /memories/a.md already exists"
    )
    assert (
        call_tool(tool, "rename", old_path=NONE, new_path="/memories/new.md")
        == f"Error: The path {NONE} does not exist"
    )
    assert call_tool(tool, "rename", old_path="/memories/notes", new_path="/memories/old/notes") == (
        "Successfully renamed /memories/notes to /memories/old/notes"
    )
    assert "Sweep" in call_tool(tool, "view", path="/memories/old/notes/todo.md")
    assert hold.recall("sweep").memories[0].title == "old/notes/todo.md"
    assert call_tool(tool, "delete", path=NONE) == f"Error: The path {NONE} does not exist"
    assert call_tool(tool, "delete", path="/memories/old") == "Successfully deleted /memories/old"
    assert hold.recall("sweep milk").count == 0
    assert call_tool(tool, "delete", path="/memories") == "Cannot delete the /memories directory itself"
    assert tool.clear_all_memory() == "All memory cleared"
    assert call_tool(tool, "view", path="/memories") == f"{head}\n0B\t/memories"


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "memories/x",
        "/memoriesx",
        "/memories/../etc",
        "/memories/a/../b",
        "/memories/..\\x",
        "/memories/%2e%2e%2fx",
        "/memories/%252e%252e/x",
        "/memories/..",
    ],
)
def test_no_path_leaves_the_folder(hold: holdfast.Holdfast, path: str) -> None:
    tool = HoldfastMemoryTool(hold)
    for command in (
        {"command": "view", "path": path},
        {"command": "create", "path": path, "file_text": "x"},
        {"command": "delete", "path": path},
        {"command": "rename", "old_path": "/memories/a", "new_path": path},
    ):
        with pytest.raises(ToolError, match="Path"):
            tool.call(command)
    assert hold.list().count == 0


def test_other_memories_of_the_namespace_are_files_and_too_long_ones_are_refused(hold: holdfast.Holdfast) -> None:
    hold.store(title="Deploy day", content="Tuesday.", namespace="memories")
    tool = HoldfastMemoryTool(hold)
    assert call_tool(tool, "view", path="/memories/Deploy day").endswith("     1\tTuesday.")
    assert "65536" in call_tool(tool, "create", path=FILE, file_text="x" * 70_000)
    assert "NUL" in call_tool(tool, "create", path=FILE, file_text="\x00x")
    assert "is a file" in call_tool(tool, "create", path="/memories/Deploy day/x", file_text="x")
    assert "into itself" in call_tool(
        tool, "rename", old_path="/memories/Deploy day", new_path="/memories/Deploy day/x"
    )
    with pytest.raises(NotImplementedError):
        tool.call({"command": "burn", "path": FILE})
    assert tool.to_dict() == {"type": "memory_20250818", "name": "memory"}
    written = AsyncHoldfastMemoryTool(hold).call({"command": "create", "path": " /x", "file_text": "x"})
    with pytest.raises(ToolError):
        asyncio.run(written)  # type: ignore[arg-type]


names = st.sampled_from(["/memories/a", "/memories/b.md", "/memories/d/a", "/memories/d/b", "/memories/d/e/f"])
texts = st.sampled_from(["", "\n", " ", "one", "one\ntwo", "one\ntwo\n", "two\r\none\r\n", "a a", "é\n\n"])
steps = st.one_of(
    st.fixed_dictionaries({"command": st.just("create"), "path": names, "file_text": texts}),
    st.fixed_dictionaries({"command": st.just("create"), "path": names, "file_text": texts}),
    st.fixed_dictionaries(
        {"command": st.just("view"), "path": names, "view_range": st.sampled_from([None, [1, -1], [2, 2], [0, 9]])}
    ),
    st.fixed_dictionaries(
        {
            "command": st.just("str_replace"),
            "path": names,
            "old_str": st.sampled_from(["one", "a", "\n"]),
            "new_str": texts,
        }
    ),
    st.fixed_dictionaries(
        {"command": st.just("insert"), "path": names, "insert_line": st.integers(-1, 3), "insert_text": texts}
    ),
    st.fixed_dictionaries({"command": st.just("delete"), "path": names}),
    st.fixed_dictionaries({"command": st.just("rename"), "old_path": names, "new_path": names}),
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=st.lists(steps, max_size=10))
def test_files_behave_like_those_of_the_tool_of_the_sdk(hold: holdfast.Holdfast, asked: list[dict[str, Any]]) -> None:
    ours = HoldfastMemoryTool(hold, namespace=f"n{next(numbers)}")
    with TemporaryDirectory() as folder:
        theirs = BetaLocalFilesystemMemoryTool(folder)
        for step in asked:
            answers = [plain(call_tool(tool, **step)) for tool in (ours, theirs)]
            assert answers[0] == answers[1], step


def plain(text: str) -> str:
    """Return an answer in the words common to the documentation and the SDK."""
    text = text.removeprefix("Error: ").replace("the range of lines of the file:", "the range").rstrip(".")
    missing = "does not exist" in text or "is not a file" in text
    return text.split(". Please")[0].replace("is not a file", "does not exist") if missing else text


def test_a_model_uses_the_tool_through_the_runner_of_the_sdk(hold: holdfast.Holdfast) -> None:
    calls: list[dict[str, Any]] = [
        {"command": "create", "path": FILE, "file_text": "The boiler is serviced in May."},
        {"command": "create", "path": FILE, "file_text": "again"},
    ]

    def behave(handler: Handler, asked: ReceivedRequest) -> None:
        done = len(handler.server.asked) - 1
        content: list[dict[str, Any]] = [{"type": "text", "text": "Done."}]
        if done < len(calls):
            content = [{"type": "tool_use", "id": f"toolu_{done}", "name": "memory", "input": calls[done]}]
        stop = "tool_use" if done < len(calls) else "end_turn"
        usage = {"input_tokens": 1, "output_tokens": 1}
        answer = {"id": "msg", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
        handler.reply(
            {**answer, "content": content, "stop_reason": stop, "usage": usage}, Content_Type="application/json"
        )

    with provider(behave) as server:
        client = Anthropic(base_url=server.url.removesuffix("/v1"), api_key="none")
        runner = client.beta.messages.tool_runner(
            model="m",
            max_tokens=100,
            tools=[HoldfastMemoryTool(hold)],
            messages=[{"role": "user", "content": "Note it."}],
        )
        runner.until_done()
    results = [asked.body["messages"][-1]["content"][0] for asked in server.asked[1:]]
    assert [(result["content"], result.get("is_error", False)) for result in results] == [
        (f"File created successfully at: {FILE}", False),
        (f"Error: File {FILE} already exists", True),
    ]
    assert hold.recall("when is the boiler serviced?").memories[0].content == "The boiler is serviced in May."
