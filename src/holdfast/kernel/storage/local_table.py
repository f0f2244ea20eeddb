"""Local tables: rows of this store alone, which are not journalled and not replicated.

One frozen struct declares a table: its fields are the columns. Statements, export rows and every kind of deletion (of a
person, by age, with a purged memory) are derived, so whoever needs all tables iterates over `list_tables`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib import import_module
from types import UnionType
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo, asdict

from holdfast.kernel.errors import Conflict
from holdfast.kernel.records.fields import Mark
from holdfast.kernel.storage.port import Row, Session, Sql, SqlPart
from holdfast.kernel.timestamps import DAY

PAGE_ROWS = 250
R = TypeVar("R", bound=Struct)
Codec = Literal["plain", "bool", "list", "tuple"]


class Field(NamedTuple):
    """A column: its type without markers, and the markers."""

    name: str
    type: Any
    marks: tuple[Any, ...]
    codec: Codec
    """How its values are stored: as they are, 0 or 1, or JSON."""
    is_required: bool
    """Whether it has no default."""


class Owner(NamedTuple):
    """Whose rows these are: they go when the person is erased."""

    at: str
    """Column with the time that an erasure order must not precede."""
    column: str = "principal"


class Retention(NamedTuple):
    """Which rows are deleted once they are old."""

    setting: str
    """Field of the retention settings with the days to keep; 0 keeps all."""
    column: str
    """Column with the age of a row."""
    part: str | None = None
    """Named clause that the rows must also satisfy."""
    oldest: Callable[[int, int], int] = lambda now, days: now - days * DAY
    """Smallest value of the column that is kept, given the time and the days."""


class Export(NamedTuple, Generic[R]):
    """How rows are exported, and which rules an import follows."""

    array: str
    latest: Callable[[R], Any] = lambda record: 0
    """Rank of a state of a record: an import replaces a state by one that ranks higher."""
    includes: Callable[[R], bool] = lambda record: True
    release: Callable[[R], R] = lambda record: record
    """Return the record without its lease: a lease holds in one store."""
    is_leased: Callable[[R, int], bool] = lambda record, now: False
    validate: Callable[[R], R] = lambda record: record
    """Return the record, complete; raises Invalid if the store would reject it."""
    admit: "Callable[[Session, R, bool], R]" = lambda session, record, trusted: record
    """Return the record to write, without a clash with others. Raises Conflict, or Forbidden without trust."""


class NestedRows(NamedTuple):
    """How the rows of a child table are exported within their parent's."""

    field: str
    place: str
    """Column with the position of a row."""


class LocalTable(Generic[R]):
    """A table of this store whose rows are records of one struct. In clauses of its queries it is called `t`."""

    def __init__(
        self,
        record: type[R],
        name: str,
        key: tuple[str, ...] = ("id",),
        *,
        plural: str = "",
        owner: Owner | None = None,
        parent: "tuple[LocalTable[Any], str] | None" = None,
        retention: Retention | None = None,
        memories: tuple[str, ...] = (),
        updates: tuple[str, ...] | None = None,
        export: Export[R] | None = None,
        nested: NestedRows | None = None,
    ) -> None:
        self.record, self.name, self.key = record, name, key
        self.plural = plural or name
        """Name of its rows in counts."""
        self.owner = owner
        self.parent = parent
        """Table of the rows that these belong to, and the column with its key: deleted and erased together."""
        self.retention = retention
        self.memories = memories
        """Columns with ids of memories: purging such a memory deletes the row."""
        self._updates = updates
        """Columns that an update changes; None: all that are not marked as fixed."""
        self.export = export
        self.nested = nested
        self.children: list[LocalTable[Any]] = []
        self.columns = record.__struct_fields__
        if parent is not None:
            parent[0].children.append(self)

    @cached_property
    def fields(self) -> dict[str, Field]:
        return {one.name: _make_field(one) for one in msgspec.structs.fields(self.record)}

    def has_mark(self, mark: Mark) -> tuple[str, ...]:
        """Columns with a mark."""
        return tuple(name for name, field in self.fields.items() if mark in field.marks)

    @cached_property
    def mutable(self) -> tuple[str, ...]:
        """Columns that an update changes."""
        if self._updates is not None:
            return self._updates
        return tuple(name for name in self.columns if name not in (*self.key, *self.has_mark(Mark.FIXED)))

    # Statements

    @cached_property
    def _select(self) -> Sql:
        return Sql(f"select {', '.join(f't.{name}' for name in self.columns)} from {self.name} t where true")

    @cached_property
    def _by_key(self) -> Sql:
        return Sql(" and ".join(f"{name} = :{name}" for name in self.key))

    @cached_property
    def _insert(self) -> Sql:
        values = ", ".join(f":{name}" for name in self.columns)
        return Sql(f"insert into {self.name} ({', '.join(self.columns)}) values ({values})")

    @cached_property
    def _put(self) -> Sql:
        updates = ", ".join(f"{name} = excluded.{name}" for name in self.mutable)
        what = f"update set {updates}" if updates else "nothing"
        return Sql(f"{self._insert} on conflict ({', '.join(self.key)}) do {what}")

    # Rows

    def decode(self, row: Row) -> R:
        """Build a record from the columns of a row, in order."""
        named = dict(zip(self.columns, row, strict=True))
        for name, codec in self._coded_columns:
            if (value := named[name]) is not None:
                named[name] = _decode_value(codec, value)
        return self.record(**named)

    def encode(self, record: R) -> dict[str, Any]:
        """Return the column values of a record."""
        named = asdict(record)
        for name, codec in self._coded_columns:
            if (value := named[name]) is not None:
                named[name] = int(value) if codec == "bool" else msgspec.json.encode(value).decode()
        return named

    @cached_property
    def _coded_columns(self) -> tuple[tuple[str, Codec], ...]:
        return tuple((name, field.codec) for name, field in self.fields.items() if field.codec != "plain")

    def key_of(self, record: R) -> Row:
        return tuple(getattr(record, name) for name in self.key)

    def put(self, session: Session, record: R) -> R:
        """Insert a record, or update the row with its key except the fixed columns; return the record."""
        session.do(self._put, **self.encode(record))
        return record

    def put_many(self, session: Session, records: Iterable[R]) -> None:
        session.many(self._put, map(self.encode, records))

    def add(self, session: Session, record: R) -> R:
        """Insert a record; fails if its key is taken."""
        session.do(self._insert, **self.encode(record))
        return record

    def add_missing(self, session: Session, record: R) -> bool:
        """Insert a record unless its key is taken; return whether it was inserted."""
        sql = Sql(f"{self._insert} on conflict ({', '.join(self.key)}) do nothing returning {self.key[0]}")
        return session.row(sql, **self.encode(record)) is not None

    def get(self, session: Session, *key: object) -> R | None:
        row = session.row(Sql(f"{self._select} and {self._by_key}"), **dict(zip(self.key, key, strict=True)))
        return None if row is None else self.decode(row)

    def get_many(self, session: Session, values: Sequence[object], column: str = "") -> list[R]:
        """List the records with one of these values in a column, by default the key; ordered by key."""
        if not values:
            return []
        sql = f"{self._select} and t.{column or self.key[0]} = any(:any_of) order by {', '.join(self.key)}"
        return [self.decode(row) for row in session.rows(Sql(sql), any_of=list(values))]

    def select(self, session: Session, parts: Sequence[SqlPart], params: Mapping[str, Any]) -> list[R]:
        """List the records that satisfy named clauses of `t`; the last may order and limit."""
        return [self.decode(row) for row in session.select((self._select, *parts), params)]

    def update(self, session: Session, statement: str, params: Mapping[str, Any]) -> list[R]:
        """Run a named update and return the records that it changed, in no particular order."""
        returning = Sql(f" returning {', '.join(self.columns)}")
        return [self.decode(row) for row in session.select((statement, returning), params)]

    def first(self, session: Session, parts: Sequence[SqlPart], params: Mapping[str, Any]) -> R | None:
        """Return the first record that satisfies named clauses of `t`."""
        return next(iter(self.select(session, parts, params)), None)

    def count(self, session: Session, parts: Sequence[SqlPart] = (), params: Mapping[str, Any] | None = None) -> int:
        """Count the rows that satisfy named clauses of `t`."""
        head = Sql(f"select count(*) from {self.name} t where true")
        return int(session.select((head, *parts), params or {})[0][0])

    def iterate(self, session: Session) -> Iterator[R]:
        """Iterate over all records by key, read a page at a time."""
        key, bound, last = ", ".join(f"t.{name}" for name in self.key), "", dict[str, Any]()
        while rows := session.rows(Sql(f"{self._select}{bound} order by {key} limit {PAGE_ROWS}"), **last):
            records = [self.decode(row) for row in rows]
            yield from records
            bound = f" and ({key}) > ({', '.join(f':{name}' for name in self.key)})"
            last = dict(zip(self.key, self.key_of(records[-1]), strict=True))

    # Deletions

    def delete(self, session: Session, *key: object) -> bool:
        """Delete a row with the rows of child tables; return whether it existed."""
        for child in self.children:
            child.delete_of_parents(session, key)
        sql = Sql(f"delete from {self.name} where {self._by_key} returning {self.key[0]}")
        return session.row(sql, **dict(zip(self.key, key, strict=True))) is not None

    def delete_of_parents(self, session: Session, keys: Sequence[object]) -> None:
        """Delete the rows that belong to some rows of the parent table."""
        assert self.parent is not None, "only called for children"
        session.do(Sql(f"delete from {self.name} where {self.parent[1]} = any(:keys)"), keys=list(keys))

    def erase_person(self, session: Session, names: Sequence[str], upto: int) -> dict[str, int]:
        """Erase the rows of a person up to a time, with the rows of child tables; return the counts."""
        counts: dict[str, int] = {}
        for table in (*self.children, self):
            sql = Sql(f"delete from {table.name} where {table._belongs} returning {table.key[0]}")
            counts[table.plural] = len(session.rows(sql, names=list(names), upto=upto))
        return counts

    def list_owners(self, session: Session) -> list[str]:
        """List the people who have rows here."""
        if self.owner is None:
            return []
        return [row[0] for row in session.rows(Sql(f"select distinct {self.owner.column} from {self.name}"))]

    @property
    def _belongs(self) -> str:
        """Condition for the rows of a person."""
        if self.owner is not None:
            return f"{self.owner.column} = any(:names) and {self.owner.at} <= :upto"
        assert self.parent is not None, "only called for tables with an owner"
        table, column = self.parent
        return f"{column} in (select {table.key[0]} from {table.name} where {table._belongs})"

    def purge_memories(self, session: Session, ids: Sequence[str]) -> None:
        """Delete the rows of purged memories."""
        if self.memories:
            condition = " or ".join(f"{column} = any(:ids)" for column in self.memories)
            session.do(Sql(f"delete from {self.name} where {condition}"), ids=list(ids))

    def oldest_kept(self, now: int, settings: object) -> int | None:
        """Return the smallest value of the retention column that is kept; None: all are."""
        if self.retention is None or not (days := getattr(settings, self.retention.setting)):
            return None
        return self.retention.oldest(now, days)

    def count_expired(self, session: Session, before: int) -> int:
        """Count the rows past their retention."""
        return self.count(session, self._expiry_clauses(), {"before": before})

    def delete_expired(self, session: Session, before: int, limit: int) -> int:
        """Delete rows past their retention, oldest first, with the rows of child tables; return their number."""
        assert self.retention is not None, "only called for tables with a retention"
        (key,) = self.key
        end = Sql(f" order by t.{self.retention.column}, t.{key} limit :limit")
        head = Sql(f"select t.{key} from {self.name} t where true")
        rows = session.select((head, *self._expiry_clauses(), end), {"before": before, "limit": limit})
        ids = [row[0] for row in rows]
        for child in self.children:
            child.delete_of_parents(session, ids)
        session.do(Sql(f"delete from {self.name} where {key} = any(:ids)"), ids=ids)
        return len(ids)

    def _expiry_clauses(self) -> list[SqlPart]:
        assert self.retention is not None, "only called for tables with a retention"
        condition = Sql(f" and t.{self.retention.column} < :before")
        return [condition] if self.retention.part is None else [condition, self.retention.part]


def _decode_value(codec: Codec, value: Any) -> Any:
    if codec == "bool":
        return bool(value)
    return tuple(msgspec.json.decode(value)) if codec == "tuple" else msgspec.json.decode(value)


def _make_field(field: FieldInfo) -> Field:
    """Split a type into its bare type, its markers and how it is stored."""
    marks: list[Any] = []

    def strip(part: Any) -> Any:
        if get_origin(part) is Annotated:
            part, *more = get_args(part)
            marks.extend(more)
            return strip(part)
        if get_origin(part) in (Union, UnionType):
            kinds = [strip(one) for one in get_args(part) if one is not type(None)]
            return kinds[0] if len(kinds) == 1 else part
        return part

    bare = strip(field.type)
    kind = get_origin(bare) or bare
    codec: Codec = "bool" if kind is bool else "tuple" if kind is tuple else "list" if kind in (dict, list) else "plain"
    return Field(field.name, field.type, tuple(marks), codec, field.required)


def must_be_free(field: str, holder: Any, id: str) -> None:
    """Raise Conflict if another record has the unique value of a field."""
    if holder is not None and holder.id != id:
        raise Conflict(f"{field}: already used by {holder.id}", id=holder.id, fields=[field])


_modules: list[str] = []
"""Modules that declare local tables, imported when all tables are needed."""


def register_modules(modules: Iterable[str]) -> None:
    """Register modules that declare local tables."""
    _modules.extend(name for name in modules if name not in _modules)


def list_tables() -> tuple[LocalTable[Any], ...]:
    """List all local tables, in the order of their modules and declarations."""
    return _find_tables(tuple(_modules))


@cache
def _find_tables(modules: tuple[str, ...]) -> tuple[LocalTable[Any], ...]:
    found = (value for name in modules for value in vars(import_module(name)).values())
    return tuple(dict.fromkeys(value for value in found if isinstance(value, LocalTable)))
