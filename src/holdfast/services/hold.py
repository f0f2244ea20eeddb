"""What every service works with: the store, the caller, the clock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from time import monotonic, sleep
from typing import TYPE_CHECKING, Literal

from ..domain import ids, moment
from ..domain.caller import Caller
from ..domain.errors import Cancelled, OutcomeUnknown, StoreError, StoreUnreachable
from ..domain.invalidation import Invalidation
from ..domain.lifetime import Keep, Lifetimes
from ..domain.memory import Tier
from ..domain.spending import Allowance
from ..embedding.port import Embedder
from ..net.access import Access, Outbound
from ..storage import journal
from ..storage.candidates import Usual
from ..storage.port import Session, Store
from ..storage.records import Writing
from .noted import Recalls
from .recent import Recent

if TYPE_CHECKING:
    from ..llm.port import Model
    from .hooks import Hooks
    from .quorum import Quorum

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


class Uses:
    """Which memories were recalled, collected so that reading stays reading; written in a batch afterwards."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, dict[str, tuple[int, int]]] = {}

    def note(self, agent: str, memories: list[str], at: int) -> None:
        self.add(agent, dict.fromkeys(memories, (1, at)))

    def add(self, agent: str, used: Mapping[str, tuple[int, int]]) -> None:
        """Uses of an agent, beside those it has: each memory's number and last time."""
        with self._lock:
            seen = self._seen.setdefault(agent, {})
            for id, (uses, at) in used.items():
                before, last = seen.get(id, (0, 0))
                seen[id] = (before + uses, max(last, at))

    def take(self) -> dict[str, dict[str, tuple[int, int]]]:
        """By agent and memory: how often, and when last. What was taken is not given again."""
        with self._lock:
            seen, self._seen = self._seen, {}
            return seen


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
    uses: Uses = field(default_factory=Uses)
    recalls: Recalls = field(default_factory=Recalls)
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
    recent: Recent = field(default_factory=Recent)
    usual: Usual = field(default_factory=Usual)
    audited: Literal["none", "denied", "all"] = "none"
    """Which calls of operations are recorded as interactions."""
    access: Access = NO_ACCESS
    """With what other stores are asked over a network."""
    outbound: Outbound = OUTBOUND
    """How events go out to who subscribed."""
    kept: Callable[[], None] = lambda: None
    """Told when something was committed."""
    keeping: Callable[[], AbstractContextManager[None]] = nullcontext
    """Entered while something is kept."""
    notified: list[Invalidation] = field(default_factory=list)
    """What this caller's changes told to others, because something they stand on fell."""
    quorum: Quorum | None = None
    """Which other stores must have a change before it counts; None: none."""
    hooks: Hooks | None = None
    """What is asked before, and told after, operations; None: nothing is."""
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
    def writing(self) -> Iterator[Writing]:
        """One transaction: rows, full-text and journal entries together, or nothing.

        If the connection breaks while it is committed, the journal tells which: what is there was kept.
        """
        if self.store.lacks_key():
            self._take_a_key()
        places: list[journal.Place] = []
        notified: list[Invalidation] = []
        try:
            with self.keeping(), self.store.writing(self.progress.commit) as session:
                write = Writing(session, self.store, actor=self.caller.agent, now=self.now(), lifetimes=self.lifetimes)
                yield write
                write.flush()
                places, notified = write.places, write.notified
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

    def _take_a_key(self) -> None:
        """In a transaction of its own: a key in a file would stay, though what else is written be taken back."""
        with self.keeping(), self.store.writing() as session:
            Writing(session, self.store, actor=self.caller.agent, now=self.now(), lifetimes=self.lifetimes)

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
