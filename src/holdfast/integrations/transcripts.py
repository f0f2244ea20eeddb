"""Read transcripts of Claude Code and Codex as ordered turns. Nothing is stored."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Literal

from msgspec import Struct

from holdfast.features.importers import sources
from holdfast.features.importers.model import Omission, Problem, Turn, TurnKind, read_timestamp
from holdfast.features.importers.readers import formats
from holdfast.kernel.errors import Invalid
from holdfast.kernel.timestamps import format_timestamp

Host = Literal["claude-code", "codex"]
HOSTS: tuple[Host, ...] = ("claude-code", "codex")


class TranscriptTurn(Struct, frozen=True, kw_only=True):
    """A message or action in a session."""

    session: str
    place: int | None
    """Its number in the session."""
    role: str
    text: str
    at: str | None
    """RFC 3339 time; None if the transcript has none."""
    sort: TurnKind = "message"
    """A message, or other output: tools, system, thinking, sidechains."""


class Transcript(Struct, frozen=True, kw_only=True):
    """The turns of a transcript, and its problems."""

    host: Host
    turns: list[TranscriptTurn]
    left_out: dict[str, int]
    """Number of turns not included, by sort."""
    problems: list[str]
    """Problems with their location; the other turns are included."""


def read_transcript(
    path: str | os.PathLike[str], *, include: Collection[TurnKind] = (), host: Host | None = None
) -> Transcript:
    """Read the messages of a transcript, plus the sorts of turns in `include`."""
    with sources.open_source(Path(path)) as place:
        form, pieces = formats.detect_format(place) if host is None else (host, formats.select_files(place, host))
        if form not in HOSTS:
            raise Invalid(
                f"path: {Path(path).name} is {form}, not a transcript of {' or '.join(HOSTS)}", fields=["path"]
            )
        found = Transcript(host=form, turns=[], left_out={}, problems=[])
        for record in formats.read(form, pieces, lambda _: None):
            _add_record(found, record, include)
    return found


def _add_record(found: Transcript, record: object, include: Collection[TurnKind]) -> None:
    match record:
        case Turn() if record.kind == "message" or record.kind in include:
            found.turns.append(_turn(record))
        case Turn():
            found.left_out[record.kind] = found.left_out.get(record.kind, 0) + 1
        case Omission():
            found.left_out[record.kind] = found.left_out.get(record.kind, 0) + record.number
        case Problem():
            found.problems.append(f"{record.where}: {record.what}")


def _turn(turn: Turn) -> TranscriptTurn:
    return TranscriptTurn(
        session=turn.thread, place=turn.place, role=turn.speaker, text=turn.content, at=_at(turn), sort=turn.kind
    )


def _at(turn: Turn) -> str | None:
    try:
        at = read_timestamp(turn.at)
    except Invalid:
        return None
    return None if at is None else format_timestamp(at)
