"""A curator run: a bounded, resumable pass over the memories of a store that can be rolled back.

Every change is its own transaction, which also records the run. Changes that a person should decide are proposed.
Nothing is deleted: merged memories are archived.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from dataclasses import replace as change
from time import monotonic
from typing import Literal, NamedTuple, get_args

import msgspec
from msgspec import Struct

from holdfast.features.curation import store as curation
from holdfast.features.llm import store as consulted
from holdfast.features.memories import store as memories
from holdfast.kernel import ids
from holdfast.kernel.caller import under
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Cancelled, CuratorBusy, HoldfastError, StoreError
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.columns import content_hash
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.registry.stages import Stage
from holdfast.kernel.storage import leases
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.similarity import Likeness
from holdfast.kernel.timestamps import SECOND, to_text

Step = Literal["duplicates", "contradictions", "tags", "priorities", "personas"]
STEPS: tuple[Step, ...] = get_args(Step)
BY_CONTENT: tuple[Step, ...] = ("duplicates", "contradictions", "tags")
"""Steps that depend only on the content, so unchanged memories are skipped. The others depend on time and use."""
WRITES: dict[Step, tuple[Stage, ...]] = {
    "duplicates": ("store", "link"),
    "priorities": ("store",),
    "personas": ("store",),
}
"""Hook stages of the steps that change memories; the other steps only propose. A merged memory inherits links."""
End = Literal["all was looked at", "max_ops", "max_seconds"]
LEASE = "curate"
LEASE_MICROSECONDS = 60 * SECOND
"""How long a crashed curator blocks others."""
MOST_SHOWN_SECONDS = 15
"""How long a dry run may block other writers."""
PAGE = 200
RULES = "1"
"""Version of the rules. Increase it to check every memory again."""


class Asked(Struct, frozen=True, kw_only=True):
    """Scope and budget of a run."""

    apply: bool = False
    """False: a dry run, executed and rolled back."""
    steps: tuple[Step, ...] = STEPS
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    max_ops: int = 100
    max_seconds: int = 30
    max_tokens: int | None = None
    """Model tokens; once spent, the run continues by rules."""


class Done(NamedTuple):
    """One change or proposal."""

    step: Step
    outcome: Literal["changed", "proposed"]
    ids: tuple[str, ...]
    what: str


@dataclass
class Tally:
    """Counts of one step."""

    looked_at: int = 0
    changed: int = 0
    proposed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)


class Curated(NamedTuple):
    run: str | None
    """Id for a rollback; None for a dry run."""
    asked: Asked
    tallies: dict[Step, Tally]
    done: list[Done]
    ended: End
    scanned: int


class Skip(Exception):
    """Skip a memory, with the reason."""


class Full(Exception):
    """The operation limit of a run is reached."""


class _Shown(Exception):
    """Roll back one change of a dry run with a model."""


@contextmanager
def alone(hold: Hold, owner: str) -> Iterator[None]:
    """Hold the curator lease of the store. A crashed holder blocks others only until its lease ends.

    From here on the operation may commit, so a cancelled caller is no longer told that nothing was written.
    """
    hold.progress.commit()
    with hold.store.writing() as session:
        take_lease(session, owner, hold.now())
    try:
        yield
    finally:
        with hold.store.writing() as session:
            leases.release(session, LEASE, owner)


def take_lease(session: Session, owner: str, now: int) -> None:
    """Take or extend the lease. Raises if another curator holds it."""
    if not leases.take(session, LEASE, owner, now + LEASE_MICROSECONDS, now):
        lease = leases.held(session, LEASE, now)
        until = f" Its lease lasts until {to_text(lease.ends_at)}." if lease else ""
        raise CuratorBusy(f"Another curator is running in this store: try again later.{until}", retryable=True)


class Run:
    """State of a curator run."""

    def __init__(self, hold: Hold, asked: Asked, perform: Perform) -> None:
        self._perform = perform
        self.hold = hold
        self.asked = asked
        self.id = hold.new_id()
        self.tallies: dict[Step, Tally] = {step: Tally() for step in asked.steps}
        self.done: list[Done] = []
        self.made: set[str] = set()
        """Memories created by this run."""
        self.gone: set[str] = set()
        """Memories archived by this run, which may still be on the page."""
        self.liked: tuple[Memory, list[tuple[Memory, Likeness]]] | None = None
        """Cached memories similar to the current one; several steps need them."""
        self._exclude = tuple(door.namespace(name) for name in asked.exclude)
        self._until = monotonic() + asked.max_seconds
        self._spent_before = self._tokens()
        self._renew_at = hold.now() + LEASE_MICROSECONDS // 2
        self._scanned = 0
        self._proposed: set[str] = set()
        self._offers: list[curation.Offer] = []
        """Proposals of this page, written together with its marks."""
        self._labels: dict[str, dict[str, int]] = {}

    def over_all(self) -> Curated:
        """Process all pages, starting where the previous run ended."""
        place = self._place()
        while page := self._page(place):
            for number, memory in enumerate(page.memories):
                self.hold.progress(self._scanned, self._scanned + len(page.memories) - number, "curating")
                if end := self._spent():
                    self._turn(page, place)
                    return self._curated(end)
                self._keep_lease()
                self._keep_budget()
                if not self._all_steps(self._perform, memory, page):
                    self._turn(page, place)
                    return self._curated("max_ops")
                self._scanned += 1
                place = memory.id
            self._turn(page, place)
        self._turn(_NOTHING, "")
        return self._curated("all was looked at")

    def _all_steps(self, perform: Perform, memory: Memory, page: Page) -> bool:
        """Run every step on a memory; False if the limit was reached, so the next run continues with this memory."""
        for step in self.asked.steps:
            if self._full:
                return False
            try:
                self._attempt(perform, step, memory, page)
            except Full:
                return False
        return True

    @property
    def _full(self) -> bool:
        return len(self.done) >= self.asked.max_ops

    def _attempt(self, perform: Perform, step: Step, memory: Memory, page: Page) -> None:
        """Run one step on one memory. Errors are counted and do not affect other memories."""
        if memory.id in self.gone:
            return
        if self._left_out(memory.namespace) or page.looked_at(step, memory):
            return
        tally = self.tallies[step]
        tally.looked_at += 1
        try:
            perform(self, step, memory, page)
        except Skip as skip:
            tally.skipped[str(skip)] += 1
        except (StoreError, Cancelled, CuratorBusy):
            raise
        except HoldfastError as error:
            tally.skipped[f"refused: {error.code}"] += 1
            return
        if step in BY_CONTENT:
            page.marks.setdefault(step, {})[memory.id] = page.hashes[memory.id]

    def _left_out(self, namespace: str) -> bool:
        return any(segment.startswith("_") for segment in namespace.split("/")) or any(
            under(namespace, path) for path in self._exclude
        )

    def _spent(self) -> End | None:
        if self._full:
            return "max_ops"
        return "max_seconds" if monotonic() >= self._until else None

    def _page(self, after: str) -> Page | None:
        now = self.hold.now()
        with self.hold.reading() as session:
            found = curation.page(session, self.hold.caller, after, now, limit=PAGE)
            page_ids = [memory.id for memory in found]
            marks = {step: curation.done(session, step, page_ids) for step in self.asked.steps}
            uses = memories.uses(session, page_ids)
        hashes = {memory.id: hash_of(memory) for memory in found}
        return Page(found, hashes, marks, uses, {}) if found else None

    def _turn(self, page: Page, place: str) -> None:
        """Store marks, proposals and the cursor."""
        if not self.asked.apply:
            return
        now = self.hold.now()
        with self.hold.store.writing() as session:
            take_lease(session, self.id, now)
            for step, hashes in page.marks.items():
                curation.note(session, step, hashes.items(), now)
            for offer in self._offers:
                curation.propose(session, offer)
            curation.move(session, self._cursor, place, now)
        self._offers.clear()

    @property
    def _cursor(self) -> str:
        parts = (*sorted(self.asked.include), "\x00", *sorted(self.asked.exclude), "\x00", *sorted(self.asked.steps))
        return ids.derived("curate", self.hold.caller.agent, *parts)

    def _place(self) -> str:
        with self.hold.reading() as session:
            return curation.cursor(session, self._cursor)

    def _keep_lease(self) -> None:
        """Extend the lease, also while nothing is written."""
        now = self.hold.now()
        if self.asked.apply and now >= self._renew_at:
            with self.hold.store.writing() as session:
                take_lease(session, self.id, now)
            self._renew_at = now + LEASE_MICROSECONDS // 2

    def _tokens(self) -> int:
        """Count the model tokens used today; 0 if the run has no token limit."""
        if self.hold.model is None or self.asked.max_tokens is None:
            return 0
        with self.hold.reading() as session:
            return consulted.spent(session, self.hold.now())

    def _keep_budget(self) -> None:
        """Stop using the model once the token limit is reached."""
        if self.asked.max_tokens is not None and self._tokens() - self._spent_before >= self.asked.max_tokens:
            self.hold = change(self.hold, model=None)

    @contextmanager
    def changing(self, step: Step, memory: str) -> Iterator[Transaction]:
        """Open the transaction of one change, under the lease and recorded as a step; a dry run rolls it back."""
        try:
            with self.hold.writing() as write:
                if self.asked.apply:
                    take_lease(write.session, self.id, write.now)
                yield write
                if not self.asked.apply and self.hold.model is not None:
                    write.flush()
                    raise _Shown
                if self.asked.apply and write.changes:
                    first = journal.head_of(write.session).seq + 1
                    curation.step(write.session, self.id, first, step, memory)
        except _Shown:
            pass

    def note(self, write: Transaction, step: Step, marks: dict[str, str]) -> None:
        """Record, in the transaction of a change, that memories were checked."""
        curation.note(write.session, step, marks.items(), write.now)

    def changed(self, step: Step, ids: tuple[str, ...], what: str) -> None:
        self.tallies[step].changed += 1
        self.done.append(Done(step, "changed", self._lasting(ids), what))

    def propose(self, step: Step, sort: str, memory: str, other: str | None, key: str, body: object, what: str) -> None:
        """Propose a change. Raises Skip if it was proposed before."""
        offer = curation.Offer(
            id=curation.offer_id(sort, key),
            run=self.id,
            step=sort,
            memory=memory,
            other=other,
            body=msgspec.json.encode(body).decode(),
            agent=self.hold.caller.agent,
            offered_at=self.hold.now(),
            status="open",
        )
        with self.hold.reading() as session:
            exists = curation.proposed(session, [offer.id])
        if exists or offer.id in self._proposed:
            raise Skip("proposed before")
        if self._full:
            raise Full
        self._proposed.add(offer.id)
        self._offers.append(offer)
        self.tallies[step].proposed += 1
        ids = (memory,) if other is None else (memory, other)
        self.done.append(Done(step, "proposed", self._lasting(ids), what))

    def _lasting(self, ids: tuple[str, ...]) -> tuple[str, ...]:
        """Filter out memories that exist only during a dry run."""
        return ids if self.asked.apply else tuple(id for id in ids if id not in self.made)

    def labels(self, session: Session, namespace: str) -> dict[str, int]:
        """Count the tags of a namespace, cached for the run."""
        if namespace not in self._labels:
            self._labels[namespace] = curation.tags(session, self.hold.caller, namespace, self.hold.now())
        return self._labels[namespace]

    def _curated(self, ended: End) -> Curated:
        return Curated(self.id if self.asked.apply else None, self.asked, self.tallies, self.done, ended, self._scanned)

    def close(self, status: str) -> None:
        """Record how the run ended, even if the caller cancelled."""
        counts = {
            step: {"looked_at": tally.looked_at, "changed": tally.changed, "proposed": tally.proposed}
            for step, tally in self.tallies.items()
        }
        with self.hold.store.writing() as session:
            curation.finish(session, self.id, status, msgspec.json.encode(counts).decode(), self.hold.now())


class Page(NamedTuple):
    """A page of memories with their marks and use counts."""

    memories: list[Memory]
    hashes: dict[str, str]
    done: dict[Step, dict[str, str]]
    """Marks of earlier runs: step -> memory -> hash."""
    uses: dict[str, tuple[int, int]]
    marks: dict[Step, dict[str, str]]
    """New marks of this run."""

    def looked_at(self, step: Step, memory: Memory) -> bool:
        """Whether a content step already checked this version of the memory."""
        return step in BY_CONTENT and self.done[step].get(memory.id) == self.hashes[memory.id]


_NOTHING = Page([], {}, {}, {}, {})
Perform = Callable[[Run, Step, Memory, Page], None]


def hash_of(memory: Memory) -> str:
    """Hash what content steps depend on: rules version, text, namespace, scope and tags."""
    return ids.derived(RULES, content_hash(memory.title, memory.content), memory.namespace, memory.scope, *memory.tags)
