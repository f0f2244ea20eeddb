"""Terminal output of curation and the quality audit."""

from collections.abc import Iterator
from typing import Any

from holdfast.features.curation.quality_report import AuditFinding, AuditResult
from holdfast.features.memories.render import render_memory
from holdfast.kernel.terminal import escape, pluralize, render_table, shorten, style

_TROUBLE_LABELS = {
    "duplicates": "exact duplicates",
    "near_duplicates": "near-duplicates",
    "recall_loops": "repeats of recalled text",
    "secrets": "with keys or passwords",
    "untrusted": "possible prompt injections",
    "contradictions": "contradictions",
    "stale": "stale",
    "never_read": "never recalled",
}
MAX_EXAMPLES = 3


def render_curation(answer: Any) -> Iterator[str]:
    """Print the changes made or planned, then the counts of each step."""
    for one in answer.done:
        yield f"{one.outcome:>8}  {shorten(one.what, 160)}"
    rows = [
        (
            step,
            str(counts.looked_at),
            str(counts.changed),
            str(counts.proposed),
            shorten(_format_skipped(counts.skipped), 60),
        )
        for step, counts in answer.steps.items()
    ]
    yield from render_table(rows, ("STEP", "CHECKED", "CHANGED", "PROPOSED", "SKIPPED"))
    stop = "" if answer.ended == "all was looked at" else f" Stopped at {answer.ended}; the next run continues."
    if answer.dry_run:
        yield style(f"Dry run. Add --apply to write.{stop}", fg="yellow")
    else:
        yield style(f"Run {answer.run_id} applied. Undo: `holdfast curate rollback {answer.run_id}`.{stop}", fg="green")


def _format_skipped(reasons: dict[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in reasons.items())


def render_proposals(answer: Any) -> Iterator[str]:
    """Print each proposal with its evidence."""
    if not answer.proposals:
        yield "No proposals."
    for one in answer.proposals:
        yield style(f"{one.id}  {one.kind}", bold=True)
        yield f"  {one.memory_id}" + (f" and {one.other_id}" if isinstance(one.other_id, str) else "")
        if tags := one.details.get("tags"):
            yield "  " + escape(", ".join(tags))
        for against in one.details.get("evidence") or ():
            yield f"  {shorten(against['a'])}"
            yield f"  {shorten(against['b'])}"


def render_audit(answer: AuditResult) -> Iterator[str]:
    """Print the quality score, the findings it is made of, and examples of each."""
    without = f", {answer.rejected} unreadable" if answer.rejected else ""
    yield f"Score {answer.score} of 100, {pluralize(answer.total, 'memory', 'memories')}{without}."
    if not answer.complete:
        yield "Incomplete: too many memories to check all of them."
    for finding in answer.findings:
        yield from _render_finding(finding)
    for problem in answer.problems:
        yield f"Unreadable: {escape(problem.where)}: {escape(problem.what)}"


def _render_finding(finding: AuditFinding) -> Iterator[str]:
    what = _TROUBLE_LABELS[finding.trouble]
    if not isinstance(finding.count, int):
        yield f"     ? {what}: not available for exports"
        return
    share = finding.share if isinstance(finding.share, float) else 0.0
    yield f"{finding.count:>6} {what} ({share:.1%}, -{finding.points} points)"
    for example in finding.examples[:MAX_EXAMPLES]:
        ids = " ".join(example.ids[:4]) + (" ..." if len(example.ids) > 4 else "")
        yield f"         {escape(ids)}  {escape(example.what)[:80]}"


def render_consolidation(answer: Any) -> Iterator[str]:
    """Print the new memory and how many memories it replaces."""
    yield from render_memory(answer.memory)
    yield style(f"(replaces {answer.consolidated} memories, now archived)", fg="green")


def render_duplicate_check(answer: Any) -> Iterator[str]:
    """Print whether the text is stored already, and the most similar memory."""
    yield "Already stored." if answer.is_duplicate else "New."
    if answer.nearest is not None:
        near = answer.nearest
        yield f"{near.similarity:.2f}  {near.id}  {escape(near.namespace)}  {shorten(near.title, 60)}"
