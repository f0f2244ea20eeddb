"""The two endpoints of an exchange: each identifies itself, reads changes for the other and applies the other's."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Protocol

from holdfast.features.sync import read_changes as telling
from holdfast.features.sync.read_changes import Greeting, Page
from holdfast.features.sync.receive_changes import Taken, doubtful, take_page
from holdfast.features.sync.retry_quarantined import QuarantineRetry
from holdfast.kernel.context import Hold
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.dry_run import rehearsed
from holdfast.kernel.records.change import Name
from holdfast.kernel.records.namespace_patterns import ALL, Scope


class End(Protocol):
    """One side of an exchange: a local store or a server."""

    def greet(self) -> Greeting:
        """Return its current identity and version vector."""

    def followed(self, sender: Greeting) -> int:
        """Return its cursor in the journal of another store."""

    def tell(self, after: int, known: Mapping[str, int], limit: int) -> Page:
        """Read a page of its journal after a sequence number, without known changes."""

    def take(self, page: Page, sender: Greeting, taken: Taken) -> None:
        """Apply a page in one transaction, durable on return; record the outcome of each change."""

    def rehearsing(self) -> AbstractContextManager["End"]:
        """Return the same endpoint for a dry run: everything applied is rolled back on exit."""

    def doubts(self, asker: Greeting) -> frozenset[str]:
        """Find the origins whose changes differ between it and another store."""

    def anew(self) -> None:
        """Forget the cached handshake: the other side changed its replica id."""


class StoreEnd:
    """The endpoint of a store that this process can open."""

    def __init__(self, hold: Hold, *, owner: str | None = None, scope: Scope = ALL) -> None:
        self._hold = replace(hold, quorum=None)
        """Exchanged changes do not wait for a quorum."""
        self._scope = scope
        self._owner = owner
        """The owner of new memories; None keeps the author."""
        self.entered: Sequence[journal.Place] = ()
        """The journal positions of the last applied page."""

    @property
    def hold(self) -> Hold:
        return self._hold

    @property
    def scope(self) -> Scope:
        """The namespaces that the other endpoint may read and write."""
        return self._scope

    def doubts(self, asker: Greeting) -> frozenset[str]:
        with self._hold.reading() as session:
            return doubtful(session, asker)

    def anew(self) -> None:
        """Do nothing: the handshake is read from the store every time."""

    def greet(self) -> Greeting:
        with self._hold.reading() as session:
            return telling.greet(session, self._hold.now(), self._scope)

    def followed(self, sender: Greeting) -> int:
        with self._hold.reading() as session:
            row = session.row("followed_get", origin=sender.origin)
        return row[0] if row and row[1] == sender.scope else 0

    def tell(self, after: int, known: Mapping[str, int], limit: int) -> Page:
        """Read a page without writing; a copy without its signing key sends its own changes as snapshots."""
        with self._hold.reading() as session:
            return telling.feed(session, self._hold.store.signing_key(session), after, known, limit, self._scope)

    def take(self, page: Page, sender: Greeting, taken: Taken) -> None:
        """Apply the page in its own transaction, then retry quarantined changes in separate transactions."""
        before = len(taken.applied)
        with self._hold.writing() as write:
            take_page(write, page, sender, taken, owner=self._owner, scope=self._scope)
            place = {"origin": sender.origin, "seq": page.upto, "scope": sender.scope}
            write.session.do("followed_put", **place, now=write.now)
        again = QuarantineRetry(self._hold, taken, owner=self._owner, scope=self._scope, files=page.files)
        told = {Name(change.origin, change.n) for change in page.changes}
        again.after_page(told, applied=len(taken.applied) > before)
        self.entered = [*write.places, *again.places]

    @contextmanager
    def rehearsing(self) -> Iterator[End]:
        with rehearsed(self._hold) as hold:
            yield StoreEnd(hold, owner=self._owner, scope=self._scope)
