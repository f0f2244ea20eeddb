"""Conversations as Claude.ai exports them: an array, or a line each, of messages in their order."""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from ...domain.mined import Problem, Record, Sort, Turn
from . import chatgpt
from .blocks import Block, blocks, is_ours, joined, list_of, text_of
from .places import Piece
from .reading import Told, each

_SPEAKERS = {"human": "user", "user": "user", "assistant": "assistant"}


def read(piece: Piece, told: Told) -> Iterator[Record]:
    """Every turn of every conversation, from an array or from lines."""
    for one in each(piece, told, "conversations"):
        if isinstance(one, Problem):
            yield one
        else:
            yield from conversation(one[1], one[0])


def conversation(raw: Any, where: str) -> Iterator[Record]:
    if isinstance(raw, dict) and isinstance(raw.get("mapping"), dict):
        yield from chatgpt.conversation(raw, where)
        return
    if not isinstance(raw, dict) or not isinstance(raw.get("chat_messages"), list):
        yield Problem(where=where, what="is no conversation: there are no chat_messages")
        return
    thread = text_of(raw.get("uuid"))
    if not thread:
        yield Problem(where=where, what="is a conversation without a uuid")
        return
    name = text_of(raw.get("name")) or "Claude"
    for place, message in enumerate(raw["chat_messages"]):
        spot = f"{where}.chat_messages[{place}]"
        if isinstance(message, dict):
            for one in _message(message, thread, name, place, spot):
                yield replace(one, updated=raw.get("updated_at")) if isinstance(one, Turn) else one
        else:
            yield Problem(where=spot, what="is no message")


def _message(message: dict[str, Any], thread: str, name: str, place: int, where: str) -> Iterator[Record]:
    id = text_of(message.get("uuid"))
    if not id:
        yield Problem(where=where, what="is a message without a uuid")
        return
    found = list(blocks(message.get("content")))
    if not any(block.text.strip() for block in found):
        found = [Block("message", text_of(message.get("text")))]
    files = _files(message)
    for sort, text in _sorted(found):
        suffix = "" if sort == "message" else f"/{sort}"
        yield Turn(
            key=f"claude/{thread}/{id}{suffix}",
            thread=thread,
            name=name,
            speaker=_SPEAKERS.get(text_of(message.get("sender")), text_of(message.get("sender")) or "unknown"),
            content=text,
            at=message.get("created_at"),
            place=place,
            uri=f"uri:claude:{thread}#{id}{suffix}",
            where=where,
            sort=sort,
            metadata={"files": files} if files else {},
        )


def _sorted(found: list[Block]) -> Iterator[tuple[Sort, str]]:
    """The text of a message, and apart from it what was thought and what tools did; not what our own ones did."""
    ours = {block.call for block in found if is_ours(block.tool)}
    sorts: tuple[Sort, ...] = ("thinking", "tools", "message")
    for sort in sorts:
        text = joined([block for block in found if block.sort == sort and (not block.call or block.call not in ours)])
        if text:
            yield sort, text


def _files(message: dict[str, Any]) -> list[str]:
    """The names of what was attached; what is in there stays where it is."""
    given = [*list_of(message.get("attachments")), *list_of(message.get("files"))]
    return [text_of(one.get("file_name"))[:256] for one in given if isinstance(one, dict) and one.get("file_name")][:20]
