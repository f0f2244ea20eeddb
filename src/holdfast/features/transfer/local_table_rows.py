"""Envelope rows of local tables, derived from their declarations.

A row is the complete record, with times as text and exact money. Leases are omitted: a lease holds in one store, and an
imported record is free.
"""

from collections.abc import Iterator
from functools import cache, cached_property
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from holdfast.features.transfer.schema_v1 import ARRAYS
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.fields import ExportAs, Mark
from holdfast.kernel.records.merge import canonical_json
from holdfast.kernel.storage.local_table import Export, LocalTable, list_tables
from holdfast.kernel.storage.port import Session

MAX_CHILDREN = 1000
_AS_IT_IS = ExportAs()


class LocalRecord(NamedTuple):
    """A record and the rows of its child table, in order."""

    record: Any
    children: tuple[Any, ...] = ()


class RowFields:
    """Fields of the rows of a table: all columns but the local ones."""

    def __init__(self, table: LocalTable[Any]) -> None:
        self.table = table
        self._fields = {
            name: next((mark for mark in field.marks if isinstance(mark, ExportAs)), _AS_IT_IS)
            for name, field in table.fields.items()
            if Mark.LOCAL not in field.marks
        }

    def define(self) -> list[tuple[str, Any, Any]]:
        """Return name, type and default of each field, with the limits of the record's field."""
        found = []
        for field in msgspec.structs.fields(self.table.record):
            if (how := self._fields.get(field.name)) is not None:
                default: Any = msgspec.field(default=field.default, default_factory=field.default_factory)  # type: ignore[call-overload]
                found.append((how.name or field.name, _row_type(field.type, how), default))
        return found

    def format(self, record: Any) -> dict[str, Any]:
        """Return the fields of a record that are not None."""
        row = {}
        for name, how in self._fields.items():
            if (value := getattr(record, name)) is not None:
                row[how.name or name] = value if how.format is None else how.format(value)
        return row

    def parse(self, row: Struct) -> dict[str, Any]:
        """Return the columns of a row. Raises Invalid."""
        columns = {}
        for name, how in self._fields.items():
            value = getattr(row, field := how.name or name)
            columns[name] = value if value is None or how.parse is None else how.parse(value, field)
        return columns


def _row_type(hint: Any, how: ExportAs) -> Any:
    if how.type is None:
        return hint
    is_optional = get_origin(hint) in (Union, UnionType) and type(None) in get_args(hint)
    return how.type | None if is_optional else how.type


class RowFormat:
    """Converts the records of a table to the rows of its array and back."""

    def __init__(self, table: LocalTable[Any], export: Export[Any]) -> None:
        self.table, self.export = table, export
        self._fields = RowFields(table)
        self._nested = next((child for child in table.children if child.nested is not None), None)

    @cached_property
    def row_type(self) -> type[Struct]:
        """The type of a row. Unknown fields are accepted, but not in nested rows: there is no place to store them."""
        fields = self._fields.define()
        if self._nested is not None and self._nested.nested is not None:
            nested = msgspec.defstruct(
                "NestedRow", RowFields(self._nested).define(), frozen=True, kw_only=True, forbid_unknown_fields=True
            )
            several = Annotated[list[nested], Meta(min_length=1, max_length=MAX_CHILDREN)]  # type: ignore[valid-type]
            fields.append((self._nested.nested.field, several, msgspec.field()))
        return msgspec.defstruct("LocalRow", fields, frozen=True, kw_only=True)

    @property
    def has_namespace(self) -> bool:
        return "namespace" in self.table.columns

    @property
    def author_column(self) -> str | None:
        """Column with the agent that created a record."""
        return next((name for name in ("agent", "set_by") if name in self.table.columns), None)

    def list_records(self, session: Session) -> Iterator[LocalRecord]:
        """All exported records by key, read a page at a time."""
        for record in self.table.iterate(session):
            if self.export.includes(record):
                yield self._load(session, record)

    def get(self, session: Session, record: Any) -> LocalRecord | None:
        """The stored record with the key of another."""
        stored = self.table.get(session, *self.table.key_of(record))
        return None if stored is None else self._load(session, stored)

    def put(self, session: Session, local: LocalRecord) -> None:
        """Insert or replace a record with its children."""
        self.table.put(session, local.record)
        if self._nested is not None:
            self._nested.delete_of_parents(session, self.table.key_of(local.record))
            self._nested.put_many(session, local.children)

    def _load(self, session: Session, record: Any) -> LocalRecord:
        if self._nested is None or self._nested.nested is None or self._nested.parent is None:
            return LocalRecord(record)
        place = self._nested.nested.place
        children = self._nested.get_many(session, self.table.key_of(record), self._nested.parent[1])
        return LocalRecord(record, tuple(sorted(children, key=lambda child: getattr(child, place))))

    def release(self, local: LocalRecord) -> LocalRecord:
        """Remove the lease from a record."""
        return local._replace(record=self.export.release(local.record))

    def row_id(self, record: Any) -> str:
        """Id of a record in an envelope."""
        key = self.table.key_of(record)
        return str(key[0]) if len(key) == 1 else canonical_json(list(key)).decode()

    def to_row(self, local: LocalRecord) -> dict[str, Any]:
        """Convert a record to a row; None is omitted."""
        row = self._fields.format(self.export.release(local.record))
        if self._nested is not None and self._nested.nested is not None:
            row[self._nested.nested.field] = [RowFields(self._nested).format(child) for child in local.children]
        return row

    def from_row(self, row: Struct) -> LocalRecord:
        """Convert a row to a record. Raises Invalid if the store would reject it."""
        record = self.table.record(**self._fields.parse(row))
        return self.release(LocalRecord(self.export.validate(record), self._read_children(record, row)))

    def _read_children(self, record: Any, row: Struct) -> tuple[Any, ...]:
        child = self._nested
        if child is None or child.nested is None or child.parent is None:
            return ()
        field, place = child.nested
        (name,) = (column for column in child.key if column != child.parent[1])
        fixed = {child.parent[1]: self.table.key_of(record)[0]}
        fields, rows = RowFields(child), getattr(row, field)
        if len({getattr(one, name) for one in rows}) < len(rows):
            raise Invalid(f"{field}: {name}s must be unique", fields=[field])
        return tuple(child.record(**fields.parse(one), **fixed, **{place: at}) for at, one in enumerate(rows))


@cache
def list_formats() -> dict[str, RowFormat]:
    """The formats of all exported local tables by array, in import order: referenced records come first."""
    formats = {table.export.array: RowFormat(table, table.export) for table in list_tables() if table.export}
    return {array: formats[array] for array in ARRAYS if array in formats}
