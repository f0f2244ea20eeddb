"""Reader of Codex transcripts: one JSON line per item sent to or by the model."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from holdfast.features.importers.model import Omission, Problem, Record, Turn, TurnKind
from holdfast.features.importers.readers.blocks import (
    as_list,
    as_text,
    find_bad_blocks,
    format_call,
    format_result,
    is_own_tool,
    join_blocks,
    parse_blocks,
)
from holdfast.features.importers.readers.reader import ProgressCallback, read_entries
from holdfast.features.importers.sources import Piece

TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_ITEMS = (
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "local_shell_call",
    "web_search_call",
)
_CONTEXT = re.compile(
    r"\s*(?:<(?:environment_context|user_instructions|INSTRUCTIONS|turn_aborted|permissions)|# AGENTS\.md)"
)
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def is_entry(raw: dict[str, Any]) -> bool:
    """Whether a line belongs to a Codex transcript, in its current or first form."""
    if raw.get("type") in TYPES and isinstance(raw.get("payload"), dict):
        return True
    head = {"id", "timestamp"} <= raw.keys() and ("instructions" in raw or "git" in raw)
    return head or (raw.get("type") in _ITEMS and ("role" in raw or "call_id" in raw))


def read(piece: Piece, on_read: ProgressCallback) -> Iterator[Record]:
    """Read all turns in order. Events repeat the items and are skipped."""
    return read_entries(piece, on_read, TranscriptReader(piece.name).read_entry)


class TranscriptReader:
    """State of a transcript while it is read."""

    def __init__(self, file: str) -> None:
        stem = PurePosixPath(file).stem
        self._id = found[-1] if (found := _ID.findall(stem)) else stem
        self._name = "Codex"
        self._place = -1
        self._own_calls: set[str] = set()

    def read_entry(self, raw: dict[str, Any], where: str) -> Iterator[Record]:
        kind, payload = raw.get("type"), raw.get("payload")
        if kind == "session_meta" and isinstance(payload, dict):
            self._start_session(payload)
        elif kind == "response_item" and isinstance(payload, dict):
            yield from self._read_item(where, payload, raw.get("timestamp"))
        elif kind in ("session_meta", "response_item"):
            yield Problem(where=where, what="entry without a payload")
        elif kind in TYPES:
            yield Omission(kind="system")
        elif kind in _ITEMS:
            yield from self._read_item(where, raw, raw.get("timestamp"))
        elif is_entry(raw):
            self._start_session(raw)
        elif "record_type" in raw or isinstance(kind, str):
            yield Omission(kind="system")
        else:
            yield Problem(where=where, what="not a transcript entry: type is missing")

    def _start_session(self, meta: dict[str, Any]) -> None:
        self._id = as_text(meta.get("id")) or self._id
        folder = PurePosixPath(as_text(meta.get("cwd"))).name
        self._name = f"Codex in {folder}" if folder else self._name

    def _read_item(self, where: str, item: dict[str, Any], at: Any) -> Iterator[Record]:
        self._place += 1
        call, tool = as_text(item.get("call_id")), as_text(item.get("name"))
        if is_own_tool(tool) or (tool and is_own_tool(f"{as_text(item.get('namespace'))}{tool}")):
            self._own_calls.add(call)
        if call and call in self._own_calls:
            yield Omission(kind="recalled")
            return
        yield from _check_item(item, where)
        sort, speaker, text = _parse_item(item)
        if text.strip():
            yield Turn(
                key=f"codex/{self._id}/{self._place}",
                thread=self._id,
                name=self._name,
                speaker=speaker,
                content=text,
                at=at,
                place=self._place,
                uri=f"uri:codex:{self._id}#{self._place}",
                where=where,
                kind=sort,
                metadata={"line": where},
            )


def _check_item(item: dict[str, Any], where: str) -> Iterator[Problem]:
    """Report parts of an item that cannot be read."""
    if not isinstance(item.get("type"), str):
        yield Problem(where=where, what="item without a type")
    yield from find_bad_blocks(item.get("content"), f"{where} content")
    if not isinstance(output := item.get("output"), dict):
        yield from find_bad_blocks(output, f"{where} output")


def _parse_item(item: dict[str, Any]) -> tuple[TurnKind, str, str]:
    """Kind, speaker and text of an item."""
    match item.get("type"):
        case "message":
            role, text = as_text(item.get("role")) or "unknown", join_blocks(list(parse_blocks(item.get("content"))))
            system = role in ("developer", "system") or (role == "user" and _CONTEXT.match(text))
            return ("system" if system else "message"), role, text
        case "reasoning":
            parts = [*as_list(item.get("summary")), *as_list(item.get("content"))]
            texts = [as_text(one.get("text")) for one in parts if isinstance(one, dict)]
            return "thinking", "assistant", "\n\n".join(filter(None, texts))
        case "function_call" | "custom_tool_call":
            arguments = item.get("arguments", item.get("input"))
            return "tools", "assistant", format_call(as_text(item.get("name")), arguments)
        case "function_call_output" | "custom_tool_call_output":
            output = item.get("output")
            return "tools", "tool", format_result(output.get("content") if isinstance(output, dict) else output)
        case "local_shell_call" | "web_search_call":
            return "tools", "assistant", format_call(as_text(item.get("type")), item.get("action"))
    return "system", "system", ""
