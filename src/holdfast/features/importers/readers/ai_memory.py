"""Stores of ai-memory, and envelopes of it: rows that the import knows already."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from holdfast.features.importers.model import Problem, Record, Rows
from holdfast.features.importers.readers.json_elements import decoded
from holdfast.features.importers.readers.reader import Told
from holdfast.features.importers.sources import Piece, watched
from holdfast.features.transfer.schema_v1 import must_be_envelope
from holdfast.kernel.errors import Invalid
from holdfast.kernel.storage.read_only_sqlite import ForeignFile, reading

MAGIC = b"SQLite format 3\x00"
MOST_ENVELOPE = 256 << 20
PAGE = 500
_ARRAYS = {
    "memories": "memories",
    "archived_memories": "archived",
    "entity_aliases": "entities",
    "memory_links": "links",
    "namespace_meta": "namespaces",
}
"""Which tables we know, and the arrays of an envelope that their rows belong to."""
_JSON = ("tags", "metadata", "citations", "source_span", "confidence_signals")
_OWN = ("embedding_dim", "atomised_into", "atom_of", "mentioned_entity_id", "scope_idx", "agent_id_idx", "attest_level")
"""What only the other program needs; what it keeps as bytes is left out as well."""


def read(piece: Piece, told: Told) -> Iterator[Record]:
    """The memories, the archive and the links of a store, in rows as an envelope has them."""
    if piece.path is None:
        yield Problem(where=piece.name, what="is a database within something else: unpack it first")
        return
    with reading(piece.path) as file:
        if "memories" not in file.tables:
            raise Invalid(f"path: {piece.name} is no store of ai-memory: it has no table memories", fields=["path"])
        for table, array in _ARRAYS.items():
            if table in file.tables:
                yield from _paged(file, piece, table, array)
    told(piece.size)


def _paged(file: ForeignFile, piece: Piece, table: str, array: str) -> Iterator[Record]:
    page: list[dict[str, Any]] = []
    for number, raw in file.rows(table):
        try:
            page.append(_row(raw))
        except Invalid as error:
            yield Problem(where=f"{piece.name} {table} row {number}", what=error.message)
        if len(page) == PAGE:
            yield _rows(array, page, f"{piece.name} {table}")
            page = []
    if page:
        yield _rows(array, page, f"{piece.name} {table}")


def _rows(array: str, page: list[dict[str, Any]], where: str) -> Rows:
    return Rows(envelope={array: page}, where=where, paged=True)


def _row(raw: dict[str, Any] | None) -> dict[str, Any]:
    """A row as an envelope has it: what is JSON is read, and what is not there is not said."""
    if raw is None:
        raise Invalid("is not UTF-8")
    row = {name: value for name, value in raw.items() if name not in _OWN and not isinstance(value, bytes | None)}
    for name in _JSON:
        if isinstance(row.get(name), str):
            try:
                row[name] = msgspec.json.decode(row[name])
            except msgspec.DecodeError:
                raise Invalid(f"{name}: is no JSON") from None
    return row


def read_envelope(piece: Piece, told: Told) -> Iterator[Record]:
    """A whole envelope, taken in as the import does."""
    with watched(piece, told) as source:
        data = source.read(MOST_ENVELOPE + 1)
    if len(data) > MOST_ENVELOPE:
        yield Problem(where=piece.name, what=f"has more than {MOST_ENVELOPE} bytes: take it in with `holdfast import`")
        return
    try:
        found = decoded(data)
        if not isinstance(found, dict):
            raise Invalid("is no envelope, which is a JSON object")
        must_be_envelope(found)
    except Invalid as error:
        yield Problem(where=piece.name, what=error.message)
        return
    yield Rows(envelope=found, where=piece.name)


def is_store(path: Path) -> bool:
    """Whether a database is one that can be read here."""
    with reading(path) as file:
        return "memories" in file.tables and {"title", "content"} <= set(file.tables["memories"])
