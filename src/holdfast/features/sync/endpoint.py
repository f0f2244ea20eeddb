"""The two endpoints of an exchange: each identifies itself, reads changes for the other and applies the other's."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Protocol

from holdfast.features.sync import read_changes
from holdfast.features.sync.read_changes import Handshake, Page
from holdfast.features.sync.receive_changes import SyncResult, apply_page, find_forked_origins
from holdfast.features.sync.retry_quarantined import QuarantineRetry
from holdfast.kernel.context import Context
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.dry_run import open_dry_run
from holdfast.kernel.records.change import ChangeId
from holdfast.kernel.records.namespace_patterns import FULL_SCOPE, PeerScope


class Endpoint(Protocol):
    """One side of an exchange: a local store or a server."""

    def read_handshake(self) -> Handshake:
        """Return its current identity and version vector."""

    def get_cursor(self, sender: Handshake) -> int:
        """Return its cursor in the journal of another store."""

    def read_changes(self, after: int, known: Mapping[str, int], limit: int) -> Page:
        """Read a page of its journal after a sequence number, without known changes."""

    def apply_changes(self, page: Page, sender: Handshake, result: SyncResult) -> None:
        """Apply a page in one transaction, durable on return; record the outcome of each change."""

    def open_dry_run(self) -> AbstractContextManager["Endpoint"]:
        """Return the same endpoint for a dry run: everything applied is rolled back on exit."""

    def find_forked_origins(self, asker: Handshake) -> frozenset[str]:
        """Find the origins whose changes differ between it and another store."""

    def forget_handshake(self) -> None:
        """Forget the cached handshake: the other side changed its replica id."""


class LocalEndpoint:
    """The endpoint of a store that this process can open."""

    def __init__(self, ctx: Context, *, owner: str | None = None, scope: PeerScope = FULL_SCOPE) -> None:
        self._ctx = replace(ctx, quorum=None)
        """Exchanged changes do not wait for a quorum."""
        self._scope = scope
        self._owner = owner
        """The owner of new memories; None keeps the author."""
        self.last_positions: Sequence[journal.Position] = ()
        """The journal positions of the last applied page."""

    @property
    def ctx(self) -> Context:
        return self._ctx

    @property
    def scope(self) -> PeerScope:
        """The namespaces that the other endpoint may read and write."""
        return self._scope

    def find_forked_origins(self, asker: Handshake) -> frozenset[str]:
        with self._ctx.reading() as session:
            return find_forked_origins(session, asker)

    def forget_handshake(self) -> None:
        """Do nothing: the handshake is read from the store every time."""

    def read_handshake(self) -> Handshake:
        with self._ctx.reading() as session:
            return read_changes.build_handshake(session, self._ctx.now(), self._scope)

    def get_cursor(self, sender: Handshake) -> int:
        with self._ctx.reading() as session:
            row = session.row("sync_cursor_get", origin=sender.origin)
        return row[0] if row and row[1] == sender.scope else 0

    def read_changes(self, after: int, known: Mapping[str, int], limit: int) -> Page:
        """Read a page without writing; a copy without its signing key sends its own changes as snapshots."""
        with self._ctx.reading() as session:
            return read_changes.read_page(
                session, self._ctx.store.signing_key(session), after, known, limit, self._scope
            )

    def apply_changes(self, page: Page, sender: Handshake, result: SyncResult) -> None:
        """Apply the page in its own transaction, then retry quarantined changes in separate transactions."""
        before = len(result.applied)
        with self._ctx.transaction() as write:
            apply_page(write, page, sender, result, owner=self._owner, scope=self._scope)
            place = {"origin": sender.origin, "seq": page.upto, "scope": sender.scope}
            write.session.do("sync_cursor_put", **place, now=write.now)
        again = QuarantineRetry(self._ctx, result, owner=self._owner, scope=self._scope, files=page.files)
        names = {ChangeId(change.origin, change.n) for change in page.changes}
        again.after_page(names, applied=len(result.applied) > before)
        self.last_positions = [*write.positions, *again.positions]

    @contextmanager
    def open_dry_run(self) -> Iterator[Endpoint]:
        with open_dry_run(self._ctx) as ctx:
            yield LocalEndpoint(ctx, owner=self._owner, scope=self._scope)
