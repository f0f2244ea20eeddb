"""A curator run: a bounded, resumable pass over the memories of a store that can be rolled back.

Every change is its own transaction, which also records the run. Changes that a person should decide are proposed.
Nothing is deleted: merged memories are archived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic
from typing import Any, Literal, NamedTuple, get_args

from msgspec import Struct

from holdfast.features.curation import store as curation
from holdfast.features.llm.check_model import read_budget
from holdfast.features.memories import read_memories as memories
from holdfast.kernel.context import Context, is_under
from holdfast.kernel.errors import CuratorBusy, HoldfastError, OperationCancelled, StoreError
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.kinds import content_hash
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.registry.stages import Stage
from holdfast.kernel.storage.leases import JobLease
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.similarity import Similarity
from holdfast.kernel.timestamps import SECOND, derive_id

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
EndReason = Literal["all was looked at", "max_ops", "max_seconds"]
LEASE = JobLease(
    "curate",
    60 * SECOND,
    "Another curator is running in this store: try again later. Its lease lasts until {until}.",
    CuratorBusy,
)
"""How long a crashed curator blocks others."""
MAX_DRY_RUN_SECONDS = 15
"""How long a dry run may block other writers."""
PAGE = 200
RULES = "1"
"""Version of the rules. Increase it to check every memory again."""


class CurateOptions(Struct, frozen=True, kw_only=True):
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


class CurateAction(Struct, frozen=True, kw_only=True):
    """One change or proposal."""

    step: Step
    outcome: Literal["changed", "proposed"]
    ids: list[str]
    what: str


class StepCounts(Struct, kw_only=True):
    looked_at: int
    changed: int
    proposed: int
    skipped: dict[str, int]
    """Number of memories skipped, by reason."""

    def add_skipped(self, reason: str) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


class CurateResult(Struct, frozen=True, kw_only=True):
    run_id: str | None
    """Id for `curate rollback`; null for a dry run."""
    dry_run: bool
    scanned: int
    ended: str
    """Why it ended: all was looked at, max_ops or max_seconds. The next run continues from there."""
    changed: int
    proposed: int
    steps: dict[str, StepCounts]
    done: list[CurateAction]


class SkipMemory(Exception):
    """Skip a memory, with the reason."""


class BudgetSpent(Exception):
    """The operation limit of a run is reached."""


class _DryRunRollback(Exception):
    """Roll back one change of a dry run with a model."""


class CuratorRun:
    """State of a curator run."""

    def __init__(self, ctx: Context, options: CurateOptions, perform: StepFunction) -> None:
        self._perform = perform
        self.ctx = ctx
        self.options = options
        self.id = ctx.new_id()
        self.tallies: dict[str, StepCounts] = {
            step: StepCounts(looked_at=0, changed=0, proposed=0, skipped={}) for step in options.steps
        }
        self.actions: list[CurateAction] = []
        self.created_ids: set[str] = set()
        """Memories created by this run."""
        self.archived_ids: set[str] = set()
        """Memories archived by this run, which may still be on the page."""
        self.similar_cache: tuple[Memory, list[tuple[Memory, Similarity]]] | None = None
        """Cached memories similar to the current one; several steps need them."""
        self._excluded = tuple(validate.namespace(name) for name in options.exclude)
        self._deadline = monotonic() + options.max_seconds
        self._tokens_before = self._count_tokens()
        self._renew_at = ctx.now() + LEASE.duration // 2
        self._scanned = 0
        self._proposed_ids: set[str] = set()
        self._proposals: list[curation.CurationProposal] = []
        """Proposals of this page, written together with its marks."""
        self._tag_counts: dict[str, dict[str, int]] = {}

    def process_all(self) -> CurateResult:
        """Process all pages, starting where the previous run ended."""
        place = self._read_cursor()
        while page := self._read_page(place):
            for number, memory in enumerate(page.memories):
                self.ctx.progress(self._scanned, self._scanned + len(page.memories) - number, "curating")
                if end := self._find_end_reason():
                    self._store_progress(page, place)
                    return self._build_report(end)
                self._renew_lease()
                self._enforce_token_budget()
                if not self._run_steps(self._perform, memory, page):
                    self._store_progress(page, place)
                    return self._build_report("max_ops")
                self._scanned += 1
                place = memory.id
            self._store_progress(page, place)
        self._store_progress(_EMPTY_PAGE, "")
        return self._build_report("all was looked at")

    def _run_steps(self, perform: StepFunction, memory: Memory, page: Page) -> bool:
        """Run every step on a memory; False if the limit was reached, so the next run continues with this memory."""
        for step in self.options.steps:
            if self._is_full:
                return False
            try:
                self._run_step(perform, step, memory, page)
            except BudgetSpent:
                return False
        return True

    @property
    def _is_full(self) -> bool:
        return len(self.actions) >= self.options.max_ops

    def _run_step(self, perform: StepFunction, step: Step, memory: Memory, page: Page) -> None:
        """Run one step on one memory. Errors are counted and do not affect other memories."""
        if memory.id in self.archived_ids:
            return
        if self._is_excluded(memory.namespace) or page.is_unchanged(step, memory):
            return
        tally = self.tallies[step]
        tally.looked_at += 1
        try:
            perform(self, step, memory, page)
        except SkipMemory as skip:
            tally.add_skipped(str(skip))
        except (StoreError, OperationCancelled, CuratorBusy):
            raise
        except HoldfastError as error:
            tally.add_skipped(f"refused: {error.code}")
            return
        if step in BY_CONTENT:
            page.marks.setdefault(step, {})[memory.id] = page.hashes[memory.id]

    def _is_excluded(self, namespace: str) -> bool:
        return any(segment.startswith("_") for segment in namespace.split("/")) or any(
            is_under(namespace, path) for path in self._excluded
        )

    def _find_end_reason(self) -> EndReason | None:
        if self._is_full:
            return "max_ops"
        return "max_seconds" if monotonic() >= self._deadline else None

    def _read_page(self, after: str) -> Page | None:
        now = self.ctx.now()
        with self.ctx.reading() as session:
            found = curation.list_changeable(session, self.ctx.caller, after, now, limit=PAGE)
            page_ids = [memory.id for memory in found]
            marks = {step: curation.get_marks(session, step, page_ids) for step in self.options.steps}
            uses = memories.read_access_counts(session, page_ids)
        hashes = {memory.id: hash_memory(memory) for memory in found}
        return Page(found, hashes, marks, uses, {}) if found else None

    def _store_progress(self, page: Page, place: str) -> None:
        """Store marks, proposals and the cursor."""
        if not self.options.apply:
            return
        now = self.ctx.now()
        with self.ctx.store.transaction() as session:
            LEASE.take(session, self.id, now)
            for step, hashes in page.marks.items():
                curation.set_marks(session, step, hashes.items(), now)
            for offer in self._proposals:
                curation.PROPOSALS.add_missing(session, offer)
            curation.CURSORS.put(session, curation.Cursor(id=self._cursor_id, place=place, moved_at=now))
        self._proposals.clear()

    @property
    def _cursor_id(self) -> str:
        parts = (
            *sorted(self.options.include),
            "\x00",
            *sorted(self.options.exclude),
            "\x00",
            *sorted(self.options.steps),
        )
        return derive_id("curate", self.ctx.caller.agent, *parts)

    def _read_cursor(self) -> str:
        with self.ctx.reading() as session:
            return curation.get_cursor(session, self._cursor_id)

    def _renew_lease(self) -> None:
        """Extend the lease, also while nothing is written."""
        now = self.ctx.now()
        if self.options.apply and now >= self._renew_at:
            LEASE.renew(self.ctx, self.id)
            self._renew_at = now + LEASE.duration // 2

    def _count_tokens(self) -> int:
        """Count the model tokens used today; 0 if the run has no token limit."""
        if self.ctx.model is None or self.options.max_tokens is None:
            return 0
        return read_budget(self.ctx).spent

    def _enforce_token_budget(self) -> None:
        """Stop using the model once the token limit is reached."""
        if (
            self.options.max_tokens is not None
            and self._count_tokens() - self._tokens_before >= self.options.max_tokens
        ):
            self.ctx = replace(self.ctx, model=None)

    @contextmanager
    def open_change(self, step: Step, memory: str) -> Iterator[Transaction]:
        """Open the transaction of one change, under the lease and recorded as a step; a dry run rolls it back."""
        try:
            with self.ctx.transaction() as write:
                if self.options.apply:
                    LEASE.take(write.session, self.id, write.now)
                yield write
                if not self.options.apply and self.ctx.model is not None:
                    write.flush()
                    raise _DryRunRollback
                if self.options.apply and write.change_count:
                    first = journal.get_head(write.session).seq + 1
                    curation.STEPS.add(write.session, curation.Step(run=self.id, seq=first, step=step, memory=memory))
        except _DryRunRollback:
            pass

    def record_marks(self, write: Transaction, step: Step, marks: dict[str, str]) -> None:
        """Record, in the transaction of a change, that memories were checked."""
        curation.set_marks(write.session, step, marks.items(), write.now)

    def record_change(self, step: Step, ids: tuple[str, ...], what: str) -> None:
        self.tallies[step].changed += 1
        self.actions.append(CurateAction(step=step, outcome="changed", ids=self._list_lasting(ids), what=what))

    def propose(
        self, step: Step, sort: str, memory: str, other: str | None, key: str, body: dict[str, Any], what: str
    ) -> None:
        """Propose a change. Raises SkipMemory if it was proposed before."""
        offer = curation.CurationProposal(
            id=curation.derive_proposal_id(sort, key),
            run=self.id,
            step=sort,
            memory=memory,
            other=other,
            body=body,
            agent=self.ctx.caller.agent,
            proposed_at=self.ctx.now(),
        )
        with self.ctx.reading() as session:
            exists = curation.get_proposal_statuses(session, [offer.id])
        if exists or offer.id in self._proposed_ids:
            raise SkipMemory("proposed before")
        if self._is_full:
            raise BudgetSpent
        self._proposed_ids.add(offer.id)
        self._proposals.append(offer)
        self.tallies[step].proposed += 1
        ids = (memory,) if other is None else (memory, other)
        self.actions.append(CurateAction(step=step, outcome="proposed", ids=self._list_lasting(ids), what=what))

    def _list_lasting(self, ids: tuple[str, ...]) -> list[str]:
        """Filter out memories that exist only during a dry run."""
        return [id for id in ids if self.options.apply or id not in self.created_ids]

    def count_tags(self, session: Session, namespace: str) -> dict[str, int]:
        """Count the tags of a namespace, cached for the run."""
        if namespace not in self._tag_counts:
            self._tag_counts[namespace] = curation.count_tags(session, self.ctx.caller, namespace, self.ctx.now())
        return self._tag_counts[namespace]

    def _build_report(self, ended: EndReason) -> CurateResult:
        for counts in self.tallies.values():
            counts.skipped = dict(sorted(counts.skipped.items()))
        return CurateResult(
            run_id=self.id if self.options.apply else None,
            dry_run=not self.options.apply,
            scanned=self._scanned,
            ended=ended,
            changed=sum(counts.changed for counts in self.tallies.values()),
            proposed=sum(counts.proposed for counts in self.tallies.values()),
            steps=self.tallies,
            done=self.actions,
        )

    def close(self, status: str) -> None:
        """Record how the run ended, even if the caller cancelled."""
        counts = {
            step: {"looked_at": tally.looked_at, "changed": tally.changed, "proposed": tally.proposed}
            for step, tally in self.tallies.items()
        }
        with self.ctx.store.transaction() as session:
            curation.change_run(session, self.id, status=status, report=counts, ended_at=self.ctx.now())


class Page(NamedTuple):
    """A page of memories with their marks and use counts."""

    memories: list[Memory]
    hashes: dict[str, str]
    previous_marks: dict[Step, dict[str, str]]
    """Marks of earlier runs: step -> memory -> hash."""
    uses: dict[str, tuple[int, int]]
    marks: dict[Step, dict[str, str]]
    """New marks of this run."""

    def is_unchanged(self, step: Step, memory: Memory) -> bool:
        """Whether a content step already checked this version of the memory."""
        return step in BY_CONTENT and self.previous_marks[step].get(memory.id) == self.hashes[memory.id]


_EMPTY_PAGE = Page([], {}, {}, {}, {})
StepFunction = Callable[[CuratorRun, Step, Memory, Page], None]


def hash_memory(memory: Memory) -> str:
    """Hash what content steps depend on: rules version, text, namespace, scope and tags."""
    return derive_id(RULES, content_hash(memory.title, memory.content), memory.namespace, memory.scope, *memory.tags)
