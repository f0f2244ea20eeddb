"""The floor on SQLite: the same work with the bare driver, on the same disk or file."""

from collections.abc import Iterable
from pathlib import Path

import apsw

from holdfast.kernel.embedder import Embedder
from holdfast.kernel.storage.sqlite.connection import CACHE_KB, enable_wal, wait_for_lock
from holdfast.kernel.text.words import query_words

_TABLE = """
create table if not exists kept (rowno integer primary key, title text not null, content text not null);
create virtual table if not exists kept_text using fts5 (
  title, content, content = 'kept', content_rowid = 'rowno', tokenize = 'porter unicode61'
);
create trigger if not exists kept_added after insert on kept begin
  insert into kept_text (rowid, title, content) values (new.rowno, new.title, new.content);
end;
"""
_INSERT = "insert into kept (title, content) values (?, ?)"
_QUERY = "select rowid, rank from memory_text where memory_text match ? order by rank limit 10"

Text = tuple[str, str]


def connect(path: Path) -> apsw.Connection:
    """Open a connection with the durability, busy handler and cache of a store."""
    connection = apsw.Connection(str(path))
    connection.set_busy_handler(wait_for_lock)
    enable_wal(connection)
    for setting in ("synchronous=full", f"cache_size=-{CACHE_KB}"):
        connection.execute(f"pragma {setting}").fetchall()
    return connection


class BareTable:
    """A table with full-text search, and nothing else."""

    def __init__(self, path: Path) -> None:
        self._connection = connect(path)
        self.insert_all((), script=_TABLE)

    def insert(self, text: Text) -> None:
        """Insert one row; durable when this returns."""
        self.insert_all((text,))

    def insert_all(self, texts: Iterable[Text], script: str = "") -> None:
        """Insert many rows in one transaction."""
        self._connection.execute("begin immediate")
        self._connection.execute(script).fetchall()
        self._connection.executemany(_INSERT, texts).fetchall()
        self._connection.execute("commit")

    def close(self) -> None:
        self._connection.close()


class BareQuery:
    """A plain FTS5 query on a store's file: any significant word of the question, ten rows."""

    def __init__(self, store: Path) -> None:
        self._connection = connect(store)

    def ask(self, question: str, embedder: Embedder | None = None) -> None:
        """Run the query, and embed the question if there is an embedder."""
        words = " OR ".join(f'"{word}"' for word in query_words(question))
        self._connection.execute(_QUERY, (words,)).fetchall()
        if embedder is not None:
            embedder.embed([question])

    def close(self) -> None:
        self._connection.close()
