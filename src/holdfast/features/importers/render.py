"""Terminal output of the importers."""

from collections.abc import Iterator

from holdfast.features.importers.capture import CaptureResult
from holdfast.features.importers.model import Problem
from holdfast.features.importers.operations import MineResult, RecoverResult
from holdfast.kernel.terminal import escape, pluralize

_OUTCOME_LABELS = {
    "imported": "stored",
    "updated": "updated",
    "unchanged": "already imported",
    "joined": "already captured",
    "left": "archived or edited here, not changed",
}


def render_mining(answer: MineResult) -> Iterator[str]:
    """Print what was imported, what was skipped, and why."""
    would = "Would be " if answer.dry_run else ""
    outcomes = [f"{number} {what}" for name, what in _OUTCOME_LABELS.items() if (number := getattr(answer, name))]
    yield f"{answer.format} into {answer.namespace}. {would}{', '.join(outcomes) or 'nothing new'}."
    counts = [
        pluralize(answer.total_conversations, "conversation") if answer.total_conversations else "",
        f"{answer.skipped} of them too short" if answer.skipped else "",
        pluralize(answer.links, "link") if answer.links else "",
    ]
    if any(counts):
        yield f"{', '.join(filter(None, counts))}."
    if answer.kinds:
        yield "By kind: " + ", ".join(f"{number} {kind}" for kind, number in answer.kinds.items()) + "."
    if answer.left_out:
        yield "Skipped: " + ", ".join(f"{number} {sort}" for sort, number in answer.left_out.items()) + "."
    if answer.passed_over:
        yield f"Skipped {pluralize(answer.passed_over, 'file')} of an unknown or another format."
    for sample in answer.samples if answer.dry_run else ():
        speaker = f"{sample.speaker}: " if sample.speaker else ""
        yield f"  {escape(sample.title)}\n    {escape(f'{speaker}{sample.content}'[:120].splitlines()[0])}"
    yield from render_problems(answer.problems, answer.rejected + answer.noted)


def render_problems(problems: list[Problem], total: int) -> Iterator[str]:
    """Print the problems that an answer lists, then how many of the total it does not list."""
    for problem in problems:
        yield f"{'Rejected' if problem.rejected else 'Note'}: {escape(problem.where)}: {escape(problem.what)}"
    unlisted = total - len(problems)
    if unlisted:
        yield f"And {unlisted} more."


def render_recovery(answer: RecoverResult) -> Iterator[str]:
    yield f"From {escape(', '.join(answer.transcripts))}:"
    yield from render_mining(answer)


def render_capture(answer: CaptureResult) -> Iterator[str]:
    yield f"{answer.outcome} {answer.memory_id or ''}".rstrip()
    yield from map(escape, answer.notes)
