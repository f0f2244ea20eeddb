"""Whether a source says now what it said before something that is here already."""

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
"""Of a memory that are looked at."""


def is_older(one: Planned, there: Memory) -> bool:
    """Whether the source was changed last before what is here came from it, as far as it tells."""
    known = there.metadata.get(UPDATED)
    if one.updated is None or not isinstance(known, str):
        return False
    try:
        return one.updated < from_text(known, UPDATED)
    except Invalid:
        return False


def goes_back(session: Session, one: Planned, there: Memory) -> bool:
    """Whether a memory said once, and does not any more, what it is to say now."""
    if there.content == one.draft.content:
        return False
    rows = session.rows("journal_of", record=there.id, kind=MEMORY.name, after=0, limit=MOST_VERSIONS)
    entries = [journal.Entry(*row) for row in rows]
    return any(body_of(MEMORY, entry).content == one.draft.content for entry in entries if entry.body is not None)


def tell(report: Report, form: str) -> None:
    """Say how many were left as they are, and how many went back."""
    if report.older:
        what = f"{report.older} were mined from a newer export before, and stay as they are"
        report.problem(Problem(where=form, what=what, rejected=False))
    if report.went_back:
        what = f"{report.went_back} went back to an earlier text: this may be an older export than one mined before"
        report.problem(Problem(where=form, what=what, rejected=False))
