"""The two ends of an exchange: each says who it is, tells what the other misses, and takes what it is told."""

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
    """One side of an exchange, wherever its store is."""

    def greet(self) -> Greeting:
        """Who it is and what it has, now."""

    def followed(self, sender: Greeting) -> int:
        """Up to where it has taken what another store told, by that store's own numbers."""

    def tell(self, after: int, known: Mapping[str, int], limit: int) -> Page:
        """What is behind a place in its journal and not known."""

    def take(self, page: Page, sender: Greeting, taken: Taken) -> None:
        """Take a page in one transaction: durable when this returns, with what became of each change noted."""

    def rehearsing(self) -> AbstractContextManager["End"]:
        """The same end, which forgets afterwards whatever it took."""

    def doubts(self, asker: Greeting) -> frozenset[str]:
        """Names of which it has other changes than another store says."""

    def anew(self) -> None:
        """What was said before does not count any more: the other side became another store."""


class StoreEnd:
    """The end that is a store within reach of this process."""

    def __init__(self, hold: Hold, *, owner: str | None = None, scope: Scope = ALL) -> None:
        self._hold = replace(hold, quorum=None)
        """What is exchanged waits for nobody else."""
        self._scope = scope
        self._owner = owner
        """Whose a memory becomes that is new here; None: its author's."""
        self.entered: Sequence[journal.Place] = ()
        """Where in the journal the last page is that was taken."""

    @property
    def hold(self) -> Hold:
        return self._hold

    @property
    def scope(self) -> Scope:
        """What goes over to the other end, and what is taken from it."""
        return self._scope

    def doubts(self, asker: Greeting) -> frozenset[str]:
        with self._hold.reading() as session:
            return doubtful(session, asker)

    def anew(self) -> None:
        """A store says what it is every time it is asked."""

    def greet(self) -> Greeting:
        with self._hold.reading() as session:
            return telling.greet(session, self._hold.now(), self._scope)

    def followed(self, sender: Greeting) -> int:
        with self._hold.reading() as session:
            row = session.row("followed_get", origin=sender.origin)
        return row[0] if row and row[1] == sender.scope else 0

    def tell(self, after: int, known: Mapping[str, int], limit: int) -> Page:
        """Nothing is written for that: a copy that lies without its key tells what it has whole."""
        with self._hold.reading() as session:
            return telling.feed(session, self._hold.store.signing_key(session), after, known, limit, self._scope)

    def take(self, page: Page, sender: Greeting, taken: Taken) -> None:
        """A page is taken alone; what is in quarantine and may be taken by now follows in transactions of its own."""
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
