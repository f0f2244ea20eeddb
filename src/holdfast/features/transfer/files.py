"""Export to and import from a file of any size: one row in memory, one transaction per batch."""

import codecs
import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import Any, BinaryIO, NamedTuple, NoReturn

import msgspec
from msgspec import Struct

from holdfast.features.sync.bundles.service import create_file, open_file
from holdfast.features.transfer import schema_v1
from holdfast.features.transfer.exporter import Row, export_rows
from holdfast.features.transfer.import_state import Options
from holdfast.features.transfer.importer import PROGRESS_STEP, Importer, ImportReport, RejectedRow
from holdfast.kernel.context import Context
from holdfast.kernel.errors import HoldfastError, Invalid
from holdfast.kernel.journal.dry_run import open_dry_run
from holdfast.kernel.local_files import must_be_local, translate_os_errors

BATCH_ROWS = 200
"""Rows per transaction."""
CHUNK_CHARS = 1 << 18
MAX_ITEM_CHARS = 64 << 20
"""Characters of one row, or of a field that is not a list."""
MAX_LISTED_REJECTIONS = 1000
"""Rejected rows that are listed; all are counted."""
SHARED_TRANSACTION = ("entities", "links", "namespaces", "grants", "invalidations")
"""Arrays imported in one transaction: the notices that a link creates depend on the others."""


class ExportFileResult(Struct, frozen=True, kw_only=True):
    file: str
    bytes: int
    arrays: dict[str, int]
    """Number of rows per array."""


def write_export(ctx: Context, file: str, under: str | None = None) -> ExportFileResult:
    """Write an export of one snapshot, row by row. Leaves a complete file or none."""
    must_be_local(ctx, "file")
    counts: dict[str, int] = {}
    with create_file(file) as to, ctx.reading() as session:
        size, before = 0, b"{"
        for name, value in sorted(export_rows(ctx, session, under).items()):
            size += to.write(before + _encode(name) + b":")
            size += _write_rows(to, value, name, counts) if isinstance(value, Iterator) else to.write(_encode(value))
            before = b",\n"
        size += to.write(b"}\n")
    return ExportFileResult(file=file, bytes=size, arrays=counts)


def _write_rows(to: BinaryIO, rows: Iterator[Row], name: str, counts: dict[str, int]) -> int:
    """Write an array, one row per line."""
    size, counts[name] = to.write(b"["), 0
    for row in rows:
        size += to.write((b",\n" if counts[name] else b"\n") + _encode(row))
        counts[name] += 1
    return size + to.write(b"]")


_encode = msgspec.json.Encoder(order="deterministic").encode


class FileImportResult(NamedTuple):
    report: ImportReport
    rejected_count: int
    """Number of rejected rows; the report lists the first ones."""


def read_export(ctx: Context, file: str, options: Options, *, dry_run: bool = False) -> FileImportResult:
    """Import an export file in batches, after reading it completely.

    Each batch is durable before the next, so an interrupted import can be repeated to continue.
    """
    must_be_local(ctx, "file")
    with open_file(file) as source, _spool(source) as spooled:
        schema_v1.must_be_envelope({**spooled.fields, **{name: [] for name in spooled.lists}})
        with open_dry_run(ctx) if dry_run else nullcontext(ctx) as there:
            return _FileImport(there, options, spooled).import_all()


class _SpooledExport(NamedTuple):
    """A parsed file: plain fields, and a temporary file of lines for each list."""

    fields: Row
    lists: dict[str, BinaryIO]
    counts: dict[str, int]

    def rows(self, name: str) -> Iterator[tuple[int, bytes]]:
        self.lists[name].seek(0)
        return enumerate(self.lists[name])


class _FileImport:
    """Import of one file, with its progress."""

    def __init__(self, ctx: Context, options: Options, spooled: _SpooledExport) -> None:
        self._ctx = ctx
        self._spooled = spooled
        self._importer = Importer(ctx, None, options)
        self._known = [name for name in schema_v1.ARRAYS if name in spooled.lists]
        self._report = ImportReport({name: Counter() for name in self._known}, [], 0, [])
        self._total, self._done, self._rejected = sum(spooled.counts.values()), 0, 0

    def import_all(self) -> FileImportResult:
        for name in self._known:
            if name == SHARED_TRANSACTION[0] or (
                name in SHARED_TRANSACTION and SHARED_TRANSACTION[0] not in self._known
            ):
                self._import_batch((one, *row) for one in self._list_shared() for row in self._spooled.rows(one))
            elif name not in SHARED_TRANSACTION:
                self._import_array(name)
        self._keep_unknown()
        kept = sorted(self._report.kept_fields)
        return FileImportResult(
            self._report._replace(restamped=self._importer.restamped, kept_fields=kept), self._rejected
        )

    def _list_shared(self) -> list[str]:
        return [name for name in self._known if name in SHARED_TRANSACTION]

    def _import_array(self, name: str) -> None:
        rows = self._spooled.rows(name)
        while batch := list(islice(rows, BATCH_ROWS)):
            self._import_batch((name, *row) for row in batch)

    def _import_batch(self, rows: Iterator[tuple[str, int, bytes]]) -> None:
        with self._ctx.transaction() as write:
            self._importer.use_transaction(write)
            for name, index, line in rows:
                self._import_line(name, index, line)

    def _import_line(self, name: str, index: int, line: bytes) -> None:
        before = len(self._report.rejected)
        try:
            raw = _decode(line)
        except HoldfastError as error:
            self._report.rejected.append(RejectedRow(name, index, error))
        else:
            self._importer.try_row(self._report, name, index, raw)
        self._rejected += len(self._report.rejected) - before
        del self._report.rejected[MAX_LISTED_REJECTIONS:]
        if self._done % PROGRESS_STEP == 0:
            self._ctx.progress(self._done, self._total, "importing")
        self._done += 1

    def _keep_unknown(self) -> None:
        """Store fields that this release does not know, unchanged."""
        values = {name: value for name, value in self._spooled.fields.items() if name not in schema_v1.HEADER_FIELDS}
        for name in self._spooled.lists.keys() - {*schema_v1.ARRAYS}:
            values[name] = [_decode(line) for _, line in self._spooled.rows(name)]
        with self._ctx.transaction() as write:
            self._importer.use_transaction(write)
            for name in sorted(values):
                self._importer.try_row(self._report, name, 0, values[name])


def _decode(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Invalid(f"Not valid JSON: {error}") from None


@contextmanager
def _spool(file: BinaryIO) -> Iterator[_SpooledExport]:
    """Read an export completely into temporary files."""
    with ExitStack() as files, translate_os_errors(Path(gettempdir())):
        spooled, reader = _SpooledExport({}, {}, {}), _ExportReader(file)
        for name in reader.read_fields():
            if name in spooled.fields or name in spooled.lists:
                raise Invalid(f"{name}: occurs twice", fields=["file"])
            if not reader.is_list():
                spooled.fields[name] = _decode(reader.read_item())
                continue
            to = spooled.lists[name] = files.enter_context(TemporaryFile())
            spooled.counts[name] = _write_lines(to, reader.read_items())
        yield spooled


def _write_lines(to: BinaryIO, items: Iterator[bytes]) -> int:
    count = 0
    for item in items:
        to.write(item + b"\n")
        count += 1
    return count


_BLANK = re.compile(r"[ \t\r\n]*")


class _ExportReader:
    """Reads one JSON object of any size in chunks."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._text, self._at, self._at_end = "", 0, False
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._json = json.JSONDecoder(parse_constant=_no_constant)

    def read_fields(self) -> Iterator[str]:
        """Field names. Read the value of each before the next."""
        self._expect("{")
        while self._peek() != "}":
            name = json.loads(self.read_item())
            if not isinstance(name, str):
                raise _broken_file("a field name is not a string")
            self._expect(":")
            yield name
            if self._peek() != "}":
                self._expect(",")
        self._expect("}")
        if self._peek():
            raise _broken_file("there is data after its end")

    def is_list(self) -> bool:
        return self._peek() == "["

    def read_items(self) -> Iterator[bytes]:
        """Items of a list, each on one line."""
        self._expect("[")
        while self._peek() != "]":
            yield self.read_item()
            if self._peek() != "]":
                self._expect(",")
        self._expect("]")

    def read_item(self) -> bytes:
        """The next value as written, on one line."""
        self._peek()
        while True:
            try:
                _, end = self._json.raw_decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                if not self._read_more():
                    raise _broken_file(str(error)) from None
                continue
            if end < len(self._text) or not self._read_more():
                break
        text, self._at = self._text[self._at : end], end
        return text.replace("\n", " ").replace("\r", " ").encode()

    def _peek(self) -> str:
        """The next character that is not whitespace; empty at the end."""
        while True:
            found = _BLANK.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text) or not self._read_more():
                return self._text[self._at : self._at + 1]

    def _expect(self, sign: str) -> None:
        if (found := self._peek()) != sign:
            raise _broken_file(f"{sign} is missing" + (f" before {found}" if found else ""))
        self._at += 1

    def _read_more(self) -> bool:
        """Read more. Doubles the buffer, so that parsing a long row stays linear."""
        if self._at_end:
            return False
        left = len(self._text) - self._at
        if left > MAX_ITEM_CHARS:
            raise Invalid(f"The file has a row of more than {MAX_ITEM_CHARS:,} characters.", fields=["file"])
        chunk = self._file.read(max(CHUNK_CHARS, left))
        try:
            text = self._decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError:
            raise _broken_file("it is not UTF-8") from None
        self._text, self._at, self._at_end = self._text[self._at :] + text, 0, not chunk
        return True


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _broken_file(why: str) -> Invalid:
    return Invalid(f"The file is not a valid export: {why}. Nothing was changed.", fields=["file"])
