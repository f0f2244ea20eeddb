"""Import a source: detect its format, read it, store its records; recover turns of crashed sessions."""

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from holdfast.features.importers import sources
from holdfast.features.importers.model import Omission, Record, Turn, check_timestamp
from holdfast.features.importers.plan import Options
from holdfast.features.importers.readers import Format, codex, formats
from holdfast.features.importers.readers.json_elements import Line, decode_json, read_lines
from holdfast.features.importers.report import Report
from holdfast.features.importers.sources import Source
from holdfast.features.importers.writer import RecordWriter
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid, NotFound


class ImporterResult(NamedTuple):
    format: str
    files: int
    passed_over: int
    """Files of an unknown or another format."""
    report: Report


def import_path(ctx: Context, path: Path, form: Format | None, options: Options) -> ImporterResult:
    """Import the file, folder or zip at a path."""
    with sources.open_source(path) as place:
        return _import_source(ctx, place, form, options)


def import_text(ctx: Context, text: str, form: Format | None, options: Options) -> ImporterResult:
    """Import the text of a request."""
    return _import_source(ctx, sources.source_from_text(text), form, options)


def _import_source(ctx: Context, source: Source, form: Format | None, options: Options) -> ImporterResult:
    is_explicit = form is not None
    if form is None:
        form, pieces = formats.detect_format(source)
    else:
        pieces = formats.select_files(source, form)
    keeper = RecordWriter(ctx, form, options)
    for problem in source.problems:
        keeper.report.add_problem(problem)
    on_read = _count_bytes(ctx, sum(piece.size for piece in pieces), form)
    report = keeper.write_records(formats.read(form, pieces, on_read))
    if is_explicit and report.is_empty:
        formats.must_not_be_empty(form)
    return ImporterResult(form, len(pieces), len(source.pieces) - len(pieces), report)


def _count_bytes(ctx: Context, total: int, form: str) -> Callable[[int], None]:
    """Build a callback that reports the bytes read so far as progress."""
    bytes_read = 0

    def add_bytes(number: int) -> None:
        nonlocal bytes_read
        bytes_read = min(bytes_read + number, total)
        ctx.progress(bytes_read, total, f"importing {form}")

    return add_bytes


Host = Literal["claude-code", "codex"]
HOSTS: tuple[Host, ...] = ("claude-code", "codex")
MAX_CODEX_TRANSCRIPTS = 200
"""Newest Codex transcripts that are searched for those of a folder."""


class TranscriptQuery(NamedTuple):
    """Which turns of which transcripts to recover."""

    host: Host | None = None
    transcript: Path | None = None
    since: int | None = None
    limit: int = 100
    sessions: int = 2


def recover_turns(ctx: Context, query: TranscriptQuery, options: Options) -> tuple[list[Path], ImporterResult]:
    """Store the last turns of a transcript, or of each of the newest sessions in this folder; return those read."""
    paths = [query.transcript] if query.transcript else find_newest(query.host, Path.cwd(), query.sessions)
    forms = dict.fromkeys(map(_detect_host, paths))
    keeper = RecordWriter(ctx, next(iter(forms)), options)
    for path in paths:
        with sources.open_source(path) as place:
            records = formats.read(_detect_host(path), place.pieces, lambda number: None)
            keeper.write_records(_last_turns(records, query, options, ctx.now()))
    return paths, ImporterResult("/".join(forms), len(paths), 0, keeper.report)


def _detect_host(path: Path) -> Host:
    with sources.open_source(path) as place:
        if not place.is_single_file:
            raise Invalid(f"transcript: {path} contains several files: use mine", fields=["transcript"])
        form = formats.detect_file_format(place.pieces[0], is_single_file=True)
    if form == "claude-code" or form == "codex":
        return form
    raise Invalid(f"transcript: {path} is not a transcript of {' or '.join(HOSTS)}", fields=["transcript"])


def _last_turns(records: Iterable[Record], query: TranscriptQuery, options: Options, now: int) -> Iterator[Record]:
    """Keep the last turns since a time; pass other records through."""
    turns: deque[Turn] = deque()
    for record in records:
        if not isinstance(record, Turn) or (record.kind != "message" and record.kind not in options.include):
            yield record
        elif query.since is not None and (check_timestamp(record.at, now)[0] or 0) < query.since:
            yield Omission(kind="before")
        else:
            turns.append(record)
            if len(turns) > query.limit:
                turns.popleft()
                yield Omission(kind="before")
    yield from turns


def find_newest(host: Host | None, folder: Path, number: int) -> list[Path]:
    """Find the newest transcripts of sessions in a folder, newest last.

    The caller may be in a session itself, whose transcript is the newest; therefore there are several.
    """
    found: list[Path] = []
    if host in (None, "claude-code"):
        found += _list_claude_code(folder)
    if host in (None, "codex"):
        found += _list_codex(folder, number)
    if not found:
        raise NotFound(f"No transcript of a session in {folder}: give one with --transcript.")
    return sorted(found, key=_get_mtime)[-number:]


def _list_claude_code(folder: Path) -> list[Path]:
    home = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")
    project = home / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(folder))
    return [path for path in project.glob("*.jsonl") if path.is_file() and not path.name.startswith("agent-")]


def _list_codex(folder: Path, number: int) -> list[Path]:
    home = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
    paths = sorted((home / "sessions").glob("**/rollout-*.jsonl"), key=_get_mtime, reverse=True)[:MAX_CODEX_TRANSCRIPTS]
    return list(islice((path for path in paths if _read_cwd(path) == str(folder)), number))


def _get_mtime(path: Path) -> float:
    return path.stat().st_mtime


def _read_cwd(path: Path) -> str | None:
    """Read the folder of a Codex session from its first line."""
    with path.open("rb") as source:
        first = next(read_lines(source, path.name), None)
    if not isinstance(first, Line):
        return None
    try:
        raw = decode_json(first.data)
    except Invalid:
        return None
    meta = raw.get("payload") if isinstance(raw, dict) and codex.is_entry(raw) else None
    return meta.get("cwd") if isinstance(meta, dict) else None
