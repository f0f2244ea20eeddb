"""Collect the changes of a transaction that affect dependents; write their notices when it ends."""

from collections.abc import Collection
from typing import Any

from holdfast.features.reflections.invalidation import ChangeSet, Invalidation
from holdfast.features.reflections.invalidation_store import settle
from holdfast.features.reflections.model import never_lower
from holdfast.kernel.journal.record_writer import RecordWriter
from holdfast.kernel.journal.transaction import Transaction, TransactionListener
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import Memory


class InvalidationListener(TransactionListener):
    """Notifies the dependents of memories that were deleted, superseded, changed or expired."""

    def adjust(self, before: Any, after: Any) -> Any:
        """Never lower the depth of a reflection."""
        return never_lower(before, after) if isinstance(after, Memory) else after

    def written(self, tx: RecordWriter, before: Any, record: Any, *, over: bool) -> None:
        changes = tx.local(ChangeSet)
        match record:
            case Memory():
                changes.memory(before if isinstance(before, Memory) else None, record, tx.now, over=over)
            case Link():
                changes.link(before if isinstance(before, Link) else None, record, tx.now)
            case Invalidation():
                changes.settled.add(record.id)

    def expired(self, tx: Transaction, ids: Collection[str]) -> None:
        tx.local(ChangeSet).gone.update(ids)

    def flush(self, tx: Transaction) -> None:
        if changes := tx.local(ChangeSet):
            tx.notices.extend(settle(tx, changes))
