"""Reader of Claude Code transcripts: one JSON line per event of a session."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from holdfast.features.importers.model import LeftOut, Problem, Record, Sort, Turn
from holdfast.features.importers.readers.blocks import Block, blocks, is_ours, joined, misfits, text_of
from holdfast.features.importers.readers.reader import Told, entries
from holdfast.features.importers.sources import Piece

SORTS: tuple[Sort, ...] = ("thinking", "tools", "message")
_NOISE = re.compile(
    r"\s*(?:<(?:local-command-stdout|local-command-stderr|local-command-caveat|command-name|command-message|command-args|"
    r"bash-stdout|bash-stderr|task-notification)>|Caveat: The messages below were generated|"
    r"\[Request interrupted by user)"
)
_BY_THE_HOST = ("isMeta", "isCompactSummary", "isApiErrorMessage")
_REMINDER = ("<system-reminder>", "</system-reminder>")


def is_entry(raw: dict[str, Any]) -> bool:
    """Whether a line belongs to a Claude Code transcript."""
    kind = raw.get("type")
    return isinstance(kind, str) and (
        "sessionId" in raw or (kind == "summary" and "leafUuid" in raw) or "snapshot" in raw
    )


def read(piece: Piece, told: Told) -> Iterator[Record]:
    """Read all turns in order. A resumed session repeats turns with the same ids."""
    return entries(piece, told, Session(piece.name).entry)


class Session:
    """State of a transcript while it is read."""

    def __init__(self, file: str) -> None:
        self._file = PurePosixPath(file).stem
        self._place = -1
        self._ours: set[str] = set()

    def entry(self, where: str, raw: dict[str, Any]) -> Iterator[Record]:
        kind, message = raw.get("type"), raw.get("message")
        if kind in ("user", "assistant") and isinstance(message, dict):
            self._place += 1
            yield from self._turns(where, raw, message)
        elif kind in ("user", "assistant"):
            yield Problem(where=where, what="entry without a message")
        elif kind == "summary" and text_of(raw.get("summary")).strip():
            yield from self._summary(where, raw)
        elif kind == "summary" and not isinstance(raw.get("summary"), str | None):
            yield Problem(where=where, what="summary is not text")
        elif isinstance(kind, str):
            yield LeftOut(sort="system")
        else:
            yield Problem(where=where, what="not a transcript entry: type is missing")

    def _turns(self, where: str, raw: dict[str, Any], message: dict[str, Any]) -> Iterator[Record]:
        yield from misfits(message.get("content"), f"{where} content")
        found = list(blocks(message.get("content")))
        self._note_ours(found)
        for sort in SORTS:
            of_sort = [block for block in found if block.sort == sort]
            visible = [block for block in of_sort if not block.call or block.call not in self._ours]
            if len(visible) < len(of_sort):
                yield LeftOut(sort="recalled", number=len(of_sort) - len(visible))
            text = joined(visible)
            if text.strip():
                yield self._turn(where, raw, message, sort, text)

    def _note_ours(self, found: list[Block]) -> None:
        """Note calls of Holdfast's own tools, to skip their results."""
        self._ours.update(block.call for block in found if block.call and is_ours(block.tool))

    def _turn(self, where: str, raw: dict[str, Any], message: dict[str, Any], sort: Sort, text: str) -> Turn:
        session = text_of(raw.get("sessionId")) or self._file
        id = text_of(raw.get("uuid")) or f"{session}/{self._place}"
        suffix = "" if sort == "message" else f"/{sort}"
        if sort == "message":
            sort, text = _sorted(raw, text)
        speaker = "tool" if sort == "tools" and raw["type"] == "user" else text_of(message.get("role")) or raw["type"]
        agent = text_of(raw.get("agentId")) or "sidechain"
        return Turn(
            key=f"claude-code/{id}{suffix}",
            thread=f"{session}/{agent}" if sort == "sidechains" else session,
            name=_name(text_of(raw.get("cwd"))),
            speaker=speaker,
            content=text,
            at=raw.get("timestamp"),
            place=self._place,
            uri=f"uri:claude-code:{session}#{id}{suffix}",
            where=where,
            sort=sort,
            metadata={"line": where} | ({"model": model} if (model := text_of(message.get("model"))) else {}),
        )

    def _summary(self, where: str, raw: dict[str, Any]) -> Iterator[Record]:
        leaf = text_of(raw.get("leafUuid")) or where
        yield Turn(
            key=f"claude-code/summary/{leaf}",
            thread=self._file,
            name="Claude Code",
            speaker="summary",
            content=text_of(raw.get("summary")),
            at=raw.get("timestamp"),
            place=None,
            uri=f"uri:claude-code:{self._file}#summary-{leaf}",
            where=where,
            sort="system",
            metadata={"line": where},
        )


def _sorted(raw: dict[str, Any], text: str) -> tuple[Sort, str]:
    """Classify a text as message, sidechain or system text of the host."""
    visible_text = _without_reminders(text)
    if any(map(raw.get, _BY_THE_HOST)) or _NOISE.match(visible_text) or not visible_text.strip():
        return "system", text
    return ("sidechains" if raw.get("isSidechain") else "message"), visible_text


def _without_reminders(text: str) -> str:
    """Remove system reminders of the host."""
    pieces, at = list[str](), 0
    while (start := text.find(_REMINDER[0], at)) != -1 and (end := text.find(_REMINDER[1], start)) != -1:
        pieces.append(text[at:start])
        at = end + len(_REMINDER[1])
    return "".join((*pieces, text[at:])).strip() if at else text


def _name(folder: str) -> str:
    path = PureWindowsPath(folder) if "\\" in folder else PurePosixPath(folder)
    return f"Claude Code in {path.name}" if path.name else "Claude Code"
