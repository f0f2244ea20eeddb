"""Reader of ai-memory stores (SQLite) and envelopes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from holdfast.features.importers.model import EnvelopeRows, Problem, Record
from holdfast.features.importers.readers.json_elements import decode_json
from holdfast.features.importers.readers.reader import ProgressCallback
from holdfast.features.importers.sources import Piece, open_with_progress
from holdfast.features.transfer.schema_v1 import must_be_envelope
from holdfast.kernel.errors import Invalid
from holdfast.kernel.storage.read_only_sqlite import SqliteReader, open_read_only

MAGIC = b"SQLite format 3\x00"
MAX_ENVELOPE_BYTES = 256 << 20
PAGE_ROWS = 500
_ARRAYS = {
    "memories": "memories",
    "archived_memories": "archived",
    "entity_aliases": "entities",
    "memory_links": "links",
    "namespace_meta": "namespaces",
}
"""Known tables and the envelope arrays of their rows."""
_JSON = ("tags", "metadata", "citations", "source_span", "confidence_signals")
_IGNORED_COLUMNS = (
    "embedding_dim",
    "atomised_into",
    "atom_of",
    "mentioned_entity_id",
    "scope_idx",
    "agent_id_idx",
    "attest_level",
)
"""Columns that only ai-memory needs. Binary values are skipped as well."""


def read(piece: Piece, on_read: ProgressCallback) -> Iterator[Record]:
    """Read memories, archive and links of a store as envelope rows."""
    if piece.path is None:
        yield Problem(where=piece.name, what="database within an archive: unpack it first")
        return
    with open_read_only(piece.path) as file:
        if "memories" not in file.tables:
            raise Invalid(f"path: {piece.name} is not an ai-memory store: it has no table memories", fields=["path"])
        for table, array in _ARRAYS.items():
            if table in file.tables:
                yield from _read_table(file, piece, table, array)
    on_read(piece.size)


def _read_table(file: SqliteReader, piece: Piece, table: str, array: str) -> Iterator[Record]:
    page: list[dict[str, Any]] = []
    for number, raw in file.rows(table):
        try:
            page.append(_parse_row(raw))
        except Invalid as error:
            yield Problem(where=f"{piece.name} {table} row {number}", what=error.message)
        if len(page) == PAGE_ROWS:
            yield _make_rows(array, page, f"{piece.name} {table}")
            page = []
    if page:
        yield _make_rows(array, page, f"{piece.name} {table}")


def _make_rows(array: str, page: list[dict[str, Any]], where: str) -> EnvelopeRows:
    return EnvelopeRows(envelope={array: page}, where=where, is_page=True)


def _parse_row(raw: dict[str, Any] | None) -> dict[str, Any]:
    """Convert a row: decode JSON columns, omit missing values."""
    if raw is None:
        raise Invalid("not UTF-8")
    row = {
        name: value
        for name, value in raw.items()
        if name not in _IGNORED_COLUMNS and not isinstance(value, bytes | None)
    }
    for name in _JSON:
        if isinstance(row.get(name), str):
            try:
                row[name] = msgspec.json.decode(row[name])
            except msgspec.DecodeError:
                raise Invalid(f"{name}: invalid JSON") from None
    return row


def read_envelope(piece: Piece, on_read: ProgressCallback) -> Iterator[Record]:
    """Read a complete envelope."""
    with open_with_progress(piece, on_read) as source:
        data = source.read(MAX_ENVELOPE_BYTES + 1)
    if len(data) > MAX_ENVELOPE_BYTES:
        yield Problem(where=piece.name, what=f"more than {MAX_ENVELOPE_BYTES} bytes: use `holdfast import file`")
        return
    try:
        found = decode_json(data)
        if not isinstance(found, dict):
            raise Invalid("not an envelope: must be a JSON object")
        must_be_envelope(found)
    except Invalid as error:
        yield Problem(where=piece.name, what=error.message)
        return
    yield EnvelopeRows(envelope=found, where=piece.name)


def is_store(path: Path) -> bool:
    """Whether a database is a readable ai-memory store."""
    with open_read_only(path) as file:
        return "memories" in file.tables and {"title", "content"} <= set(file.tables["memories"])
