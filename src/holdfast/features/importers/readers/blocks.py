"""Message blocks of models and agent hosts: text, thinking, tool calls and tool results."""

import json
from collections.abc import Iterator
from string import ascii_lowercase
from typing import Any, NamedTuple

from holdfast.features.importers.model import Problem, TurnKind

_OWN_PREFIX = "memory_"


class Block(NamedTuple):
    """One block of a message."""

    kind: TurnKind
    text: str
    call: str | None = None
    """Id of the tool call that it is or answers."""
    tool: str | None = None


def is_own_tool(tool: str | None) -> bool:
    """Whether a tool is one of Holdfast's own, whose results are already stored.

    Hosts may prefix the server name with `__`, `.`, `/` or `:` as separator.
    """
    before = (tool or "").rstrip(ascii_lowercase + "_")
    name = (tool or "")[len(before) :]
    is_whole = name.startswith(_OWN_PREFIX) and name != _OWN_PREFIX and before[-1:] in ("", ".", "/", ":")
    return is_whole or f"__{_OWN_PREFIX}" in name[:-1]


def parse_blocks(content: Any) -> Iterator[Block]:
    """Parse message content: text or a list of blocks. Other blocks become their type name."""
    if isinstance(content, str):
        yield Block("message", content)
        return
    for one in as_list(content):
        if isinstance(one, str):
            yield Block("message", one)
        elif isinstance(one, dict):
            yield _parse_block(one)


def find_bad_blocks(content: Any, where: str) -> Iterator[Problem]:
    """Report content that is neither text nor a block."""
    if not isinstance(content, str | list | None):
        yield Problem(where=where, what="neither text nor a list of blocks")
    for number, one in enumerate(as_list(content)):
        if not isinstance(one, str | dict):
            yield Problem(where=f"{where}[{number}]", what="neither text nor a block")
        elif isinstance(one, dict) and not isinstance(one.get("text"), str | None):
            yield Problem(where=f"{where}[{number}].text", what="not text")


def check_text(value: Any, where: str) -> Iterator[Problem]:
    """Report a value that is neither text nor missing."""
    if not isinstance(value, str | None):
        yield Problem(where=where, what="not text")


def _parse_block(one: dict[str, Any]) -> Block:
    match one.get("type"):
        case "text" | "input_text" | "output_text":
            return Block("message", as_text(one.get("text")))
        case "thinking" | "reasoning" | "redacted_thinking":
            return Block("thinking", as_text(one.get("thinking") or one.get("text")))
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            name = as_text(one.get("name"))
            return Block("tools", format_call(name, one.get("input")), as_text(one.get("id")), name)
        case "tool_result" | "mcp_tool_result":
            tool = as_text(one.get("name")) or None
            return Block("tools", format_result(one.get("content")), as_text(one.get("tool_use_id")), tool)
        case kind:
            return Block("message", f"[{as_text(kind) or 'attachment'}]" if kind else "")


def format_call(name: str, arguments: Any) -> str:
    """Format a tool call: name and arguments."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    return f"{name} {text}"


def format_result(content: Any) -> str:
    """Format the result of a tool call."""
    if isinstance(content, str):
        return content
    return "\n\n".join(block.text for block in parse_blocks(content) if block.text)


def join_blocks(blocks: list[Block]) -> str:
    return "\n\n".join(block.text for block in blocks if block.text.strip())


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
