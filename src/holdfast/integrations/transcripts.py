"""Transcripts that Claude Code and Codex write, as turns in their order. Nothing is kept of them here."""

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
    """Something that was said or done in a session."""

    session: str
    place: int | None
    """Its number in the session."""
    role: str
    text: str
    at: str | None
    """When, as RFC 3339 text; None: the transcript does not say it."""
    sort: Sort = "message"
    """A message, or what programs and models do in between: tools, system, thinking, sidechains."""


class Transcript(Struct, frozen=True, kw_only=True):
    """What a transcript holds, and what of it could not be read."""

    host: Host
    turns: list[TranscriptTurn]
    left_out: dict[str, int]
    """How many turns were not asked for, by their sort."""
    problems: list[str]
    """Where something is wrong, and what; the other turns are there all the same."""


def read_transcript(
    path: str | os.PathLike[str], *, include: Collection[Sort] = (), host: Host | None = None
) -> Transcript:
    """The turns of a transcript: what people and the model said, and of the rest what is asked for with `include`."""
    with places.at(Path(path)) as place:
        form, pieces = formats.detect(place) if host is None else (host, formats.of_format(place, host))
        if form not in HOSTS:
            raise Invalid(f"path: {Path(path).name} is {form}, no transcript of {' or '.join(HOSTS)}", fields=["path"])
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
