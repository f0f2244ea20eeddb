"""Links between imported memories, added when both ends are stored."""

from holdfast.features.graph import service as relate
from holdfast.features.importers import model as reading
from holdfast.features.importers import store as mined
from holdfast.features.importers.model import Problem, Tie
from holdfast.features.importers.plan import Planner
from holdfast.features.importers.report import Report
from holdfast.features.memories.store_memory import must_change
from holdfast.kernel.context import Hold
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.storage.port import Session


def tie_all(hold: Hold, ties: list[Tie], planner: Planner, report: Report) -> None:
    """Add missing links in one transaction. Starts none if there are none."""
    with hold.reading() as session:
        missing = [tie for tie in ties if not _is_tied(session, tie, planner)]
    if missing:
        with hold.writing() as write:
            for tie in missing:
                _tie(hold, write, tie, planner, report)


def rehearse_all(hold: Hold, ties: list[Tie], planner: Planner, report: Report, planned: set[str]) -> None:
    """Count the links that a real run would add."""
    with hold.reading() as session:
        for tie in ties:
            if planner.key(tie.source) == planner.key(tie.target) or _is_tied(session, tie, planner):
                continue
            here = [
                planner.key(end) in planned or known is not None
                for end, known in zip((tie.source, tie.target), _ends(session, tie, planner), strict=True)
            ]
            if all(here):
                report.links += 1
            else:
                _adrift(tie, report, tie.target if here[0] else tie.source)


def _adrift(tie: Tie, report: Report, end: str) -> None:
    """Report a missing link target once per place."""
    missing = reading.line(end.rpartition("/")[2], 80)
    if (tie.where, missing) not in report.adrift:
        report.adrift.add((tie.where, missing))
        report.problem(Problem(where=tie.where, what=f"no link to {missing!r}: not found"))


def _ends(session: Session, tie: Tie, planner: Planner) -> tuple[str | None, str | None]:
    source, target = planner.key(tie.source), planner.key(tie.target)
    found = mined.known(session, [source, target])
    return found[source].memory if source in found else None, found[target].memory if target in found else None


def _is_tied(session: Session, tie: Tie, planner: Planner) -> bool:
    """Whether a link exists or existed: a deleted link is not added again."""
    source, target = _ends(session, tie, planner)
    if source is None or target is None:
        return False
    return session.row("link_get", id=relate.id_of(source, target, "related_to")) is not None


def _tie(hold: Hold, write: Transaction, tie: Tie, planner: Planner, report: Report) -> None:
    source, target = (write.get(MEMORY, end) if end else None for end in _ends(write.session, tie, planner))
    if source is None or target is None:
        _adrift(tie, report, tie.source if source is None else tie.target)
    elif source.state == target.state == "live" and source.id != target.id:
        must_change(hold, write, source)
        relate.tie(hold, write, source.id, target.id, "related_to")
        report.links += 1
