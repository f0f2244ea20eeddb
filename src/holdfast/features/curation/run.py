"""Curate a store: a bounded run over its memories, page by page, that can be broken off, repeated and taken back.

Every change is a transaction of its own that also writes down to which run it belongs. What only a person should decide
is proposed. Nothing is deleted: what is made one with others is archived.
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
"""Steps that see nothing new in a memory that did not change; the others depend on time, use and other memories."""
WRITES: dict[Step, tuple[Stage, ...]] = {
    "duplicates": ("store", "link"),
    "priorities": ("store",),
    "personas": ("store",),
}
"""What steps do by themselves; the others only propose. What is made one takes the links over."""
End = Literal["all was looked at", "max_ops", "max_seconds"]
LEASE = "curate"
LEASE_MICROSECONDS = 60 * SECOND
"""So long others wait for a curator that died."""
MOST_SHOWN_SECONDS = 15
"""So long a dry run may keep others from writing."""
PAGE = 200
RULES = "1"
"""Of the steps: by other rules everything is looked at once more."""


class Asked(Struct, frozen=True, kw_only=True):
    """What to curate, and how much of it at a time."""

    apply: bool = False
    """Otherwise everything is done and taken back at once: a dry run."""
    steps: tuple[Step, ...] = STEPS
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    max_ops: int = 100
    max_seconds: int = 30
    max_tokens: int | None = None
    """Of a model; once they are spent, the run goes on by rules."""


class Done(NamedTuple):
    """One thing that was done or proposed."""

    step: Step
    outcome: Literal["changed", "proposed"]
    ids: tuple[str, ...]
    what: str


@dataclass
class Tally:
    """What one step came to."""

    looked_at: int = 0
    changed: int = 0
    proposed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)


class Curated(NamedTuple):
    run: str | None
    """By which it can be taken back; nothing, if it was dry."""
    asked: Asked
    tallies: dict[Step, Tally]
    done: list[Done]
    ended: End
    scanned: int


class Skip(Exception):
    """A memory is left as it is, and why."""


class Full(Exception):
    """A run has done as much as it may."""


class _Shown(Exception):
    """A dry run with a model takes back each thing that it did."""


@contextmanager
def alone(hold: Hold, owner: str) -> Iterator[None]:
    """Be the only one who curates this store; who died is waited for no longer than its lease.

    From here on something may be kept: who gives up cannot be told that nothing was.
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
    """Have the lease, or have it for longer; raises if it is another's."""
    if not leases.take(session, LEASE, owner, now + LEASE_MICROSECONDS, now):
        held = leases.held(session, LEASE, now)
        until = f" It is so until {to_text(held.ends_at)} at least." if held else ""
        raise CuratorBusy(
            f"Another curator is at work in this store: try again when it is done.{until}", retryable=True
        )


class Run:
    """A curator at work."""

    def __init__(self, hold: Hold, asked: Asked, perform: Perform) -> None:
        self._perform = perform
        self.hold = hold
        self.asked = asked
        self.id = hold.new_id()
        self.tallies: dict[Step, Tally] = {step: Tally() for step in asked.steps}
        self.done: list[Done] = []
        self.made: set[str] = set()
        """What is there only because of this run."""
        self.gone: set[str] = set()
        """What was archived in this run: it may still be on the page."""
        self.liked: tuple[Memory, list[tuple[Memory, Likeness]]] | None = None
        """What the memory that is looked at is like: more than one step asks."""
        self._exclude = tuple(door.namespace(name) for name in asked.exclude)
        self._until = monotonic() + asked.max_seconds
        self._spent_before = self._tokens()
        self._renew_at = hold.now() + LEASE_MICROSECONDS // 2
        self._scanned = 0
        self._proposed: set[str] = set()
        self._offers: list[curation.Offer] = []
        """Of this page: written down with what was looked at."""
        self._labels: dict[str, dict[str, int]] = {}

    def over_all(self) -> Curated:
        """Page by page, on from where the run before came to."""
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
        """Whether every step could be done; if not, the next run goes on with this memory."""
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
        """One step on one memory; what cannot be done is told and leaves the others be."""
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
            known = [memory.id for memory in found]
            done = {step: curation.done(session, step, known) for step in self.asked.steps}
            uses = memories.uses(session, known)
        hashes = {memory.id: hash_of(memory) for memory in found}
        return Page(found, hashes, done, uses, {}) if found else None

    def _turn(self, page: Page, place: str) -> None:
        """Write down what was looked at and is proposed, and where to go on."""
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
        asked = (*sorted(self.asked.include), "\x00", *sorted(self.asked.exclude), "\x00", *sorted(self.asked.steps))
        return ids.derived("curate", self.hold.caller.agent, *asked)

    def _place(self) -> str:
        with self.hold.reading() as session:
            return curation.cursor(session, self._cursor)

    def _keep_lease(self) -> None:
        """A run that finds nothing to do, or waits for a model, is still at work."""
        now = self.hold.now()
        if self.asked.apply and now >= self._renew_at:
            with self.hold.store.writing() as session:
                take_lease(session, self.id, now)
            self._renew_at = now + LEASE_MICROSECONDS // 2

    def _tokens(self) -> int:
        """What models took today, by the ledger; asked only if that matters."""
        if self.hold.model is None or self.asked.max_tokens is None:
            return 0
        with self.hold.reading() as session:
            return consulted.spent(session, self.hold.now())

    def _keep_budget(self) -> None:
        """Ask no model any more once the tokens of this run are spent."""
        if self.asked.max_tokens is not None and self._tokens() - self._spent_before >= self.asked.max_tokens:
            self.hold = change(self.hold, model=None)

    @contextmanager
    def changing(self, step: Step, memory: str) -> Iterator[Transaction]:
        """One change, all of it or nothing, under the lease and on record; of a dry run nothing is kept."""
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
        """Write down in a change that memories were looked at as they are, or as they are now."""
        curation.note(write.session, step, marks.items(), write.now)

    def changed(self, step: Step, ids: tuple[str, ...], what: str) -> None:
        self.tallies[step].changed += 1
        self.done.append(Done(step, "changed", self._lasting(ids), what))

    def propose(self, step: Step, sort: str, memory: str, other: str | None, key: str, body: object, what: str) -> None:
        """Leave something to somebody's decision, once."""
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
            known = curation.proposed(session, [offer.id])
        if known or offer.id in self._proposed:
            raise Skip("proposed before")
        if self._full:
            raise Full
        self._proposed.add(offer.id)
        self._offers.append(offer)
        self.tallies[step].proposed += 1
        ids = (memory,) if other is None else (memory, other)
        self.done.append(Done(step, "proposed", self._lasting(ids), what))

    def _lasting(self, ids: tuple[str, ...]) -> tuple[str, ...]:
        """Of some memories those that are there after the run: what a dry run made is not."""
        return ids if self.asked.apply else tuple(id for id in ids if id not in self.made)

    def labels(self, session: Session, namespace: str) -> dict[str, int]:
        """The labels of a namespace, looked up once in a run."""
        if namespace not in self._labels:
            self._labels[namespace] = curation.tags(session, self.hold.caller, namespace, self.hold.now())
        return self._labels[namespace]

    def _curated(self, ended: End) -> Curated:
        return Curated(self.id if self.asked.apply else None, self.asked, self.tallies, self.done, ended, self._scanned)

    def close(self, status: str) -> None:
        """Say how the run ended, even if its caller gave up."""
        counts = {
            step: {"looked_at": tally.looked_at, "changed": tally.changed, "proposed": tally.proposed}
            for step, tally in self.tallies.items()
        }
        with self.hold.store.writing() as session:
            curation.finish(session, self.id, status, msgspec.json.encode(counts).decode(), self.hold.now())


class Page(NamedTuple):
    """Some memories, and what is known of them."""

    memories: list[Memory]
    hashes: dict[str, str]
    done: dict[Step, dict[str, str]]
    """As what they were looked at before."""
    uses: dict[str, tuple[int, int]]
    marks: dict[Step, dict[str, str]]
    """What was looked at now."""

    def looked_at(self, step: Step, memory: Memory) -> bool:
        """Whether a step has nothing new to see."""
        return step in BY_CONTENT and self.done[step].get(memory.id) == self.hashes[memory.id]


_NOTHING = Page([], {}, {}, {}, {})
Perform = Callable[[Run, Step, Memory, Page], None]


def hash_of(memory: Memory) -> str:
    """What a step depends on: by other rules, another text or other labels it has something new to see."""
    return ids.derived(RULES, content_hash(memory.title, memory.content), memory.namespace, memory.scope, *memory.tags)
