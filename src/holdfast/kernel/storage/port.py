"""What an engine promises. Everything above speaks only this."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from holdfast.kernel.vector import Vector

Row = tuple[Any, ...]
Part = str | tuple[str, int]
"""A fragment's name, or that and a number."""


class Fault(NamedTuple):
    """Something wrong with what an engine keeps."""

    part: Literal["storage", "full_text"]
    what: str


class Texts(NamedTuple):
    """What of a memory can be found by its words."""

    title: str
    content: str
    tags: str
    spelled: str = ""
    """Pairs of characters of what is written without blanks."""


class Session(Protocol):
    """Statements by name, inside one transaction."""

    def rows(self, name: str, /, **params: Any) -> list[Row]:
        """Every row of a statement."""

    def row(self, name: str, /, **params: Any) -> Row | None:
        """The first row of a statement, or None."""

    def do(self, name: str, /, **params: Any) -> None:
        """Run a statement for its effect."""

    def many(self, name: str, /, params: Iterable[Mapping[str, Any]]) -> None:
        """Run a statement once for each set of parameters."""

    def assembled(self, parts: Sequence[Part], params: Mapping[str, Any]) -> list[Row]:
        """Rows of a statement joined from named fragments; a number makes a fragment's `_n` parameters its own."""

    def ask(self, sql: str, params: Mapping[str, Any]) -> list[Row]:
        """Rows of a statement that is made from the schema's own names; for whole tables."""

    def tell(self, sql: str, params: Iterable[Mapping[str, Any]]) -> None:
        """Run such a statement for its effect, once for each set of parameters."""

    def index(self, id: str, texts: Texts | None) -> None:
        """Make a memory findable by the words of its texts, or by none; done when the transaction is."""

    def asking(self, words: Sequence[str], *, every: bool) -> tuple[list[Part], dict[str, Any]]:
        """The beginning of a statement that finds every one, or any, of some words; filters follow."""

    def match(self, word: str) -> str:
        """A word as the full-text index is asked for it."""

    def nearest(self, vector: Vector, parts: Sequence[Part], params: Mapping[str, Any], limit: int) -> list[Row]:
        """Rows of id and cosine of the memories that have a passage nearest by a model; filters before the limit. Of
        equals, the lesser id first. A vector of what a memory said before does not count."""

    def close(
        self, many: Sequence[Vector], parts: Sequence[Part], params: Mapping[str, Any], limit: int
    ) -> list[list[Row]] | None:
        """For each vector what `nearest` finds, as far as it is very near, and a few others: cheap enough for thousands
        of texts. None: there is no such look here; the nearest are to be asked for."""

    def vectors(self, ids: Sequence[str], model: str) -> list[Row]:
        """Rows of id, from and to which character, vector, and the hash of what it was made of, in their order."""

    def forget_words(self) -> None:
        """Rid what finds memories of all that it remembers only from what is gone, if that is ours to do."""

    def newest_row(self) -> int:
        """The number of the memory added last: about how many there are."""

    def holding(self, stems: Sequence[str], last_row: int) -> dict[str, int]:
        """In how many memories each stem stands; of the very common ones, in about how many."""


class Store(Protocol):
    """One memory, kept."""

    path: str
    """Where it is, as it may be shown to anybody."""

    def reading(self) -> AbstractContextManager[Session]:
        """One consistent view of the store, shared by one within another. Never waits for a writer, never writes."""

    def writing(self, before_commit: Callable[[], None] = ...) -> AbstractContextManager[Session]:
        """One transaction, alone among the writers of every process.

        When it ends without an exception everything in it is durable; otherwise nothing of it happened. A statement
        that failed ends it, whoever caught the error. `before_commit` may still raise to leave nothing behind.
        """

    def inside(self) -> bool:
        """Whether this thread is within a transaction, reading or writing."""

    def signing_key(self, session: Session) -> bytes | None:
        """The node's private key, kept apart from what it signs, if there is one."""

    def lacks_key(self) -> bool:
        """Whether it was copied without its key, as far as can be told without asking it."""

    def public_key(self, session: Session) -> bytes | None:
        """The other half of it, by which what it signed is verified."""

    def make_signing_key(self, session: Session, key: bytes) -> None:
        """Keep a new private key, readable by the owner alone."""

    def identity(self) -> str:
        """Which copy of the store this is: differs after it was copied or moved to another machine."""

    def beside(self, what: str) -> Path:
        """Where on this machine something is kept that belongs to the store."""

    def size(self) -> int:
        """Bytes that the store takes."""

    def wait(self, seconds: float) -> bool:
        """Wait until something may have been committed by anybody, and say whether that is so or the time has passed.

        Nothing is missed that was committed since this thread came back from here before; the first time is at once.
        """

    def snapshot(self, to: Path) -> None:
        """Write one consistent copy to a new file, durable when this returns, while others go on writing."""

    def replace(self, by: Path, prepare: Callable[[], None]) -> None:
        """Take over the whole content of a copy, in one step for every process that has the store open.

        `prepare` runs when nobody can write any more and nothing is taken over yet; if it raises, nothing is.
        """

    def faults(self) -> list[Fault]:
        """What the engine finds wrong with its own files, tables and full-text index. Changes nothing, locks nobody."""

    def facts(self) -> dict[str, Any]:
        """Where it is kept, how much it takes, and what else an operator wants to know of it."""

    def private_files(self) -> list[Path]:
        """The files of the store that are for its owner alone."""

    def close(self) -> None:
        """Let go of every connection."""
