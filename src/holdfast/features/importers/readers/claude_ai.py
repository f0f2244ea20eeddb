"""Reader of Claude.ai exports: conversations, Claude's memory of the user, and projects."""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from holdfast.features.importers.model import LeftOut, Note, Problem, Record, Sort, Tie, Turn
from holdfast.features.importers.readers import chatgpt
from holdfast.features.importers.readers.blocks import (
    Block,
    blocks,
    dict_of,
    is_ours,
    joined,
    list_of,
    misfits,
    no_text,
    text_of,
)
from holdfast.features.importers.readers.reader import Told, each
from holdfast.features.importers.sources import Piece
from holdfast.kernel.records.memory import Kind

_SPEAKERS = {"human": "user", "user": "user", "assistant": "assistant"}


def read(piece: Piece, told: Told) -> Iterator[Record]:
    """Read a file of the export: an array, JSON lines, or a single object."""
    for one in each(piece, told, "conversations"):
        if isinstance(one, Problem):
            yield one
        elif is_memory(one[1]):
            yield from _memory(one[1], one[0])
        elif is_project(one[1]):
            yield from _project(one[1], one[0])
        else:
            yield from conversation(one[1], one[0])


def is_memory(raw: Any) -> bool:
    """Whether this is Claude's memory of the user."""
    return isinstance(raw, dict) and "conversations_memory" in raw


def is_project(raw: Any) -> bool:
    """Whether this is a project with documents."""
    return isinstance(raw, dict) and {"uuid", "docs", "prompt_template"} <= raw.keys()


def _memory(raw: dict[str, Any], where: str) -> Iterator[Record]:
    """Read Claude's memory, in general and per project."""
    account = text_of(raw.get("account_uuid")) or "account"
    texts: dict[str, tuple[str, Any]] = {
        f"{account}/memory": ("What Claude remembers", raw.get("conversations_memory"))
    }
    if not isinstance(raw.get("project_memories"), dict | None):
        yield Problem(where=f"{where}.project_memories", what="not a mapping of texts")
    for project, text in dict_of(raw.get("project_memories")).items():
        texts[f"project/{project}/memory"] = (f"What Claude remembers of project {project[:8]}", text)
    for key, (title, text) in texts.items():
        yield from no_text(text, f"{where} {key}")
        if text_of(text).strip():
            yield _note(key, title, text, where, kind="summary")


def _project(raw: dict[str, Any], where: str) -> Iterator[Record]:
    """Read a project: description and instructions, and its documents, linked to them."""
    key, name = f"project/{text_of(raw['uuid'])}", text_of(raw.get("name")) or "Project"
    if raw.get("is_starter_project"):
        yield LeftOut(sort="starter projects")
        return
    about = "\n\n".join(filter(str.strip, (text_of(raw.get(part)) for part in ("description", "prompt_template"))))
    if about:
        yield _note(key, name, about, where, at=raw.get("created_at"))
    if not isinstance(raw["docs"], list | None):
        yield Problem(where=f"{where}.docs", what="not a list of documents")
    for number, document in enumerate(list_of(raw["docs"])):
        spot, document = f"{where}.docs[{number}]", dict_of(document)
        id, text = text_of(document.get("uuid")), text_of(document.get("content"))
        if not id or not text.strip():
            yield Problem(where=spot, what="empty" if id else "document without a uuid", rejected=not id)
            continue
        title = f"{name}: {text_of(document.get('filename')) or id}"
        note = _note(f"{key}/{id}", title, text, spot, at=document.get("created_at"))
        yield note
        if about:
            yield Tie(source=note.key, target=f"claude/{key}", where=spot)


def _note(key: str, title: str, content: str, where: str, *, kind: Kind = "observation", at: Any = None) -> Note:
    return Note(
        key=f"claude/{key}", title=title, content=content, uri=f"uri:claude:{key}", where=where, kind=kind, at=at
    )


def conversation(raw: Any, where: str) -> Iterator[Record]:
    if isinstance(raw, dict) and isinstance(raw.get("mapping"), dict):
        yield from chatgpt.conversation(raw, where)
        return
    if not isinstance(raw, dict) or not isinstance(raw.get("chat_messages"), list):
        yield Problem(where=where, what="not a conversation: chat_messages is missing")
        return
    thread = text_of(raw.get("uuid"))
    if not thread:
        yield Problem(where=where, what="conversation without a uuid")
        return
    name = text_of(raw.get("name")) or "Claude"
    for place, message in enumerate(raw["chat_messages"]):
        spot = f"{where}.chat_messages[{place}]"
        if isinstance(message, dict):
            for one in _message(message, thread, name, place, spot):
                yield replace(one, updated=raw.get("updated_at")) if isinstance(one, Turn) else one
        else:
            yield Problem(where=spot, what="not a message")


def _message(message: dict[str, Any], thread: str, name: str, place: int, where: str) -> Iterator[Record]:
    id = text_of(message.get("uuid"))
    if not id:
        yield Problem(where=where, what="message without a uuid")
        return
    yield from misfits(message.get("content"), f"{where}.content")
    found = list(blocks(message.get("content")))
    if not any(block.text.strip() for block in found):
        yield from no_text(message.get("text"), f"{where}.text")
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
    """Split a message into text, thinking and tools. Calls of Holdfast's own tools are dropped."""
    ours = {block.call for block in found if is_ours(block.tool)}
    sorts: tuple[Sort, ...] = ("thinking", "tools", "message")
    for sort in sorts:
        text = joined([block for block in found if block.sort == sort and (not block.call or block.call not in ours)])
        if text:
            yield sort, text


def _files(message: dict[str, Any]) -> list[str]:
    """Names of attachments; their contents are not imported."""
    attachments = [*list_of(message.get("attachments")), *list_of(message.get("files"))]
    return [
        text_of(one.get("file_name"))[:256] for one in attachments if isinstance(one, dict) and one.get("file_name")
    ][:20]
