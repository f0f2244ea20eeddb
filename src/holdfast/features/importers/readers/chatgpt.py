"""Reader of ChatGPT exports: an array of message trees, of which one branch is visible."""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from holdfast.features.importers.model import LeftOut, Problem, Record, Sort, Turn
from holdfast.features.importers.readers.blocks import dict_of, list_of, no_text, text_of
from holdfast.features.importers.readers.reader import Told, each
from holdfast.features.importers.sources import Piece

_THOUGHTS = ("thoughts", "reasoning_recap")
_TOOLS = ("code", "execution_output", "tether_browsing_display", "tether_quote", "system_error", "computer_output")
_TEXTS = ("text", "result", "content", "user_instructions", "model_set_context")
_CONTEXT = ("user_editable_context", "model_editable_context")


def read(piece: Piece, told: Told) -> Iterator[Record]:
    """Read the turns of the visible branch of each conversation, in order."""
    for one in each(piece, told, "conversations"):
        if isinstance(one, Problem):
            yield one
        else:
            yield from conversation(one[1], one[0])


def conversation(raw: Any, where: str) -> Iterator[Record]:
    if not isinstance(raw, dict) or not isinstance(raw.get("mapping"), dict):
        yield Problem(where=where, what="not a conversation: mapping is missing")
        return
    thread = text_of(raw.get("conversation_id")) or text_of(raw.get("id"))
    name = text_of(raw.get("title")) or "ChatGPT"
    if not thread:
        yield Problem(where=where, what="conversation without an id")
        return
    for key, node in raw["mapping"].items():
        if not isinstance(node, dict) or not isinstance(node.get("message"), dict | None):
            yield Problem(where=f"{where}.{key}", what="not a message")
    visible = list(_branch(raw["mapping"], raw.get("current_node")))
    if len(visible) < len(raw["mapping"]):
        others = sum(map(_said, raw["mapping"].values())) - sum(map(_said, visible))
        yield LeftOut(sort="other branches", number=others)
    for place, node in enumerate(visible):
        message = node.get("message")
        if isinstance(message, dict):
            id = text_of(message.get("id")) or text_of(node.get("id"))
            for one in _turn(message, id, thread, name, place, where):
                yield replace(one, updated=raw.get("update_time")) if isinstance(one, Turn) else one


def _said(node: Any) -> bool:
    message = node.get("message") if isinstance(node, dict) else None
    return isinstance(message, dict) and _sort(message) == "message" and bool(_text(message).strip())


def _branch(mapping: dict[str, Any], current: Any) -> Iterator[dict[str, Any]]:
    """Messages from the root to the current one, or along the last children if there is none."""
    if not isinstance(current, str) or current not in mapping:
        current = _leaf(mapping)
    way: list[dict[str, Any]] = []
    seen: set[str] = set()
    while isinstance(current, str) and current in mapping and current not in seen:
        seen.add(current)
        node = mapping[current]
        if not isinstance(node, dict):
            break
        way.append(node)
        current = node.get("parent")
    return iter(way[::-1])


def _leaf(mapping: dict[str, Any]) -> str | None:
    at = next((key for key, node in mapping.items() if isinstance(node, dict) and not node.get("parent")), None)
    seen: set[str] = set()
    while at is not None and at not in seen:
        seen.add(at)
        node = mapping[at]
        children = [one for one in list_of(dict_of(node).get("children")) if isinstance(one, str) and one in mapping]
        if not children:
            return at
        at = children[-1]
    return at


def _turn(message: dict[str, Any], id: str, thread: str, name: str, place: int, where: str) -> Iterator[Record]:
    where = f"{where}.{id or place}"
    text = _text(message)
    yield from _misfits(message.get("content"), f"{where}.content")
    if not text.strip():
        return
    if not id:
        yield Problem(where=where, what="message without an id")
        return
    author = message.get("author")
    role = text_of(author.get("role")) if isinstance(author, dict) else ""
    meta = dict_of(message.get("metadata"))
    yield Turn(
        key=f"chatgpt/{thread}/{id}",
        thread=thread,
        name=name,
        speaker=role or "unknown",
        content=text,
        at=message.get("create_time"),
        place=place,
        uri=f"uri:chatgpt:{thread}#{id}",
        where=where,
        sort=_sort(message),
        metadata={"model": model} if (model := text_of(meta.get("model_slug"))) else {},
    )


def _sort(message: dict[str, Any]) -> Sort:
    author, content, meta = (message.get(name) for name in ("author", "content", "metadata"))
    role = author.get("role") if isinstance(author, dict) else None
    kind = content.get("content_type") if isinstance(content, dict) else None
    if (
        role == "system"
        or kind in _CONTEXT
        or (isinstance(meta, dict) and meta.get("is_visually_hidden_from_conversation"))
    ):
        return "system"
    if kind in _THOUGHTS:
        return "thinking"
    if role == "tool" or kind in _TOOLS or message.get("recipient") not in (None, "", "all"):
        return "tools"
    return "message"


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, dict):
        return ""
    if isinstance(parts := content.get("parts"), list):
        return "\n\n".join(text for part in parts if (text := _part(part)).strip())
    if isinstance(thoughts := content.get("thoughts"), list):
        return "\n\n".join(text_of(one.get("content")) for one in thoughts if isinstance(one, dict))
    return next((text for name in _TEXTS if (text := text_of(content.get(name)))), "")


def _misfits(content: Any, where: str) -> Iterator[Problem]:
    """Report content that cannot be read."""
    if not isinstance(content, str | dict | None):
        yield Problem(where=where, what="neither text nor parts")
    for name in ("parts", "thoughts"):
        value = dict_of(content).get(name)
        if not isinstance(value, list | None):
            yield Problem(where=f"{where}.{name}", what="not a list")
        for number, one in enumerate(list_of(value)):
            if not isinstance(one, str | dict | None):
                yield Problem(where=f"{where}.{name}[{number}]", what="neither text nor a part")
    for name in _TEXTS:
        yield from no_text(dict_of(content).get(name), f"{where}.{name}")


def _part(part: Any) -> str:
    """Text of a message part; other parts become their type and name."""
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    kind = text_of(part.get("content_type"))
    if kind == "audio_transcription" or (not kind and "text" in part):
        return text_of(part.get("text"))
    name = next((text for key in ("asset_pointer", "name", "url") if (text := text_of(part.get(key)))), "")
    return f"[{' '.join(filter(None, (kind or 'attachment', name)))}]"
