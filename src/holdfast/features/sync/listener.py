"""Advance the version vector at the end of a transaction that applied changes of other stores."""

from holdfast.features.sync.read_changes import advance_vector
from holdfast.kernel.journal.journal import put_baselines
from holdfast.kernel.journal.transaction import Transaction, TransactionListener


class SeenOrigins:
    """The origins whose changes one transaction applied."""

    def __init__(self) -> None:
        self.origins: set[str] = set()
        """Origins of single changes."""
        self.baselines: dict[str, tuple[int, str]] = {}
        """Per origin, the number and mark up to which all its changes were applied as record snapshots."""


class VersionVectorListener(TransactionListener):
    """Keep the version vector equal to the applied changes."""

    def on_appended(self, tx: Transaction) -> None:
        seen = tx.local(SeenOrigins)
        if seen.origins or seen.baselines:
            put_baselines(tx.session, seen.baselines, tx.last_seq)
            advance_vector(tx.session, sorted({*seen.origins, *seen.baselines}))
