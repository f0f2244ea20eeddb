"""Read SQLite files of other programs without changing them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from holdfast.kernel.errors import Invalid


class SqliteReader:
    """A read-only SQLite file."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.tables = {
            name: [row[1] for row in connection.execute(f"pragma table_info({_quote(name)})")]
            for (name,) in list(connection.execute("select name from sqlite_schema where type = 'table'"))
        }

    def rows(self, table: str) -> Iterator[tuple[int, dict[str, Any] | None]]:
        """Iterate over the rows of a table with their numbers, as dicts; None if a text is not UTF-8."""
        columns, number = self.tables[table], 0
        asked = f"select {', '.join(map(_quote, columns))} from {_quote(table)} limit -1 offset ?"
        while True:
            try:
                for values in self._connection.execute(asked, (number,)):
                    number += 1
                    yield number, dict(zip(columns, values, strict=True))
                return
            except UnicodeDecodeError:
                number += 1
                yield number, None


@contextmanager
def open_read_only(path: Path) -> Iterator[SqliteReader]:
    """Open a file read-only; never writes, not even to recover after a crash."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    wal_file = path.with_name(path.name + "-wal")
    still = "" if wal_file.exists() else "&immutable=1"
    try:
        connection = apsw.Connection(f"file:{quote(str(path.absolute()))}?mode=ro{still}", flags=flags)
        with closing(connection):
            connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
            connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
            yield SqliteReader(connection)
    except (
        apsw.NotADBError,
        apsw.CorruptError,
        apsw.CantOpenError,
        apsw.IOError,
        apsw.SQLError,
        UnicodeDecodeError,
    ) as error:
        raise Invalid(f"path: {path.name} is not a readable SQLite database: {error}", fields=["path"]) from None


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
