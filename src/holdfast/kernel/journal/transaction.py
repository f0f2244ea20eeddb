"""The unit of work: all changes of one transaction, title groups included."""

from collections.abc import Collection, Iterable
from typing import Any

from holdfast.kernel.journal.kinds import Kind, R
from holdfast.kernel.journal.record_writer import WRITE_LISTENERS, RecordWriter, WriteListener, body_of, body_text
from holdfast.kernel.journal.title_groups import change_group, release_members
from holdfast.kernel.records.memory import Memory

__all__ = ["Transaction", "TransactionListener", "add_listener", "body_of", "body_text"]


class Transaction(RecordWriter):
    """One transaction. Members of a title group are changed and released together."""

    def change(self, kind: Kind[R], before: R, after: R, op: str, *, tidying: bool = False) -> R:
        for listener in LISTENERS:
            after = listener.adjust(before, after)
        if isinstance(before, Memory) and (others := self.session.rows("title_group_of", id=before.id)):
            assert isinstance(after, Memory)
            ids = [row[0] for row in others]
            return change_group(self, before, after, ids, op, tidying=tidying)  # type: ignore[return-value]
        return super().change(kind, before, after, op, tidying=tidying)

    def expire(self, ids: Iterable[str]) -> None:
        """Hide expired memories and call the listeners."""
        gone = list(ids)
        if gone and (mates := self.session.rows("title_expired_mates", ids=gone)):
            release_members(self, gone, [row[0] for row in mates])
        for listener in LISTENERS:
            listener.on_expire(self, gone)

    def flush(self) -> None:
        """Let listeners write follow-up records, then append the journal entries."""
        for listener in LISTENERS:
            listener.on_flush(self)
        self.append_entries()
        for listener in LISTENERS:
            listener.on_appended(self)


class TransactionListener(WriteListener):
    """Reacts to the changes of every transaction. Features override the methods they need."""

    def adjust(self, before: Any, after: Any) -> Any:
        """Return the record to write instead of `after`."""
        return after

    def on_expire(self, tx: Transaction, ids: Collection[str]) -> None:
        """Called when expired memories were collected."""

    def on_flush(self, tx: Transaction) -> None:
        """Called before the journal entries are appended: the last chance to write records."""

    def on_appended(self, tx: Transaction) -> None:
        """Called after the journal entries were appended. No record may be written any more."""


LISTENERS: list[TransactionListener] = []


def add_listener(listener: TransactionListener) -> None:
    """Register a listener for every transaction, after the existing ones."""
    LISTENERS.append(listener)
    WRITE_LISTENERS.append(listener)
