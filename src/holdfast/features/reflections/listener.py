"""Collect the changes of a transaction that affect dependents; write their notices when it ends."""

from collections.abc import Collection
from typing import Any

from holdfast.features.reflections.invalidation import ChangeSet, Invalidation
from holdfast.features.reflections.invalidation_store import propagate
from holdfast.features.reflections.model import keep_depth
from holdfast.kernel.journal.transaction import Transaction, TransactionListener
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import Memory


class InvalidationListener(TransactionListener):
    """Notifies the dependents of memories that were deleted, superseded, changed or expired."""

    def adjust(self, before: Any, after: Any) -> Any:
        """Never lower the depth of a reflection."""
        return keep_depth(before, after) if isinstance(after, Memory) else after

    def on_write(self, tx: Transaction, before: Any, record: Any, *, is_expired: bool) -> None:
        changes = tx.local(ChangeSet)
        match record:
            case Memory():
                changes.add_memory(before if isinstance(before, Memory) else None, record, tx.now, expired=is_expired)
            case Link():
                changes.add_link(before if isinstance(before, Link) else None, record, tx.now)
            case Invalidation():
                changes.written_notices.add(record.id)

    def on_expire(self, tx: Transaction, ids: Collection[str]) -> None:
        tx.local(ChangeSet).unavailable.update(ids)

    def on_flush(self, tx: Transaction) -> None:
        if changes := tx.local(ChangeSet):
            tx.notices.extend(propagate(tx, changes))
