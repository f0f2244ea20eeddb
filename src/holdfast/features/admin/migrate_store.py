"""Copy the whole store to another file or database engine."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from typing import NamedTuple

from holdfast.kernel.context import Context
from holdfast.kernel.storage import copy_tables
from holdfast.kernel.storage.copy_destinations import destination_at, tables
from holdfast.kernel.storage.copy_tables import TableCopy
from holdfast.kernel.storage.open_by_address import open_existing
from holdfast.kernel.storage.port import Store


class MigrationOutcome(NamedTuple):
    source: str
    target: str
    tables: list[TableCopy]
    """The digests are empty after a dry run."""
    resumed: bool
    """Whether it continued an earlier, unfinished migration."""

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables)

    @property
    def digest(self) -> str:
        """Digest of all table digests."""
        return sha256("".join(f"{table.table} {table.digest}\n" for table in self.tables).encode()).hexdigest()


def move_store(ctx: Context, to: str, source: str | None = None, *, dry_run: bool = False) -> MigrationOutcome:
    """Copy a store and its signing key to a new address; the source stays unchanged."""
    ctx.caller.require_all_namespaces()
    ctx.caller.require_local("to")
    place = destination_at(to)
    with _open_source(ctx, source) as store:
        done = _preview_move(store, place) if dry_run else copy_tables.copy_store(store, place, tables(), ctx.progress)
    return MigrationOutcome(store.path, place.path, done.tables, done.resumed)


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
