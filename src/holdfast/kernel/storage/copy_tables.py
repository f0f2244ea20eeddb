"""Copy a store row by row between any two engines, and compare both sides at the end."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from hashlib import sha256
from itertools import zip_longest
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from holdfast.kernel.errors import Conflict, Invalid, StoreBusy, StoreDamaged
from holdfast.kernel.journal import journal
from holdfast.kernel.storage.port import Row, SearchTexts, Session, Store
from holdfast.kernel.vector import Vector

PAGE_SIZE = 250
"""Rows per page: at most some tens of megabytes with the longest texts."""
PASSES = 3
"""Each row is read three times: to copy it, to compare it with the locked source, and for the digests."""

HEAD = "journal_head"
"""Table with the journal's head as its only row."""
VISIBLE_AS = "visible_as"
"""Column that makes a title unique."""
VECTOR = "vector"
"""Column that each engine stores in its own format."""

Report = Callable[[int, int, str], None]
"""Called with rows done, rows in total, and the table."""


class Table(NamedTuple):
    """A table. Its statements are built only from names in the schema."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]

    def key_of(self, row: Row) -> Row:
        return tuple(row[self.columns.index(name)] for name in self.key)

    def count(self, session: Session) -> int:
        return int(session.query_sql(f"select count(*) from {self.name}", {})[0][0])

    def rows(self, session: Session, after: Row | None, upto: Row | None = None, limit: int | None = None) -> list[Row]:
        """Read rows in key order, after a key, up to a key, at most `limit`."""
        key, where, params = ", ".join(self.key), list[str](), dict[str, object]()
        for sign, name, bound in ((">", "after", after), ("<=", "upto", upto)):
            if bound is not None:
                where.append(f"({key}) {sign} ({', '.join(f':{name}_{place}' for place in range(len(bound)))})")
                params |= {f"{name}_{place}": value for place, value in enumerate(bound)}
        asked = f"select {', '.join(self.columns)} from {self.name}"
        asked += f" where {' and '.join(where)}" if where else ""
        asked += f" order by {key}"
        return session.query_sql(asked if limit is None else f"{asked} limit :limit", params | {"limit": limit})

    def row(self, session: Session, key: Row) -> Row | None:
        """Read the row of a key."""
        where = " and ".join(f"{name} = :{name}" for name in self.key)
        found = session.query_sql(
            f"select {', '.join(self.columns)} from {self.name} where {where}", dict(zip(self.key, key, strict=True))
        )
        return found[0] if found else None

    def pages(self, session: Session) -> Iterator[list[Row]]:
        after = None
        while page := self.rows(session, after, limit=PAGE_SIZE):
            yield page
            after = self.key_of(page[-1])

    def put_rows(self, session: Session, rows: Sequence[Row]) -> None:
        """Write rows, replacing those with the same keys, and index the texts of memories."""
        others = [name for name in self.columns if name not in self.key]
        what = f"update set {', '.join(f'{name} = excluded.{name}' for name in others)}" if others else "nothing"
        session.execute_sql(
            f"insert into {self.name} ({', '.join(self.columns)}) "
            f"values ({', '.join(f':{name}' for name in self.columns)}) on conflict ({', '.join(self.key)}) do {what}",
            written := [self._bind_row(row) for row in rows],
        )
        if self.name == "memory" and rows:
            for memory in written:
                texts = SearchTexts(memory["title"], memory["content"], memory["tags"], memory["bigrams"])
                session.index_memory(memory["id"], None if memory["state"] == "deleted" else texts)
            session.do("memory_sync_rowno")

    def _bind_row(self, row: Row) -> dict[str, Any]:
        """Return a row as a dict by column, with vectors as Vector."""
        named = dict(zip(self.columns, row, strict=True))
        return {**named, VECTOR: Vector(named[VECTOR])} if VECTOR in named else named

    def delete_rows(self, session: Session, keys: Sequence[Row]) -> None:
        where = " and ".join(f"{name} = :{name}" for name in self.key)
        session.execute_sql(
            f"delete from {self.name} where {where}", [dict(zip(self.key, key, strict=True)) for key in keys]
        )


class TargetState(NamedTuple):
    """What exists at the destination of a copy."""

    state: Literal["nothing", "unfinished", "store"]
    node: str = ""
    identity: str = ""
    key: bytes | None = None
    """An existing private key."""


class Target(NamedTuple):
    """A store that is being filled. Other processes do not accept it as a store until it is finished."""

    store: Store
    mark: object
    """Identifies this copy: a later one overwrites the mark."""
    resumed: bool

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        with self.store.transaction() as session:
            if session.rows("engine_mark") != [(self.mark,)]:
                raise StoreBusy(f"Another migration to {self.store.path} was started: this one stops.")
            yield session

    def finish(self, key: bytes | None) -> None:
        """Turn it into a store, with the key that signed its journal."""
        with self.transaction() as session:
            if key is not None:
                self.store.make_signing_key(session, key)
            session.do("engine_mark_finished")


class CopyDestination(Protocol):
    """A possible destination of a store."""

    path: str
    """Without secrets."""

    def inspect(self) -> TargetState:
        """Return what exists there, without side effects; raises if it belongs to another program."""

    def begin(self, head: journal.Head, check: Callable[[TargetState], None]) -> Target:
        """Create an unfinished store with this head, or resume the existing one, unless `check` raises."""


class TableCopy(NamedTuple):
    """Number of rows and digest of a copied table."""

    table: str
    rows: int
    digest: str


class KeyRange(NamedTuple):
    """A page of rows with its range of keys; the ranges cover all possible keys."""

    after: Row | None
    upto: Row | None
    rows: list[Row]


class CopyResult(NamedTuple):
    tables: list[TableCopy]
    resumed: bool


class _RowCounter:
    """Counts rows and reports progress."""

    def __init__(self, total: int, report: Report) -> None:
        self.total, self.done, self._report = total, 0, report

    def __call__(self, rows: int, table: Table) -> None:
        self.done += rows
        self._report(min(self.done, self.total), self.total, table.name)


def count_rows(session: Session, tables: Sequence[Table]) -> dict[str, int]:
    return {table.name: table.count(session) for table in tables}


def check_destination(state: TargetState, place: CopyDestination, source: Store, session: Session) -> None:
    """Raise unless the destination is empty or has an unfinished copy of the same store."""
    if state.state == "store" and state.identity == source.identity():
        raise Invalid("to: is the same store as the source", fields=["to"])
    if state.state == "store":
        raise Conflict(
            f"A store already exists at {place.path}; it was not changed. "
            "Choose another destination, or remove that store first."
        )
    if state.state == "unfinished" and state.node != journal.get_head(session).node:
        raise Conflict(
            f"Another store is being migrated to {place.path}; it was not changed. Choose another destination."
        )
    if state.key not in (None, source.signing_key(session)):
        raise Conflict(
            f"The key of another store is next to {place.path}; it was not changed. Choose another destination."
        )


def copy_store(source: Store, place: CopyDestination, tables: Sequence[Table], report: Report) -> CopyResult:
    """Copy a store while it is in use, then lock it, copy later changes, and compare both sides.

    If interrupted, the next run copies only the differences.
    """
    with source.reading() as session:
        steps = _RowCounter(PASSES * sum(count_rows(session, tables).values()), report)
        target = place.begin(journal.get_head(session), lambda found: check_destination(found, place, source, session))
        with closing(target.store):
            _copy_changes(session, target, tables, steps)
    with closing(target.store), source.transaction() as session:
        _copy_changes(session, target, tables, steps)
        copied = _verify(session, target, tables, steps)
        target.finish(source.signing_key(session))
    return CopyResult(copied, target.resumed)


def _copy_changes(source: Session, target: Target, tables: Sequence[Table], steps: _RowCounter) -> None:
    """Copy the differences from the source, which does not change during this."""
    with target.transaction() as session:
        then, now = journal.get_head(session), journal.get_head(source)
        if then.origin != now.origin or then.seq > now.seq:
            # The source was restored since: rows that others in the target reference may be missing.
            delete_all_rows(session, tables)
        hides = session.row("memory_last_row") != (0,)
    for table in tables:
        _copy_table(source, target, table, steps, hides=hides)


def _copy_table(source: Session, target: Target, table: Table, steps: _RowCounter, *, hides: bool) -> None:
    """Copy page by page. A title may have moved to another memory, so they become visible only after all are copied."""
    hides, hidden = hides and VISIBLE_AS in table.columns, list[KeyRange]()
    for span in _key_ranges(source, table):
        with target.transaction() as session:
            if _copy_range(session, table, span, hides=hides) and hides:
                hidden.append(span._replace(rows=[]))
        steps(len(span.rows), table)
    for span in hidden:
        with target.transaction() as session:
            _copy_range(session, table, span._replace(rows=table.rows(source, span.after, span.upto)), hides=False)


def _key_ranges(session: Session, table: Table) -> Iterator[KeyRange]:
    after = None
    for page in table.pages(session):
        yield KeyRange(after, after := table.key_of(page[-1]), page)
    yield KeyRange(after, None, [])


def _copy_range(session: Session, table: Table, span: KeyRange, *, hides: bool) -> bool:
    """Copy the differences of a page; return whether there were any."""
    there = {table.key_of(row): row for row in table.rows(session, span.after, span.upto)}
    wanted = {table.key_of(row): row for row in span.rows}
    differing = [row for key, row in wanted.items() if there.get(key) != row]
    surplus = [key for key in there if key not in wanted]
    if hides:
        at = table.columns.index(VISIBLE_AS)
        differing = [(*row[:at], None, *row[at + 1 :]) for row in differing]
    table.delete_rows(session, surplus)
    table.put_rows(session, differing)
    return bool(differing or surplus)


def _verify(source: Session, target: Target, tables: Sequence[Table], steps: _RowCounter) -> list[TableCopy]:
    """Compare all tables of both sides; raises StoreDamaged if they differ."""
    with target.store.reading() as session:
        both = [_compare(table, source, session, steps) for table in tables]
    if differing := [ours.table for ours, theirs in both if ours != theirs]:
        raise StoreDamaged(
            f"The copy differs from the source ({', '.join(differing)}): remove {target.store.path} and migrate again."
        )
    return [ours for ours, _ in both]


def _compare(table: Table, source: Session, target: Session, steps: _RowCounter) -> tuple[TableCopy, TableCopy]:
    """Compare page by page on both sides in step: a database ends idle transactions."""
    digests, found = (sha256(), sha256()), [0, 0]
    none: list[Row] = []
    for pages in zip_longest(table.pages(source), table.pages(target), fillvalue=none):
        for side, page in enumerate(pages):
            found[side] += len(page)
            for row in page:
                digests[side].update(_encode(row))
        steps(len(pages[0]), table)
    ours, theirs = (TableCopy(table.name, rows, made.hexdigest()) for rows, made in zip(found, digests, strict=True))
    return ours, theirs


_encode = msgspec.msgpack.Encoder(enc_hook=bytes).encode


def delete_all_rows(session: Session, tables: Sequence[Table]) -> None:
    """Delete all rows except the head, which writers lock."""
    session.do("memory_text_clear")
    for table in reversed(tables):
        if table.name != HEAD:
            session.execute_sql(f"delete from {table.name}", [{}])


def copy_all_rows(session: Session, source: Session, tables: Sequence[Table]) -> None:
    """Copy all rows of another store into an empty one."""
    for table in tables:
        if table.name == HEAD:
            _copy_range(session, table, KeyRange(None, None, table.rows(source, None)), hides=False)
        else:
            for page in table.pages(source):
                table.put_rows(session, page)
