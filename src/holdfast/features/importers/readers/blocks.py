"""Messages in blocks, as models and their hosts write them: texts, thoughts, calls of tools and their results."""

import json
from collections.abc import Iterator
from string import ascii_lowercase
from typing import Any, NamedTuple

from holdfast.features.importers.model import Problem, Sort

_OURS = "memory_"


class Block(NamedTuple):
    """One block: what kind it is of, and its text."""

    sort: Sort
    text: str
    call: str | None = None
    """Which call of a tool it is or answers."""
    tool: str | None = None


def is_ours(tool: str | None) -> bool:
    """Whether a tool is one of this memory's own: what it answered is here already.

    A host may write the name of the server before it, with `__`, `.`, `/` or `:` between the two.
    """
    before = (tool or "").rstrip(ascii_lowercase + "_")
    name = (tool or "")[len(before) :]
    is_whole = name.startswith(_OURS) and name != _OURS and before[-1:] in ("", ".", "/", ":")
    return is_whole or f"__{_OURS}" in name[:-1]


def blocks(content: Any) -> Iterator[Block]:
    """A message's content, which is a text or a list of blocks; what is neither text nor tool is named."""
    if isinstance(content, str):
        yield Block("message", content)
        return
    for one in list_of(content):
        if isinstance(one, str):
            yield Block("message", one)
        elif isinstance(one, dict):
            yield _block(one)


def misfits(content: Any, where: str) -> Iterator[Problem]:
    """What of a message's content is neither a text nor a block, by its place."""
    if not isinstance(content, str | list | None):
        yield Problem(where=where, what="is neither a text nor a list of blocks")
    for number, one in enumerate(list_of(content)):
        if not isinstance(one, str | dict):
            yield Problem(where=f"{where}[{number}]", what="is neither a text nor a block")
        elif isinstance(one, dict) and not isinstance(one.get("text"), str | None):
            yield Problem(where=f"{where}[{number}].text", what="is no text")


def no_text(value: Any, where: str) -> Iterator[Problem]:
    """What is wrong with something that is a text if it is there at all."""
    if not isinstance(value, str | None):
        yield Problem(where=where, what="is no text")


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
    """A call of a tool as text: its name and what it was given."""
    told = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, separators=(",", ":"))
    return f"{name} {told}"


def result_of(content: Any) -> str:
    """What a tool answered, as text."""
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
