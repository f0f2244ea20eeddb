"""Reader of ChatGPT exports: an array of message trees, of which one branch is visible."""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from holdfast.features.importers.model import Omission, Problem, Record, Turn, TurnKind
from holdfast.features.importers.readers.blocks import as_dict, as_list, as_text, check_text
from holdfast.features.importers.readers.reader import ProgressCallback, apply_reader, read_items
from holdfast.features.importers.sources import Piece

_THOUGHTS = ("thoughts", "reasoning_recap")
_TOOLS = ("code", "execution_output", "tether_browsing_display", "tether_quote", "system_error", "computer_output")
_TEXTS = ("text", "result", "content", "user_instructions", "model_set_context")
_CONTEXT = ("user_editable_context", "model_editable_context")


def read(piece: Piece, on_read: ProgressCallback) -> Iterator[Record]:
    """Read the turns of the visible branch of each conversation, in order."""
    return apply_reader(read_items(piece, on_read, "conversations"), read_conversation)


def read_conversation(raw: Any, where: str) -> Iterator[Record]:
    if not isinstance(raw, dict) or not isinstance(raw.get("mapping"), dict):
        yield Problem(where=where, what="not a conversation: mapping is missing")
        return
    thread = as_text(raw.get("conversation_id")) or as_text(raw.get("id"))
    name = as_text(raw.get("title")) or "ChatGPT"
    if not thread:
        yield Problem(where=where, what="conversation without an id")
        return
    for key, node in raw["mapping"].items():
        if not isinstance(node, dict) or not isinstance(node.get("message"), dict | None):
            yield Problem(where=f"{where}.{key}", what="not a message")
    visible = list(_visible_branch(raw["mapping"], raw.get("current_node")))
    if len(visible) < len(raw["mapping"]):
        others = sum(map(_has_text, raw["mapping"].values())) - sum(map(_has_text, visible))
        yield Omission(kind="other branches", number=others)
    for place, node in enumerate(visible):
        message = node.get("message")
        if isinstance(message, dict):
            id = as_text(message.get("id")) or as_text(node.get("id"))
            for one in _read_turn(message, id, thread, name, place, where):
                yield replace(one, updated=raw.get("update_time")) if isinstance(one, Turn) else one


def _has_text(node: Any) -> bool:
    message = node.get("message") if isinstance(node, dict) else None
    return isinstance(message, dict) and _turn_kind(message) == "message" and bool(_message_text(message).strip())


def _visible_branch(mapping: dict[str, Any], current: Any) -> Iterator[dict[str, Any]]:
    """Messages from the root to the current one, or along the last children if there is none."""
    if not isinstance(current, str) or current not in mapping:
        current = _find_leaf(mapping)
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


def _find_leaf(mapping: dict[str, Any]) -> str | None:
    at = next((key for key, node in mapping.items() if isinstance(node, dict) and not node.get("parent")), None)
    seen: set[str] = set()
    while at is not None and at not in seen:
        seen.add(at)
        node = mapping[at]
        children = [one for one in as_list(as_dict(node).get("children")) if isinstance(one, str) and one in mapping]
        if not children:
            return at
        at = children[-1]
    return at


def _read_turn(message: dict[str, Any], id: str, thread: str, name: str, place: int, where: str) -> Iterator[Record]:
    where = f"{where}.{id or place}"
    text = _message_text(message)
    yield from _check_content(message.get("content"), f"{where}.content")
    if not text.strip():
        return
    if not id:
        yield Problem(where=where, what="message without an id")
        return
    author = message.get("author")
    role = as_text(author.get("role")) if isinstance(author, dict) else ""
    meta = as_dict(message.get("metadata"))
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
        kind=_turn_kind(message),
        metadata={"model": model} if (model := as_text(meta.get("model_slug"))) else {},
    )


def _turn_kind(message: dict[str, Any]) -> TurnKind:
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


def _message_text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, dict):
        return ""
    if isinstance(parts := content.get("parts"), list):
        return "\n\n".join(text for part in parts if (text := _part_text(part)).strip())
    if isinstance(thoughts := content.get("thoughts"), list):
        return "\n\n".join(as_text(one.get("content")) for one in thoughts if isinstance(one, dict))
    return next((text for name in _TEXTS if (text := as_text(content.get(name)))), "")


def _check_content(content: Any, where: str) -> Iterator[Problem]:
    """Report content that cannot be read."""
    if not isinstance(content, str | dict | None):
        yield Problem(where=where, what="neither text nor parts")
    for name in ("parts", "thoughts"):
        value = as_dict(content).get(name)
        if not isinstance(value, list | None):
            yield Problem(where=f"{where}.{name}", what="not a list")
        for number, one in enumerate(as_list(value)):
            if not isinstance(one, str | dict | None):
                yield Problem(where=f"{where}.{name}[{number}]", what="neither text nor a part")
    for name in _TEXTS:
        yield from check_text(as_dict(content).get(name), f"{where}.{name}")


def _part_text(part: Any) -> str:
    """Text of a message part; other parts become their type and name."""
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    kind = as_text(part.get("content_type"))
    if kind == "audio_transcription" or (not kind and "text" in part):
        return as_text(part.get("text"))
    name = next((text for key in ("asset_pointer", "name", "url") if (text := as_text(part.get(key)))), "")
    return f"[{' '.join(filter(None, (kind or 'attachment', name)))}]"
