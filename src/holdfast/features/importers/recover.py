"""Recover turns of crashed sessions from the transcripts of agent hosts."""

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from holdfast.features.importers import sources as places
from holdfast.features.importers.model import LeftOut, Record, Turn, known_moment
from holdfast.features.importers.plan import Options
from holdfast.features.importers.readers import codex, formats
from holdfast.features.importers.readers.json_elements import decoded
from holdfast.features.importers.readers.json_lines import Line, lines
from holdfast.features.importers.service import Mined
from holdfast.features.importers.writer import Keeper
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Invalid, NotFound

Host = Literal["claude-code", "codex"]
HOSTS: tuple[Host, ...] = ("claude-code", "codex")
MOST_LOOKED_AT = 200
"""Newest Codex transcripts that are searched for those of a folder."""


class Recovered(NamedTuple):
    transcripts: list[Path]
    mined: Mined


class Wanted(NamedTuple):
    """Which turns of which transcripts to recover."""

    host: Host | None = None
    transcript: Path | None = None
    since: int | None = None
    limit: int = 100
    sessions: int = 2


def recover(hold: Hold, wanted: Wanted, options: Options) -> Recovered:
    """Store the last turns of a given transcript, or of each of the newest sessions in this folder."""
    paths = [wanted.transcript] if wanted.transcript else newest(wanted.host, Path.cwd(), wanted.sessions)
    forms = dict.fromkeys(map(_form, paths))
    keeper = Keeper(hold, next(iter(forms)), options)
    for path in paths:
        with places.at(path) as place:
            records = formats.read(_form(path), place.pieces, lambda number: None)
            keeper.take(_last(records, wanted, options, hold.now()))
    return Recovered(paths, Mined("/".join(forms), len(paths), 0, keeper.report))


def _form(path: Path) -> Host:
    with places.at(path) as place:
        if not place.whole:
            raise Invalid(f"transcript: {path} contains several files: use mine", fields=["transcript"])
        form = formats.format_of(place.pieces[0], alone=True)
    if form == "claude-code" or form == "codex":
        return form
    raise Invalid(f"transcript: {path} is not a transcript of {' or '.join(HOSTS)}", fields=["transcript"])


def _last(records: Iterable[Record], wanted: Wanted, options: Options, now: int) -> Iterator[Record]:
    """Keep the last turns since a time; pass other records through."""
    turns: deque[Turn] = deque()
    for record in records:
        if not isinstance(record, Turn) or (record.sort != "message" and record.sort not in options.include):
            yield record
        elif wanted.since is not None and (known_moment(record.at, now)[0] or 0) < wanted.since:
            yield LeftOut(sort="before")
        else:
            turns.append(record)
            if len(turns) > wanted.limit:
                turns.popleft()
                yield LeftOut(sort="before")
    yield from turns


def newest(host: Host | None, folder: Path, number: int) -> list[Path]:
    """Find the newest transcripts of sessions in a folder, newest last.

    The caller may be in a session itself, whose transcript is the newest; therefore there are several.
    """
    found: list[Path] = []
    if host in (None, "claude-code"):
        found += _of_claude_code(folder)
    if host in (None, "codex"):
        found += _of_codex(folder, number)
    if not found:
        raise NotFound(f"No transcript of a session in {folder}: give one with --transcript.")
    return sorted(found, key=_written)[-number:]


def _of_claude_code(folder: Path) -> list[Path]:
    home = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")
    project = home / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(folder))
    return [path for path in project.glob("*.jsonl") if path.is_file() and not path.name.startswith("agent-")]


def _of_codex(folder: Path, number: int) -> list[Path]:
    home = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
    paths = sorted((home / "sessions").glob("**/rollout-*.jsonl"), key=_written, reverse=True)[:MOST_LOOKED_AT]
    return list(islice((path for path in paths if _cwd(path) == str(folder)), number))


def _written(path: Path) -> float:
    return path.stat().st_mtime


def _cwd(path: Path) -> str | None:
    """Read the folder of a Codex session from its first line."""
    with path.open("rb") as source:
        first = next(lines(source, path.name), None)
    if not isinstance(first, Line):
        return None
    try:
        raw = decoded(first.data)
    except Invalid:
        return None
    meta = raw.get("payload") if isinstance(raw, dict) and codex.is_entry(raw) else None
    return meta.get("cwd") if isinstance(meta, dict) else None
