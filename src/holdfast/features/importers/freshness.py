"""Detect older exports: a source must not overwrite newer text with older text silently."""

from holdfast.features.importers.model import Problem
from holdfast.features.importers.plan import UPDATED, Planned
from holdfast.features.importers.report import Report
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import body_of
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import from_text

MOST_VERSIONS = 100
"""Versions of a memory that are compared."""


def is_older(one: Planned, there: Memory) -> bool:
    """Whether the source was last changed before the stored version was. False if it does not say."""
    known = there.metadata.get(UPDATED)
    if one.updated is None or not isinstance(known, str):
        return False
    try:
        return one.updated < from_text(known, UPDATED)
    except Invalid:
        return False


def goes_back(session: Session, one: Planned, there: Memory) -> bool:
    """Whether the new text equals an earlier version of the memory."""
    if there.content == one.draft.content:
        return False
    rows = session.rows("journal_of", record=there.id, kind=MEMORY.name, after=0, limit=MOST_VERSIONS)
    entries = [journal.Entry(*row) for row in rows]
    return any(body_of(MEMORY, entry).content == one.draft.content for entry in entries if entry.body is not None)


def tell(report: Report, form: str) -> None:
    """Report how many memories stayed unchanged and how many were reverted."""
    if report.older:
        what = f"{report.older} unchanged: already imported from a newer export"
        report.problem(Problem(where=form, what=what, rejected=False))
    if report.went_back:
        what = f"{report.went_back} reverted to an earlier text: this export may be older than the last one"
        report.problem(Problem(where=form, what=what, rejected=False))
