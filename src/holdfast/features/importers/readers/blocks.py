"""Message blocks of models and agent hosts: text, thinking, tool calls and tool results."""

import json
from collections.abc import Iterator
from string import ascii_lowercase
from typing import Any, NamedTuple

from holdfast.features.importers.model import Problem, Sort

_OURS = "memory_"


class Block(NamedTuple):
    """One block of a message."""

    sort: Sort
    text: str
    call: str | None = None
    """Id of the tool call that it is or answers."""
    tool: str | None = None


def is_ours(tool: str | None) -> bool:
    """Whether a tool is one of Holdfast's own, whose results are already stored.

    Hosts may prefix the server name with `__`, `.`, `/` or `:` as separator.
    """
    before = (tool or "").rstrip(ascii_lowercase + "_")
    name = (tool or "")[len(before) :]
    is_whole = name.startswith(_OURS) and name != _OURS and before[-1:] in ("", ".", "/", ":")
    return is_whole or f"__{_OURS}" in name[:-1]


def blocks(content: Any) -> Iterator[Block]:
    """Parse message content: text or a list of blocks. Other blocks become their type name."""
    if isinstance(content, str):
        yield Block("message", content)
        return
    for one in list_of(content):
        if isinstance(one, str):
            yield Block("message", one)
        elif isinstance(one, dict):
            yield _block(one)


def misfits(content: Any, where: str) -> Iterator[Problem]:
    """Report content that is neither text nor a block."""
    if not isinstance(content, str | list | None):
        yield Problem(where=where, what="neither text nor a list of blocks")
    for number, one in enumerate(list_of(content)):
        if not isinstance(one, str | dict):
            yield Problem(where=f"{where}[{number}]", what="neither text nor a block")
        elif isinstance(one, dict) and not isinstance(one.get("text"), str | None):
            yield Problem(where=f"{where}[{number}].text", what="not text")


def no_text(value: Any, where: str) -> Iterator[Problem]:
    """Report a value that is neither text nor missing."""
    if not isinstance(value, str | None):
        yield Problem(where=where, what="not text")


def _block(one: dict[str, Any]) -> Block:
    match one.get("type"):
        case "text" | "input_text" | "output_text":
            return Block("message", text_of(one.get("text")))
        case "thinking" | "reasoning" | "redacted_thinking":
            return Block("thinking", text_of(one.get("thinking") or one.get("text")))
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            name = text_of(one.get("name"))
            return Block("tools", called(name, one.get("input")), text_of(one.get("id")), name)
        case "tool_result" | "mcp_tool_result":
            tool = text_of(one.get("name")) or None
            return Block("tools", result_of(one.get("content")), text_of(one.get("tool_use_id")), tool)
        case kind:
            return Block("message", f"[{text_of(kind) or 'attachment'}]" if kind else "")


def called(name: str, given: Any) -> str:
    """Format a tool call: name and arguments."""
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, separators=(",", ":"))
    return f"{name} {text}"


def result_of(content: Any) -> str:
    """Format the result of a tool call."""
    if isinstance(content, str):
        return content
    return "\n\n".join(block.text for block in blocks(content) if block.text)


def joined(found: list[Block]) -> str:
    return "\n\n".join(block.text for block in found if block.text.strip())


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def dict_of(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
