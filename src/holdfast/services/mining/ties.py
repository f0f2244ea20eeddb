"""Links among what was mined, once both their ends are kept."""

from ...domain import mined as reading
from ...domain.mined import Problem, Tie
from ...storage import mined
from ...storage.port import Session
from ...storage.records import MEMORY, Writing
from .. import relate
from ..hold import Hold
from ..remember import must_change
from .plan import Planner
from .report import Report


def tie_all(hold: Hold, ties: list[Tie], planner: Planner, report: Report, *, dry_run: bool) -> None:
    """Link what is not linked, in one transaction; none is begun if all of it is."""
    if dry_run:
        report.links += len(ties)
        return
    with hold.reading() as session:
        missing = [tie for tie in ties if not _is_tied(session, tie, planner)]
    if missing:
        with hold.writing() as write:
            for tie in missing:
                _tie(hold, write, tie, planner, report)


def _ends(session: Session, tie: Tie, planner: Planner) -> tuple[str | None, str | None]:
    source, target = planner.key(tie.source), planner.key(tie.target)
    found = mined.known(session, [source, target])
    return found[source].memory if source in found else None, found[target].memory if target in found else None


def _is_tied(session: Session, tie: Tie, planner: Planner) -> bool:
    """Whether a link is or was there: one that was taken away is not made again."""
    source, target = _ends(session, tie, planner)
    if source is None or target is None:
        return False
    return session.row("link_get", id=relate.id_of(source, target, "related_to")) is not None


def _tie(hold: Hold, write: Writing, tie: Tie, planner: Planner, report: Report) -> None:
    source, target = (write.get(MEMORY, end) if end else None for end in _ends(write.session, tie, planner))
    if source is None or target is None:
        missing = reading.line((tie.source if source is None else tie.target).rpartition("/")[2], 80)
        report.problem(Problem(where=tie.where, what=f"points to {missing!r}, which is not there"))
    elif source.state == target.state == "live" and source.id != target.id:
        must_change(hold, write, source)
        relate.tie(hold, write, source.id, target.id, "related_to")
        report.links += 1
