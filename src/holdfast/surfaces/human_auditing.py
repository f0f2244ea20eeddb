"""How clean a store is, for a person to read."""

from collections.abc import Iterator

from ..operations.auditing import AuditAnswer, AuditFinding
from .human import many, safe

_CALLED = {
    "duplicates": "say what another says, word for word",
    "near_duplicates": "say nearly what another says",
    "recall_loops": "repeat what was recalled just before",
    "secrets": "hold keys or passwords",
    "untrusted": "give orders or pose as something else",
    "contradictions": "contradict another",
    "stale": "are live, but outlived",
    "never_read": "were never read",
}
SHOWN = 3


def audited(answer: AuditAnswer) -> Iterator[str]:
    """The score, what it is made of, and where to look."""
    without = f", without {answer.rejected} that could not be read" if answer.rejected else ""
    yield f"{answer.score} of 100 points, {many(answer.total, 'memory', 'memories')}{without}."
    if not answer.complete:
        yield "There are too many to look at all of them."
    for finding in answer.findings:
        yield from _finding(finding)
    for problem in answer.problems:
        yield f"Not read: {safe(problem.where)}: {safe(problem.what)}"


def _finding(finding: AuditFinding) -> Iterator[str]:
    what = _CALLED[finding.trouble]
    if not isinstance(finding.count, int):
        yield f"     ? {what}: cannot be known here"
        return
    share = finding.share if isinstance(finding.share, float) else 0.0
    yield f"{finding.count:>6} {what} ({share:.1%}, -{finding.points} points)"
    for example in finding.examples[:SHOWN]:
        named = " ".join(example.ids[:4]) + (" ..." if len(example.ids) > 4 else "")
        yield f"         {safe(named)}  {safe(example.what)[:80]}"
