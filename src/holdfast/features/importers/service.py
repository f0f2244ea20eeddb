"""Import a source: detect its format, read it, store its records."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from holdfast.features.importers import sources
from holdfast.features.importers.plan import Options
from holdfast.features.importers.readers import Format, formats
from holdfast.features.importers.report import Report
from holdfast.features.importers.sources import Source
from holdfast.features.importers.writer import RecordWriter
from holdfast.kernel.context import Context


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
