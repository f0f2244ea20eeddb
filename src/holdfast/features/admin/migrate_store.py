"""Copy the whole store to another file or database engine."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from typing import NamedTuple

from holdfast.features.admin.backup import must_be_local, must_reach_all
from holdfast.kernel.context import Hold
from holdfast.kernel.storage import copy_tables as moving
from holdfast.kernel.storage.copy_tables import Copied
from holdfast.kernel.storage.locate import open_existing, place_at, tables
from holdfast.kernel.storage.port import Store


class Moved(NamedTuple):
    source: str
    target: str
    tables: list[Copied]
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


def move(hold: Hold, to: str, source: str | None = None, *, dry_run: bool = False) -> Moved:
    """Copy a store and its signing key to a new address; the source stays unchanged."""
    must_reach_all(hold)
    must_be_local(hold, "to")
    place = place_at(to)
    with _source(hold, source) as store:
        done = _looked(store, place) if dry_run else moving.move(store, place, tables(), hold.progress)
    return Moved(store.path, place.path, done.tables, done.resumed)


@contextmanager
def _source(hold: Hold, address: str | None) -> Iterator[Store]:
    if address is None:
        yield hold.store
    else:
        with closing(open_existing(address)) as store:
            yield store


def _looked(store: Store, place: moving.Place) -> moving.Moved:
    """Check that the migration is possible and count its rows."""
    found = place.look()
    with store.reading() as session:
        moving.admitted(found, place, store, session)
        counted = moving.counts(session, tables())
    return moving.Moved([Copied(name, rows, "") for name, rows in counted.items()], found.state == "unfinished")
