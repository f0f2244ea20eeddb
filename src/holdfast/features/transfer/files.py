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

from holdfast.features.admin.backup import filing, must_be_local
from holdfast.features.sync.bundles.service import created, opened
from holdfast.features.transfer import schema_v1 as envelope
from holdfast.features.transfer.exporter import Row, told
from holdfast.features.transfer.importer import STEP, Intake, Rejected, Taken
from holdfast.features.transfer.model import Options
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import HoldfastError, Invalid
from holdfast.kernel.journal.dry_run import rehearsed

BATCH = 200
"""Rows per transaction."""
CHUNK = 1 << 18
MOST_ITEM = 64 << 20
"""Characters of one row, or of a field that is not a list."""
MOST_NAMED = 1000
"""Rejected rows that are listed; all are counted."""
TOGETHER = ("entities", "links", "namespaces", "grants", "invalidations")
"""Arrays imported in one transaction: the notices that a link creates depend on the others."""


class Written(NamedTuple):
    """Size and row counts of a written export."""

    bytes: int
    counts: dict[str, int]


def write_export(hold: Hold, file: str, under: str | None = None) -> Written:
    """Write an export of one snapshot, row by row. Leaves a complete file or none."""
    must_be_local(hold, "file")
    counts: dict[str, int] = {}
    with created(file) as to, hold.reading() as session:
        size, before = 0, b"{"
        for name, value in sorted(told(hold, session, under).items()):
            size += to.write(before + _encode(name) + b":")
            size += _write_rows(to, value, name, counts) if isinstance(value, Iterator) else to.write(_encode(value))
            before = b",\n"
        size += to.write(b"}\n")
    return Written(size, counts)


def _write_rows(to: BinaryIO, rows: Iterator[Row], name: str, counts: dict[str, int]) -> int:
    """Write an array, one row per line."""
    size, counts[name] = to.write(b"["), 0
    for row in rows:
        size += to.write((b",\n" if counts[name] else b"\n") + _encode(row))
        counts[name] += 1
    return size + to.write(b"]")


_encode = msgspec.json.Encoder(order="deterministic").encode


class FileTaken(NamedTuple):
    taken: Taken
    rejected: int
    """Number of rejected rows; the report lists the first ones."""


def read_export(hold: Hold, file: str, options: Options, *, dry_run: bool = False) -> FileTaken:
    """Import an export file in batches, after reading it completely.

    Each batch is durable before the next, so an interrupted import can be repeated to continue.
    """
    must_be_local(hold, "file")
    with opened(file) as source, _spooled(source) as spooled:
        envelope.must_be_envelope({**spooled.fields, **{name: [] for name in spooled.lists}})
        with rehearsed(hold) if dry_run else nullcontext(hold) as there:
            return _Taking(there, options, spooled).all()


class _Spooled(NamedTuple):
    """A parsed file: plain fields, and a temporary file of lines for each list."""

    fields: Row
    lists: dict[str, BinaryIO]
    counts: dict[str, int]

    def rows(self, name: str) -> Iterator[tuple[int, bytes]]:
        self.lists[name].seek(0)
        return enumerate(self.lists[name])


class _Taking:
    """Import of one file, with its progress."""

    def __init__(self, hold: Hold, options: Options, spooled: _Spooled) -> None:
        self._hold = hold
        self._spooled = spooled
        self._intake = Intake(hold, None, options)
        self._known = [name for name in envelope.ARRAYS if name in spooled.lists]
        self._taken = Taken({name: Counter() for name in self._known}, [], 0, [])
        self._total, self._done, self._rejected = sum(spooled.counts.values()), 0, 0

    def all(self) -> FileTaken:
        for name in self._known:
            if name == TOGETHER[0] or (name in TOGETHER and TOGETHER[0] not in self._known):
                self._batch((one, *row) for one in self._together() for row in self._spooled.rows(one))
            elif name not in TOGETHER:
                self._array(name)
        self._others()
        kept = sorted(self._taken.kept)
        return FileTaken(self._taken._replace(restamped=self._intake.restamped, kept=kept), self._rejected)

    def _together(self) -> list[str]:
        return [name for name in self._known if name in TOGETHER]

    def _array(self, name: str) -> None:
        rows = self._spooled.rows(name)
        while batch := list(islice(rows, BATCH)):
            self._batch((name, *row) for row in batch)

    def _batch(self, rows: Iterator[tuple[str, int, bytes]]) -> None:
        with self._hold.writing() as write:
            self._intake.writes(write)
            for name, index, line in rows:
                self._one(name, index, line)

    def _one(self, name: str, index: int, line: bytes) -> None:
        before = len(self._taken.rejected)
        try:
            raw = _decoded(line)
        except HoldfastError as error:
            self._taken.rejected.append(Rejected(name, index, error))
        else:
            self._intake.tried(self._taken, name, index, raw)
        self._rejected += len(self._taken.rejected) - before
        del self._taken.rejected[MOST_NAMED:]
        if self._done % STEP == 0:
            self._hold.progress(self._done, self._total, "importing")
        self._done += 1

    def _others(self) -> None:
        """Store fields that this release does not know, unchanged."""
        values = {name: value for name, value in self._spooled.fields.items() if name not in envelope.HEAD}
        for name in self._spooled.lists.keys() - {*envelope.ARRAYS}:
            values[name] = [_decoded(line) for _, line in self._spooled.rows(name)]
        with self._hold.writing() as write:
            self._intake.writes(write)
            for name in sorted(values):
                self._intake.tried(self._taken, name, 0, values[name])


def _decoded(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Invalid(f"Not valid JSON: {error}") from None


@contextmanager
def _spooled(given: BinaryIO) -> Iterator[_Spooled]:
    """Read an export completely into temporary files."""
    with ExitStack() as files, filing(Path(gettempdir())):
        spooled, reader = _Spooled({}, {}, {}), _Reader(given)
        for name in reader.fields():
            if name in spooled.fields or name in spooled.lists:
                raise Invalid(f"{name}: occurs twice", fields=["file"])
            if not reader.is_list():
                spooled.fields[name] = _decoded(reader.item())
                continue
            to = spooled.lists[name] = files.enter_context(TemporaryFile())
            spooled.counts[name] = _write_lines(to, reader.items())
        yield spooled


def _write_lines(to: BinaryIO, items: Iterator[bytes]) -> int:
    count = 0
    for item in items:
        to.write(item + b"\n")
        count += 1
    return count


_BLANK = re.compile(r"[ \t\r\n]*")


class _Reader:
    """Reads one JSON object of any size in chunks."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._text, self._at, self._ended = "", 0, False
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._json = json.JSONDecoder(parse_constant=_no_constant)

    def fields(self) -> Iterator[str]:
        """Field names. Read the value of each before the next."""
        self._must("{")
        while self._next() != "}":
            name = json.loads(self.item())
            if not isinstance(name, str):
                raise _broken("a field name is not a string")
            self._must(":")
            yield name
            if self._next() != "}":
                self._must(",")
        self._must("}")
        if self._next():
            raise _broken("there is data after its end")

    def is_list(self) -> bool:
        return self._next() == "["

    def items(self) -> Iterator[bytes]:
        """Items of a list, each on one line."""
        self._must("[")
        while self._next() != "]":
            yield self.item()
            if self._next() != "]":
                self._must(",")
        self._must("]")

    def item(self) -> bytes:
        """The next value as written, on one line."""
        self._next()
        while True:
            try:
                _, end = self._json.raw_decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                if not self._more():
                    raise _broken(str(error)) from None
                continue
            if end < len(self._text) or not self._more():
                break
        text, self._at = self._text[self._at : end], end
        return text.replace("\n", " ").replace("\r", " ").encode()

    def _next(self) -> str:
        """The next character that is not whitespace; empty at the end."""
        while True:
            found = _BLANK.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text) or not self._more():
                return self._text[self._at : self._at + 1]

    def _must(self, sign: str) -> None:
        if (found := self._next()) != sign:
            raise _broken(f"{sign} is missing" + (f" before {found}" if found else ""))
        self._at += 1

    def _more(self) -> bool:
        """Read more. Doubles the buffer, so that parsing a long row stays linear."""
        if self._ended:
            return False
        left = len(self._text) - self._at
        if left > MOST_ITEM:
            raise Invalid(f"The file has a row of more than {MOST_ITEM:,} characters.", fields=["file"])
        chunk = self._file.read(max(CHUNK, left))
        try:
            text = self._decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError:
            raise _broken("it is not UTF-8") from None
        self._text, self._at, self._ended = self._text[self._at :] + text, 0, not chunk
        return True


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _broken(why: str) -> Invalid:
    return Invalid(f"The file is not a valid export: {why}. Nothing was changed.", fields=["file"])
