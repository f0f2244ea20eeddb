"""Reader of Claude.ai exports: conversations, Claude's memory of the user, and projects."""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from holdfast.features.importers.model import Note, NoteLink, Omission, Problem, Record, Turn, TurnKind
from holdfast.features.importers.readers import chatgpt
from holdfast.features.importers.readers.blocks import (
    Block,
    as_dict,
    as_list,
    as_text,
    check_text,
    find_bad_blocks,
    is_own_tool,
    join_blocks,
    parse_blocks,
)
from holdfast.features.importers.readers.reader import ProgressCallback, apply_reader, read_items
from holdfast.features.importers.sources import Piece
from holdfast.kernel.records.memory import Kind

_SPEAKERS = {"human": "user", "user": "user", "assistant": "assistant"}


def read(piece: Piece, on_read: ProgressCallback) -> Iterator[Record]:
    """Read a file of the export: an array, JSON lines, or a single object."""
    return apply_reader(read_items(piece, on_read, "conversations"), _read_item)


def _read_item(raw: Any, where: str) -> Iterator[Record]:
    return (_read_memory if is_memory(raw) else _read_project if is_project(raw) else read_conversation)(raw, where)


def is_memory(raw: Any) -> bool:
    """Whether this is Claude's memory of the user."""
    return isinstance(raw, dict) and "conversations_memory" in raw


def is_project(raw: Any) -> bool:
    """Whether this is a project with documents."""
    return isinstance(raw, dict) and {"uuid", "docs", "prompt_template"} <= raw.keys()


def _read_memory(raw: dict[str, Any], where: str) -> Iterator[Record]:
    """Read Claude's memory, in general and per project."""
    account = as_text(raw.get("account_uuid")) or "account"
    texts: dict[str, tuple[str, Any]] = {
        f"{account}/memory": ("What Claude remembers", raw.get("conversations_memory"))
    }
    if not isinstance(raw.get("project_memories"), dict | None):
        yield Problem(where=f"{where}.project_memories", what="not a mapping of texts")
    for project, text in as_dict(raw.get("project_memories")).items():
        texts[f"project/{project}/memory"] = (f"What Claude remembers of project {project[:8]}", text)
    for key, (title, text) in texts.items():
        yield from check_text(text, f"{where} {key}")
        if as_text(text).strip():
            yield _make_note(key, title, text, where, kind="summary")


def _read_project(raw: dict[str, Any], where: str) -> Iterator[Record]:
    """Read a project: description and instructions, and its documents, linked to them."""
    key, name = f"project/{as_text(raw['uuid'])}", as_text(raw.get("name")) or "Project"
    if raw.get("is_starter_project"):
        yield Omission(kind="starter projects")
        return
    about = "\n\n".join(filter(str.strip, (as_text(raw.get(part)) for part in ("description", "prompt_template"))))
    if about:
        yield _make_note(key, name, about, where, at=raw.get("created_at"))
    if not isinstance(raw["docs"], list | None):
        yield Problem(where=f"{where}.docs", what="not a list of documents")
    for number, document in enumerate(as_list(raw["docs"])):
        spot, document = f"{where}.docs[{number}]", as_dict(document)
        id, text = as_text(document.get("uuid")), as_text(document.get("content"))
        if not id or not text.strip():
            yield Problem(where=spot, what="empty" if id else "document without a uuid", rejected=not id)
            continue
        title = f"{name}: {as_text(document.get('filename')) or id}"
        note = _make_note(f"{key}/{id}", title, text, spot, at=document.get("created_at"))
        yield note
        if about:
            yield NoteLink(source=note.key, target=f"claude/{key}", where=spot)


def _make_note(key: str, title: str, content: str, where: str, *, kind: Kind = "observation", at: Any = None) -> Note:
    return Note(
        key=f"claude/{key}", title=title, content=content, uri=f"uri:claude:{key}", where=where, kind=kind, at=at
    )


def read_conversation(raw: Any, where: str) -> Iterator[Record]:
    if isinstance(raw, dict) and isinstance(raw.get("mapping"), dict):
        yield from chatgpt.read_conversation(raw, where)
        return
    if not isinstance(raw, dict) or not isinstance(raw.get("chat_messages"), list):
        yield Problem(where=where, what="not a conversation: chat_messages is missing")
        return
    thread = as_text(raw.get("uuid"))
    if not thread:
        yield Problem(where=where, what="conversation without a uuid")
        return
    name = as_text(raw.get("name")) or "Claude"
    for place, message in enumerate(raw["chat_messages"]):
        spot = f"{where}.chat_messages[{place}]"
        if isinstance(message, dict):
            for one in _read_message(message, thread, name, place, spot):
                yield replace(one, updated=raw.get("updated_at")) if isinstance(one, Turn) else one
        else:
            yield Problem(where=spot, what="not a message")


def _read_message(message: dict[str, Any], thread: str, name: str, place: int, where: str) -> Iterator[Record]:
    id = as_text(message.get("uuid"))
    if not id:
        yield Problem(where=where, what="message without a uuid")
        return
    yield from find_bad_blocks(message.get("content"), f"{where}.content")
    found = list(parse_blocks(message.get("content")))
    if not any(block.text.strip() for block in found):
        yield from check_text(message.get("text"), f"{where}.text")
        found = [Block("message", as_text(message.get("text")))]
    files = _file_names(message)
    for sort, text in _split_by_kind(found):
        suffix = "" if sort == "message" else f"/{sort}"
        yield Turn(
            key=f"claude/{thread}/{id}{suffix}",
            thread=thread,
            name=name,
            speaker=_SPEAKERS.get(as_text(message.get("sender")), as_text(message.get("sender")) or "unknown"),
            content=text,
            at=message.get("created_at"),
            place=place,
            uri=f"uri:claude:{thread}#{id}{suffix}",
            where=where,
            kind=sort,
            metadata={"files": files} if files else {},
        )


def _split_by_kind(blocks: list[Block]) -> Iterator[tuple[TurnKind, str]]:
    """Split a message into text, thinking and tools. Calls of Holdfast's own tools are dropped."""
    ours = {block.call for block in blocks if is_own_tool(block.tool)}
    sorts: tuple[TurnKind, ...] = ("thinking", "tools", "message")
    for sort in sorts:
        text = join_blocks(
            [block for block in blocks if block.kind == sort and (not block.call or block.call not in ours)]
        )
        if text:
            yield sort, text


def _file_names(message: dict[str, Any]) -> list[str]:
    """Names of attachments; their contents are not imported."""
    attachments = [*as_list(message.get("attachments")), *as_list(message.get("files"))]
    return [
        as_text(one.get("file_name"))[:256] for one in attachments if isinstance(one, dict) and one.get("file_name")
    ][:20]
