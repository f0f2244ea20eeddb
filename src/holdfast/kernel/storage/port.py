"""The storage port, implemented by every engine."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from holdfast.kernel.vector import Vector

Row = tuple[Any, ...]


class Sql(str):
    """SQL text that is built from the names of a declared table; stands where the name of a statement may stand."""

    __slots__ = ()


SqlPart = str | tuple[str, int]
"""Name of an SQL fragment, name and number, or `Sql`."""
Clauses = tuple[Sequence[SqlPart], Mapping[str, Any]]
"""Parts of a statement that limit its rows, and their parameters."""

LOCK_SECONDS = 30.0
"""How long a writer waits, for other threads and other processes together."""
LOCKED_TOO_LONG = "Another writer locked the store for too long: try again."


class Fault(NamedTuple):
    """A defect of an engine's files, tables or full-text index."""

    part: Literal["storage", "full_text"]
    what: str


class SearchTexts(NamedTuple):
    """The searchable texts of a memory."""

    title: str
    content: str
    tags: str
    bigrams: str = ""
    """Character bigrams of scripts without blanks."""


class Session(Protocol):
    """Runs named statements inside one transaction."""

    def rows(self, name: str, /, **params: Any) -> list[Row]:
        """Return all rows of a statement."""

    def row(self, name: str, /, **params: Any) -> Row | None:
        """Return the first row of a statement, or None."""

    def do(self, name: str, /, **params: Any) -> None:
        """Run a statement for its effect."""

    def many(self, name: str, /, params: Iterable[Mapping[str, Any]]) -> None:
        """Run a statement for each set of parameters."""

    def select(self, parts: Sequence[SqlPart], params: Mapping[str, Any]) -> list[Row]:
        """Return all rows of a statement joined from fragments; a number makes a fragment's `_n` parameters unique."""

    def query_sql(self, sql: str, params: Mapping[str, Any]) -> list[Row]:
        """Return all rows of an SQL text built from schema names, to read whole tables."""

    def execute_sql(self, sql: str, params: Iterable[Mapping[str, Any]]) -> None:
        """Run an SQL text built from schema names for each set of parameters."""

    def index_memory(self, id: str, texts: SearchTexts | None) -> None:
        """Index a memory's texts for keyword search, or remove it from the index; takes effect on commit."""

    def full_text_query(self, words: Sequence[str], *, match_all: bool) -> tuple[list[SqlPart], dict[str, Any]]:
        """Build the start of a full-text statement that matches all or any of some words; filters follow."""

    def match_term(self, word: str) -> str:
        """Build the full-text query of one word."""

    def nearest(self, vector: Vector, parts: Sequence[SqlPart], params: Mapping[str, Any], limit: int) -> list[Row]:
        """Return rows of id and cosine of the nearest memories by their nearest passage, filtered before the limit.

        Ties are ordered by id; outdated vectors are ignored.
        """

    def nearest_many(
        self, many: Sequence[Vector], parts: Sequence[SqlPart], params: Mapping[str, Any], limit: int
    ) -> list[list[Row]] | None:
        """Return for each vector the very near memories and possibly a few others, cheap enough for thousands of
        vectors. None: not supported here, use `nearest`."""

    def vectors(self, ids: Sequence[str], model: str) -> list[Row]:
        """Return rows of id, start, end, vector and text hash, in order."""

    def purge_index(self) -> None:
        """Remove deleted words from the search indexes, if the engine does not do that itself."""

    def newest_row(self) -> int:
        """Return the row number of the newest memory, about the number of memories."""

    def document_frequencies(self, stems: Sequence[str], last_row: int) -> dict[str, int]:
        """Return the document frequency of each stem, approximate for very common ones."""


class Store(Protocol):
    """One store."""

    path: str
    """Its path or URL, without secrets."""

    def reading(self) -> AbstractContextManager[Session]:
        """Open a consistent read transaction; nested ones share it. Never waits for writers, never writes."""

    def transaction(self, before_commit: Callable[[], None] = ...) -> AbstractContextManager[Session]:
        """Open a write transaction, exclusive among the writers of all processes.

        Without an exception, everything is durable at the end; otherwise nothing happened. A failed statement aborts
        it, even if the error is caught. `before_commit` can still raise to roll back.
        """

    def in_transaction(self) -> bool:
        """Whether this thread has an open transaction."""

    def signing_key(self, session: Session) -> bytes | None:
        """Return the node's private key, stored separately from the data, or None."""

    def lacks_key(self) -> bool:
        """Whether the key is missing, as far as this is known without a query."""

    def public_key(self, session: Session) -> bytes | None:
        """Return the node's public key, or None."""

    def make_signing_key(self, session: Session, key: bytes) -> None:
        """Store a new private key, readable only by the owner."""

    def identity(self) -> str:
        """Return the identity of this copy; it changes when the store is copied or moved to another machine."""

    def sidecar_path(self, what: str) -> Path:
        """Return the path of a file on this machine that belongs to the store."""

    def size(self) -> int:
        """Return the size of the store in bytes."""

    def wait_for_commit(self, seconds: float) -> bool:
        """Wait for a commit of any process; return whether there may have been one before the time was over.

        No commit since this thread's previous call is missed; the first call returns at once.
        """

    def snapshot(self, to: Path) -> None:
        """Write a consistent, durable copy to a new file, without blocking writers."""

    def replace(self, by: Path, prepare: Callable[[], None]) -> None:
        """Replace the content of the store with a copy, atomically for all processes.

        `prepare` runs while writers are blocked and before anything is replaced; if it raises, nothing is.
        """

    def faults(self) -> list[Fault]:
        """Check files, tables and full-text index, without changes or locks."""

    def facts(self) -> dict[str, Any]:
        """Return path, size and other facts for operators."""

    def private_files(self) -> list[Path]:
        """Return the files that only the owner should access."""

    def close(self) -> None:
        """Close all connections."""
