"""Copy the whole store to another file or database engine."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256

from msgspec import UNSET, Struct, UnsetType

from holdfast.kernel.context import Context
from holdfast.kernel.storage import copy_tables
from holdfast.kernel.storage.copy_destinations import destination_at, tables
from holdfast.kernel.storage.copy_tables import TableCopy
from holdfast.kernel.storage.open_by_address import open_existing
from holdfast.kernel.storage.port import Store


class MigratedTable(Struct, frozen=True, kw_only=True):
    table: str
    rows: int
    sha256: str | UnsetType = UNSET
    """Digest of all rows in key order; equal on both sides."""


class MigrateResult(Struct, frozen=True, kw_only=True):
    moved: bool
    source: str
    target: str
    tables: list[MigratedTable]
    rows: int
    sha256: str | UnsetType = UNSET
    """Digest of the table digests."""
    resumed: bool
    """Continued an earlier migration: only differing rows were copied."""
    dry_run: bool


def move_store(ctx: Context, to: str, source: str | None = None, *, dry_run: bool = False) -> MigrateResult:
    """Copy a store and its signing key to a new address; the source stays unchanged."""
    ctx.caller.require_all_namespaces()
    ctx.caller.require_local("to")
    place = destination_at(to)
    with _open_source(ctx, source) as store:
        done = _preview_move(store, place) if dry_run else copy_tables.copy_store(store, place, tables(), ctx.progress)
    digests = "".join(f"{table.table} {table.digest}\n" for table in done.tables)
    return MigrateResult(
        moved=not dry_run,
        source=store.path,
        target=place.path,
        tables=[MigratedTable(table=one.table, rows=one.rows, sha256=one.digest or UNSET) for one in done.tables],
        rows=sum(table.rows for table in done.tables),
        sha256=UNSET if dry_run else sha256(digests.encode()).hexdigest(),
        resumed=done.resumed,
        dry_run=dry_run,
    )


@contextmanager
def _open_source(ctx: Context, address: str | None) -> Iterator[Store]:
    if address is None:
        yield ctx.store
    else:
        with closing(open_existing(address)) as store:
            yield store


def _preview_move(store: Store, place: copy_tables.CopyDestination) -> copy_tables.CopyResult:
    """Check that the migration is possible and count its rows."""
    target_state = place.inspect()
    with store.reading() as session:
        copy_tables.check_destination(target_state, place, store, session)
        counted = copy_tables.count_rows(session, tables())
    return copy_tables.CopyResult(
        [TableCopy(name, rows, "") for name, rows in counted.items()], target_state.state == "unfinished"
    )
