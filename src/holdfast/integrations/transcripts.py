"""Read transcripts of Claude Code and Codex as ordered turns. Nothing is stored."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Literal

from msgspec import Struct

from holdfast.features.importers import sources as places
from holdfast.features.importers.model import LeftOut, Problem, Sort, Turn, moment_of
from holdfast.features.importers.readers import formats
from holdfast.kernel.errors import Invalid
from holdfast.kernel.timestamps import to_text

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
    sort: Sort = "message"
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
    path: str | os.PathLike[str], *, include: Collection[Sort] = (), host: Host | None = None
) -> Transcript:
    """Read the messages of a transcript, plus the sorts of turns in `include`."""
    with places.at(Path(path)) as place:
        form, pieces = formats.detect(place) if host is None else (host, formats.of_format(place, host))
        if form not in HOSTS:
            raise Invalid(
                f"path: {Path(path).name} is {form}, not a transcript of {' or '.join(HOSTS)}", fields=["path"]
            )
        found = Transcript(host=form, turns=[], left_out={}, problems=[])
        for record in formats.read(form, pieces, lambda _: None):
            _take(found, record, include)
    return found


def _take(found: Transcript, record: object, include: Collection[Sort]) -> None:
    match record:
        case Turn() if record.sort == "message" or record.sort in include:
            found.turns.append(_turn(record))
        case Turn():
            found.left_out[record.sort] = found.left_out.get(record.sort, 0) + 1
        case LeftOut():
            found.left_out[record.sort] = found.left_out.get(record.sort, 0) + record.number
        case Problem():
            found.problems.append(f"{record.where}: {record.what}")


def _turn(turn: Turn) -> TranscriptTurn:
    return TranscriptTurn(
        session=turn.thread, place=turn.place, role=turn.speaker, text=turn.content, at=_at(turn), sort=turn.sort
    )


def _at(turn: Turn) -> str | None:
    try:
        at = moment_of(turn.at)
    except Invalid:
        return None
    return None if at is None else to_text(at)
