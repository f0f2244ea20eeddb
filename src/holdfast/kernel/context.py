"""What every service works with: the store, the caller, the clock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from time import monotonic, sleep
from typing import Any, Protocol

from msgspec import Struct

from holdfast.kernel import ids
from holdfast.kernel import timestamps as moment
from holdfast.kernel.caller import Caller
from holdfast.kernel.embedder import Embedder
from holdfast.kernel.errors import Cancelled, OutcomeUnknown, StoreError, StoreUnreachable
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.language_model import Model
from holdfast.kernel.locals import Locals
from holdfast.kernel.model_allowance import Allowance
from holdfast.kernel.net.access import Access, Outbound
from holdfast.kernel.records.lifetime import Keep, Lifetimes
from holdfast.kernel.records.memory import Tier
from holdfast.kernel.storage.port import Session, Store

NO_ACCESS = Access()
OUTBOUND = Outbound()
SETTLE_SECONDS = 10.0
"""How long a database is waited for that went away in the middle of a commit."""
AGAIN_SECONDS = 0.5


class Progress:
    """How far a long operation is, and whether its caller still wants it."""

    def __init__(
        self,
        report: Callable[[int, int, str], None] = lambda done, total, what: None,
        stop: threading.Event | None = None,
    ) -> None:
        self._report = report
        self._stop = stop
        self._commits = False

    def __call__(self, done: int, total: int, what: str = "") -> None:
        self.check()
        self._report(done, total, what)

    def check(self) -> None:
        """Raise if the caller has given up."""
        if self._stop is not None and self._stop.is_set():
            raise Cancelled

    def commit(self) -> None:
        """The last moment to give up: the store looks at this just before it commits."""
        self.check()
        self._commits = True

    def must_not_commit(self) -> None:
        """Raise if a commit has begun: who does not wait for its end cannot say that nothing was written."""
        if self._commits:
            raise OutcomeUnknown("The change was being committed for too long: it may be kept or not. Look which.")


SILENT = Progress()


class WriteGuard(Protocol):
    """Decides when a committed change counts: for example once enough other stores have it."""

    def mark(self, session: Session, places: Sequence[journal.Place], origin: str, now: int) -> None:
        """Note changes in the transaction that makes them."""

    def wait(self, places: Sequence[journal.Place], *, named: bool) -> None:
        """Return once the changes count; raise if they do not in time. `named`: errors may name other stores."""


class Interceptor(Protocol):
    """Surrounds calls of operations: it may refuse, change or record them."""

    @property
    def waits(self) -> bool:
        """Whether it may wait for somebody: surfaces then call the operation off their event loop."""

    def applies(self, operation: object) -> bool:
        """Whether it wants to see calls of this operation."""

    def call(
        self,
        operation: object,
        ctx: Hold,
        caller: Caller,
        arguments: Mapping[str, Any],
        progress: Progress,
        proceed: Callable[[], Any],
    ) -> Any:
        """The answer of the operation; `proceed` calls it as it was asked."""

    def close(self) -> None:
        """End what it started."""


@dataclass(frozen=True)
class Hold:
    """One open memory, seen by one caller."""

    store: Store
    caller: Caller
    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    namespace: str = "global"
    """Where a memory goes that names no namespace."""
    default_tier: Tier = "long"
    """The tier of a memory that is stored without one."""
    families: tuple[str, ...] = ()
    """The families of operations that are within reach here; none named means all."""
    now: Callable[[], int] = moment.now
    progress: Progress = SILENT
    local: Locals = field(default_factory=Locals)
    """What features keep in memory beside this store."""
    keep_recalls: int = 30
    """Days for which questions are kept with what was found; 0: not at all."""
    keep: Keep = field(default_factory=Keep)
    """For how long is kept what agents used, tried and finished."""
    embedder: Embedder | None = None
    """Who makes vectors; None: memories are found by words alone."""
    model: Model | None = None
    """Who may help with what words mean; None: everything goes by rules alone."""
    allowance: Allowance = field(default_factory=Allowance)
    """What the model may take in a day, and its prices."""
    access: Access = NO_ACCESS
    """With what other stores are asked over a network."""
    outbound: Outbound = OUTBOUND
    """How events go out to who subscribed."""
    kept: Callable[[], None] = lambda: None
    """Told when something was committed."""
    keeping: Callable[[], AbstractContextManager[None]] = nullcontext
    """Entered while something is kept."""
    notified: list[Struct] = field(default_factory=list)
    """Records that listeners added to this caller's changes, such as notices to the owners of stale memories."""
    quorum: WriteGuard | None = None
    """Which other stores must have a change before it counts; None: none."""
    interceptors: tuple[Interceptor, ...] = ()
    """What surrounds calls of operations, the outermost first."""
    confirmed: bool = False
    """Whether a person at this machine said yes to what hooks asked."""
    placed: list[journal.Place] = field(default_factory=list)
    """Where this caller's changes stand in the journal, if others must have them."""

    def seen_by(self, caller: Caller, progress: Progress = SILENT) -> Hold:
        return replace(self, caller=caller, progress=progress, notified=[], placed=[])

    def new_id(self) -> str:
        return ids.uuid7(self.now())

    @contextmanager
    def reading(self) -> Iterator[Session]:
        with self.store.reading() as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """One transaction: rows, full-text and journal entries together, or nothing.

        If the connection breaks while it is committed, the journal tells which: what is there was kept.
        """
        if self.store.lacks_key():
            self._take_a_key()
        places: list[journal.Place] = []
        notified: list[Struct] = []
        try:
            with self.keeping(), self.store.writing(self.progress.commit) as session:
                write = Transaction(
                    session, self.store, actor=self.caller.agent, now=self.now(), lifetimes=self.lifetimes
                )
                yield write
                write.flush()
                places, notified = write.places, write.notices
                if self.quorum is not None and places:
                    self.quorum.mark(session, places, write.origin, write.now)
            self.kept()
        except OutcomeUnknown as unknown:
            if not places:
                raise
            if not self._was_kept(places[-1], unknown):
                raise StoreUnreachable(
                    "The connection to the database broke; nothing was written: try again.", retryable=True
                ) from unknown
        self.notified.extend(notified)
        if self.quorum is not None:
            self.placed.extend(places)

    def _transaction(self, session: Session) -> Transaction:
        return Transaction(session, self.store, actor=self.caller.agent, now=self.now(), lifetimes=self.lifetimes)

    def _take_a_key(self) -> None:
        """In a transaction of its own: a key in a file would stay, though what else is written be taken back."""
        with self.keeping(), self.store.writing() as session:
            self._transaction(session)

    def signing_key(self) -> bytes:
        """The key that this store signs with; a copy that lies without one first becomes a store of its own."""
        with self.reading() as session:
            key = self.store.signing_key(session)
        if key is not None:
            return key
        with self.writing() as write:
            return write.key

    def agreed(self) -> None:
        """Wait until other stores have what this caller changed; raises QuorumNotMet if too few have it in time."""
        if self.quorum is not None and self.placed:
            self.quorum.wait(self.placed, named=self.caller.may("admin"))

    def _was_kept(self, place: journal.Place, unknown: OutcomeUnknown) -> bool:
        """Looked up as a writer, who waits until the transaction that was cut has come to its end."""
        until = monotonic() + SETTLE_SECONDS
        while True:
            try:
                with self.store.writing() as session:
                    return journal.holds(session, place)
            except StoreError as error:
                if not error.retryable or monotonic() > until:
                    raise unknown from error
                sleep(AGAIN_SECONDS)
