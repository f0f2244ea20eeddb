"""Links between imported memories, added when both ends are stored."""

from holdfast.features.graph import service as graph
from holdfast.features.importers import model, store
from holdfast.features.importers.model import NoteLink, Problem
from holdfast.features.importers.plan import Planner
from holdfast.features.importers.report import Report
from holdfast.features.memories.read_memories import require_write_access
from holdfast.kernel.context import Context
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.storage.port import Session


def add_links(ctx: Context, links: list[NoteLink], planner: Planner, report: Report) -> None:
    """Add missing links in one transaction. Starts none if there are none."""
    with ctx.reading() as session:
        missing = [tie for tie in links if not _has_link(session, tie, planner)]
    if missing:
        with ctx.transaction() as write:
            for tie in missing:
                _add_link(ctx, write, tie, planner, report)


def count_new_links(
    ctx: Context, links: list[NoteLink], planner: Planner, report: Report, planned_keys: set[str]
) -> None:
    """Count the links that a real run would add."""
    with ctx.reading() as session:
        for tie in links:
            if planner.make_key(tie.source) == planner.make_key(tie.target) or _has_link(session, tie, planner):
                continue
            here = [
                planner.make_key(end) in planned_keys or known is not None
                for end, known in zip((tie.source, tie.target), _find_ends(session, tie, planner), strict=True)
            ]
            if all(here):
                report.links += 1
            else:
                _report_missing_end(tie, report, tie.target if here[0] else tie.source)


def _report_missing_end(link: NoteLink, report: Report, end: str) -> None:
    """Report a missing link target once per place."""
    missing = model.to_one_line(end.rpartition("/")[2], 80)
    if (link.where, missing) not in report.missing_links:
        report.missing_links.add((link.where, missing))
        report.add_problem(Problem(where=link.where, what=f"no link to {missing!r}: not found"))


def _find_ends(session: Session, link: NoteLink, planner: Planner) -> tuple[str | None, str | None]:
    source, target = planner.make_key(link.source), planner.make_key(link.target)
    found = store.find_records(session, [source, target])
    return found[source].memory if source in found else None, found[target].memory if target in found else None


def _has_link(session: Session, link: NoteLink, planner: Planner) -> bool:
    """Whether a link exists or existed: a deleted link is not added again."""
    source, target = _find_ends(session, link, planner)
    if source is None or target is None:
        return False
    return session.row("link_get", id=graph.link_id(source, target, "related_to")) is not None


def _add_link(ctx: Context, write: Transaction, link: NoteLink, planner: Planner, report: Report) -> None:
    source, target = (write.get(MEMORY, end) if end else None for end in _find_ends(write.session, link, planner))
    if source is None or target is None:
        _report_missing_end(link, report, link.source if source is None else link.target)
    elif source.state == target.state == "live" and source.id != target.id:
        require_write_access(ctx, write, source)
        graph.add_link(ctx, write, source.id, target.id, "related_to")
        report.links += 1
