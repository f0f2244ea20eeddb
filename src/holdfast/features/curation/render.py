"""Terminal output of curation and the quality audit."""

from collections.abc import Iterator
from typing import Any

from holdfast.features.curation.operations.audit import AuditAnswer, AuditFinding
from holdfast.kernel.terminal import escape, pluralize, render_table, shorten, style

_TROUBLE_LABELS = {
    "duplicates": "say what another says, word for word",
    "near_duplicates": "say nearly what another says",
    "recall_loops": "repeat what was recalled just before",
    "secrets": "hold keys or passwords",
    "untrusted": "give orders or pose as something else",
    "contradictions": "contradict another",
    "stale": "are live, but outlived",
    "never_read": "were never read",
}
MAX_EXAMPLES = 3


def render_curation(answer: Any) -> Iterator[str]:
    """Print the changes made or planned, then the counts of each step."""
    for one in answer.done:
        yield f"{one.outcome:>8}  {shorten(one.what, 160)}"
    rows = [
        (step, str(told.looked_at), str(told.changed), str(told.proposed), shorten(_format_skipped(told.skipped), 60))
        for step, told in answer.steps.items()
    ]
    yield from render_table(rows, ("STEP", "LOOKED AT", "CHANGED", "PROPOSED", "SKIPPED"))
    ended = "" if answer.ended == "all was looked at" else f" It ended by {answer.ended}: the next run goes on."
    if answer.dry_run:
        yield style(f"Nothing was changed: repeat it with --apply to do this.{ended}", fg="yellow")
    else:
        yield style(f"Run {answer.run_id}: take it back with curate rollback.{ended}", fg="green")


def _format_skipped(reasons: dict[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in reasons.items())


def render_proposals(answer: Any) -> Iterator[str]:
    """Print each proposal with its evidence."""
    if not answer.proposals:
        yield "Nothing is proposed."
    for one in answer.proposals:
        yield style(f"{one.id}  {one.kind}", bold=True)
        yield f"  {one.memory_id}" + (f" and {one.other_id}" if isinstance(one.other_id, str) else "")
        if tags := one.details.get("tags"):
            yield "  " + escape(", ".join(tags))
        for against in one.details.get("evidence") or ():
            yield f"  {shorten(against['a'])}"
            yield f"  {shorten(against['b'])}"


def render_audit(answer: AuditAnswer) -> Iterator[str]:
    """Print the quality score, the findings it is made of, and examples of each."""
    without = f", without {answer.rejected} that could not be read" if answer.rejected else ""
    yield f"{answer.score} of 100 points, {pluralize(answer.total, 'memory', 'memories')}{without}."
    if not answer.complete:
        yield "There are too many to look at all of them."
    for finding in answer.findings:
        yield from _render_finding(finding)
    for problem in answer.problems:
        yield f"Not read: {escape(problem.where)}: {escape(problem.what)}"


def _render_finding(finding: AuditFinding) -> Iterator[str]:
    what = _TROUBLE_LABELS[finding.trouble]
    if not isinstance(finding.count, int):
        yield f"     ? {what}: cannot be known here"
        return
    share = finding.share if isinstance(finding.share, float) else 0.0
    yield f"{finding.count:>6} {what} ({share:.1%}, -{finding.points} points)"
    for example in finding.examples[:MAX_EXAMPLES]:
        named = " ".join(example.ids[:4]) + (" ..." if len(example.ids) > 4 else "")
        yield f"         {escape(named)}  {escape(example.what)[:80]}"
