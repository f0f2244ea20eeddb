"""Retry quarantined changes outside of any page, so that a failure cannot roll back other changes."""

import logging
import traceback
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby

from holdfast.features.sync.apply_changes import Refused
from holdfast.features.sync.peers.filter import Bounds
from holdfast.features.sync.peers.store import scope_of
from holdfast.features.sync.quarantine import store as quarantine
from holdfast.features.sync.quarantine.store import RETRIED, Quarantined
from holdfast.features.sync.receive_changes import Rejected, Taken, apply_quarantined, put_aside
from holdfast.kernel.clock import too_far
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Cancelled, StoreError
from holdfast.kernel.journal.journal import Place
from holdfast.kernel.records.change import Name
from holdfast.kernel.records.namespace_patterns import EVERYTHING, Scope
from holdfast.kernel.storage.port import Session

MAX_OUT_OF_SCOPE = 1000
"""Maximum number of out-of-scope changes, newest first, that are checked again after each page."""
log = logging.getLogger("holdfast")


class QuarantineRetry:
    """Retry quarantined changes of senders with the same scope."""

    def __init__(
        self, hold: Hold, taken: Taken, *, owner: str | None, scope: Scope, files: Mapping[str, bytes] | None = None
    ) -> None:
        self._hold, self._taken = hold, taken
        self._owner, self._scope, self._files = owner, scope, files or {}
        self.places: list[Place] = []
        """The journal positions of each transaction."""

    def after_page(self, told: Collection[Name], *, applied: bool) -> None:
        """Retry changes that may be applicable now, except those of the page itself.

        Never fails the page, which is durable: on an error the retry happens after the next page.
        """
        try:
            with self._hold.reading() as session:
                held = self._due(session) + self._back_in_scope(session)
                held += self._waiting(session) if applied else []
            self.retry([one for one in held if one.name not in told])
        except (Cancelled, StoreError) as error:
            log.warning("Could not retry quarantined changes: %s", error.message)

    def due(self) -> None:
        """Retry changes from fast clocks whose time has come."""
        with self._hold.reading() as session:
            held = self._due(session)
        self.retry(held)

    def retry(self, held: Sequence[Quarantined]) -> None:
        """Retry changes, then those that waited for the applied ones."""
        while held:
            done = self._apply({one.name: one for one in held})
            done.refused = {name: why for name, why in done.refused.items() if name in self._taken.refused}
            self._taken.add(done)
            with self._hold.reading() as session:
                held = self._waiting(session) if done.applied else []

    def _apply(self, held: Mapping[Name, Quarantined]) -> Taken:
        """Apply all in one transaction; if that fails, split them in halves to isolate the failing one."""
        done = type(self._taken)()
        try:
            with self._hold.writing() as write:
                for _, many in groupby(sorted(held.values(), key=_sender), key=_sender):
                    apply_quarantined(write, list(many), done, owner=self._owner, scope=self._scope, files=self._files)
        except Exception as error:
            if isinstance(error, Cancelled) or (isinstance(error, StoreError) and type(error) is not StoreError):
                raise  # not the fault of the changes
            return self._apply_apart(held, error)
        self.places.extend(write.places)
        return done

    def _apply_apart(self, held: Mapping[Name, Quarantined], error: Exception) -> Taken:
        if len(held) == 1:
            return self._give_up(next(iter(held.values())), error)
        names, done = list(held), type(self._taken)()
        for part in (names[: len(names) // 2], names[len(names) // 2 :]):
            done.add(self._apply({name: held[name] for name in part}))
        return done

    def _give_up(self, one: Quarantined, error: Exception) -> Taken:
        """Mark a change that always fails as invalid, so it is not retried automatically."""
        where = "".join(traceback.format_tb(error.__traceback__))
        log.warning("A change in quarantine could not be applied: %s: %s\n%s", type(error).__name__, error, where)
        why, done = Refused("invalid", f"It could not be applied: {type(error).__name__}."), type(self._taken)()
        with self._hold.writing() as write:
            put_aside(write, one.change, why, one.peer)
        done.refused[one.name] = Rejected(one.change, why.reason, why.detail)
        return done

    def _due(self, session: Session) -> list[Quarantined]:
        """List changes from fast clocks whose time has come."""
        now_ms = self._hold.now() // 1000
        found = self._alike(session, quarantine.of_reasons(session, ["future"]))
        return [one for one in found if not too_far(one.change.at, now_ms)]

    def _back_in_scope(self, session: Session) -> list[Quarantined]:
        """List changes that were out of scope and whose records are within the scope now."""
        if EVERYTHING in self._scope.take:
            return []
        bounds = Bounds(session, self._scope.takes)
        found = self._alike(session, quarantine.out_of_scope(session, MAX_OUT_OF_SCOPE))
        return [one for one in found if bounds.hold_one(one.change.kind, one.change.record)]

    def _waiting(self, session: Session) -> list[Quarantined]:
        return self._alike(session, quarantine.of_reasons(session, RETRIED))

    def _alike(self, session: Session, held: list[Quarantined]) -> list[Quarantined]:
        """Select the changes of senders with exactly this scope."""
        alike = {node for node in {one.peer for one in held} if scope_of(session, node) == self._scope}
        return [one for one in held if one.peer in alike]


def _sender(held: Quarantined) -> str:
    return held.peer
