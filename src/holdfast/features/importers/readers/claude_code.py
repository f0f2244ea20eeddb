"""Reader of Claude Code transcripts: one JSON line per event of a session."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from holdfast.features.importers.model import Omission, Problem, Record, Turn, TurnKind
from holdfast.features.importers.readers.blocks import (
    Block,
    as_text,
    find_bad_blocks,
    is_own_tool,
    join_blocks,
    parse_blocks,
)
from holdfast.features.importers.readers.reader import ProgressCallback, read_entries
from holdfast.features.importers.sources import Piece

TURN_KINDS: tuple[TurnKind, ...] = ("thinking", "tools", "message")
_NOISE = re.compile(
    r"\s*(?:<(?:local-command-stdout|local-command-stderr|local-command-caveat|command-name|command-message|command-args|"
    r"bash-stdout|bash-stderr|task-notification)>|Caveat: The messages below were generated|"
    r"\[Request interrupted by user)"
)
_HOST_FLAGS = ("isMeta", "isCompactSummary", "isApiErrorMessage")
_REMINDER = ("<system-reminder>", "</system-reminder>")


def is_entry(raw: dict[str, Any]) -> bool:
    """Whether a line belongs to a Claude Code transcript."""
    kind = raw.get("type")
    return isinstance(kind, str) and (
        "sessionId" in raw or (kind == "summary" and "leafUuid" in raw) or "snapshot" in raw
    )


def read(piece: Piece, on_read: ProgressCallback) -> Iterator[Record]:
    """Read all turns in order. A resumed session repeats turns with the same ids."""
    return read_entries(piece, on_read, TranscriptReader(piece.name).read_entry)


class TranscriptReader:
    """State of a transcript while it is read."""

    def __init__(self, file: str) -> None:
        self._file = PurePosixPath(file).stem
        self._place = -1
        self._own_calls: set[str] = set()

    def read_entry(self, raw: dict[str, Any], where: str) -> Iterator[Record]:
        kind, message = raw.get("type"), raw.get("message")
        if kind in ("user", "assistant") and isinstance(message, dict):
            self._place += 1
            yield from self._read_turns(where, raw, message)
        elif kind in ("user", "assistant"):
            yield Problem(where=where, what="entry without a message")
        elif kind == "summary" and as_text(raw.get("summary")).strip():
            yield from self._make_summary(where, raw)
        elif kind == "summary" and not isinstance(raw.get("summary"), str | None):
            yield Problem(where=where, what="summary is not text")
        elif isinstance(kind, str):
            yield Omission(kind="system")
        else:
            yield Problem(where=where, what="not a transcript entry: type is missing")

    def _read_turns(self, where: str, raw: dict[str, Any], message: dict[str, Any]) -> Iterator[Record]:
        yield from find_bad_blocks(message.get("content"), f"{where} content")
        found = list(parse_blocks(message.get("content")))
        self._note_own_calls(found)
        for sort in TURN_KINDS:
            of_sort = [block for block in found if block.kind == sort]
            visible = [block for block in of_sort if not block.call or block.call not in self._own_calls]
            if len(visible) < len(of_sort):
                yield Omission(kind="recalled", number=len(of_sort) - len(visible))
            text = join_blocks(visible)
            if text.strip():
                yield self._make_turn(where, raw, message, sort, text)

    def _note_own_calls(self, blocks: list[Block]) -> None:
        """Note calls of Holdfast's own tools, to skip their results."""
        self._own_calls.update(block.call for block in blocks if block.call and is_own_tool(block.tool))

    def _make_turn(self, where: str, raw: dict[str, Any], message: dict[str, Any], kind: TurnKind, text: str) -> Turn:
        session = as_text(raw.get("sessionId")) or self._file
        id = as_text(raw.get("uuid")) or f"{session}/{self._place}"
        suffix = "" if kind == "message" else f"/{kind}"
        if kind == "message":
            kind, text = _classify(raw, text)
        speaker = "tool" if kind == "tools" and raw["type"] == "user" else as_text(message.get("role")) or raw["type"]
        agent = as_text(raw.get("agentId")) or "sidechain"
        return Turn(
            key=f"claude-code/{id}{suffix}",
            thread=f"{session}/{agent}" if kind == "sidechains" else session,
            name=_session_name(as_text(raw.get("cwd"))),
            speaker=speaker,
            content=text,
            at=raw.get("timestamp"),
            place=self._place,
            uri=f"uri:claude-code:{session}#{id}{suffix}",
            where=where,
            kind=kind,
            metadata={"line": where} | ({"model": model} if (model := as_text(message.get("model"))) else {}),
        )

    def _make_summary(self, where: str, raw: dict[str, Any]) -> Iterator[Record]:
        leaf = as_text(raw.get("leafUuid")) or where
        yield Turn(
            key=f"claude-code/summary/{leaf}",
            thread=self._file,
            name="Claude Code",
            speaker="summary",
            content=as_text(raw.get("summary")),
            at=raw.get("timestamp"),
            place=None,
            uri=f"uri:claude-code:{self._file}#summary-{leaf}",
            where=where,
            kind="system",
            metadata={"line": where},
        )


def _classify(raw: dict[str, Any], text: str) -> tuple[TurnKind, str]:
    """Classify a text as message, sidechain or system text of the host."""
    visible_text = _remove_reminders(text)
    if any(map(raw.get, _HOST_FLAGS)) or _NOISE.match(visible_text) or not visible_text.strip():
        return "system", text
    return ("sidechains" if raw.get("isSidechain") else "message"), visible_text


def _remove_reminders(text: str) -> str:
    """Remove system reminders of the host."""
    pieces, at = list[str](), 0
    while (start := text.find(_REMINDER[0], at)) != -1 and (end := text.find(_REMINDER[1], start)) != -1:
        pieces.append(text[at:start])
        at = end + len(_REMINDER[1])
    return "".join((*pieces, text[at:])).strip() if at else text


def _session_name(folder: str) -> str:
    path = PureWindowsPath(folder) if "\\" in folder else PurePosixPath(folder)
    return f"Claude Code in {path.name}" if path.name else "Claude Code"
