"""Counts, problems and samples of an import, and older exports, which do not overwrite newer text silently."""

from collections import Counter
from typing import Literal

from msgspec import Struct

from holdfast.features.importers.model import Problem
from holdfast.features.importers.plan import SOURCE_UPDATED_KEY, PlannedMemory
from holdfast.kernel.errors import HoldfastError, Invalid
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.kinds import MEMORY, body_of
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.validate import Draft
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text import content_scan
from holdfast.kernel.timestamps import parse_timestamp

MAX_PROBLEMS = 200
"""Listed problems; further ones are only counted."""
MAX_SAMPLES = 5
MAX_SAMPLE_CHARS = 200
"""Characters of a sample."""

Outcome = Literal["stored", "updated", "unchanged", "joined", "left"]
"""stored: new. updated: changed at the source. unchanged: identical. joined: already captured or imported another way.
left: archived or edited here, not changed."""


class Sample(Struct, frozen=True):
    title: str
    content: str
    speaker: str | None = None
    source_uri: str | None = None


class Report:
    """Collects outcomes and problems of an import."""

    def __init__(self) -> None:
        self.outcomes: Counter[Outcome] = Counter()
        self.kinds: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        self.conversations = 0
        self.short_conversations = 0
        """Conversations with fewer messages than `min_messages`."""
        self.older_than_here = 0
        """Memories already imported from a newer export."""
        self.reverts = 0
        """Memories reverted to an earlier text."""
        self.links = 0
        self.missing_links: set[tuple[str, str]] = set()
        """Missing link targets that were reported, by place."""
        self.rejected = 0
        self.noted = 0
        self.problems: list[Problem] = []
        self.samples: list[Sample] = []
        self.first_error: HoldfastError | None = None
        """Error of the first rejected record."""
        self.first_memory: str | None = None
        """Memory id of the first record."""

    @property
    def is_empty(self) -> bool:
        """Whether the source contained nothing, not even problems."""
        counts = (*self.outcomes.values(), *self.left_out.values())
        return not any(
            (
                *counts,
                self.conversations,
                self.short_conversations,
                self.older_than_here,
                self.links,
                self.rejected,
                self.noted,
            )
        )

    def add_problem(self, problem: Problem) -> None:
        self.rejected += problem.rejected
        self.noted += not problem.rejected
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)

    def add_error(self, where: str, error: HoldfastError) -> None:
        self.first_error = self.first_error or error
        self.add_problem(Problem(where=where, what=error.message))

    def add_outcome(self, outcome: Outcome, draft: Draft) -> None:
        self.outcomes[outcome] += 1
        if outcome not in ("stored", "updated"):
            return
        self.kinds[str(draft.kind)] += 1
        if len(self.samples) < MAX_SAMPLES:
            text = _sample_text(draft.content)
            self.samples.append(Sample(draft.title, text, draft.speaker or None, draft.source_uri or None))


def _sample_text(text: str) -> str:
    """Beginning of a text, with secrets redacted."""
    return content_scan.redact_text(text[: 10 * MAX_SAMPLE_CHARS])[0][:MAX_SAMPLE_CHARS]


MAX_VERSIONS = 100
"""Versions of a memory that are compared."""


def is_older(planned: PlannedMemory, current: Memory) -> bool:
    """Whether the source was last changed before the stored version was. False if it does not say."""
    known = current.metadata.get(SOURCE_UPDATED_KEY)
    if planned.source_updated_at is None or not isinstance(known, str):
        return False
    try:
        return planned.source_updated_at < parse_timestamp(known, SOURCE_UPDATED_KEY)
    except Invalid:
        return False


def is_revert(session: Session, planned: PlannedMemory, current: Memory) -> bool:
    """Whether the new text equals an earlier version of the memory."""
    if current.content == planned.draft.content:
        return False
    rows = session.rows("journal_of", record=current.id, kind=MEMORY.name, after=0, limit=MAX_VERSIONS)
    entries = [journal.Entry(*row) for row in rows]
    return any(body_of(MEMORY, entry).content == planned.draft.content for entry in entries if entry.body is not None)


def report_older_exports(report: Report, form: str) -> None:
    """Report how many memories stayed unchanged and how many were reverted."""
    if report.older_than_here:
        what = f"{report.older_than_here} unchanged: already imported from a newer export"
        report.add_problem(Problem(where=form, what=what, rejected=False))
    if report.reverts:
        what = f"{report.reverts} reverted to an earlier text: this export may be older than the last one"
        report.add_problem(Problem(where=form, what=what, rejected=False))
