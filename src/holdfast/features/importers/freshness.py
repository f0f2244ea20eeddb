"""Detect older exports: a source must not overwrite newer text with older text silently."""

from holdfast.features.importers.model import Problem
from holdfast.features.importers.plan import SOURCE_UPDATED_KEY, PlannedMemory
from holdfast.features.importers.report import Report
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.kinds import MEMORY, body_of
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import parse_timestamp

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
