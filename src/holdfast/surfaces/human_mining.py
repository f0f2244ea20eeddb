"""What was taken from elsewhere, for a person to read."""

from collections.abc import Iterator

from ..operations.kernex import KernexImported
from ..operations.mining import Captured, MineAnswer, RecoverAnswer
from .human import safe

_DONE = {
    "imported": "stored",
    "updated": "brought up to date",
    "unchanged": "here already",
    "joined": "captured before",
    "left": "put away or rewritten here, and left so",
}


def mined(answer: MineAnswer) -> Iterator[str]:
    """What was done, what was not, and why."""
    would = "Would be " if answer.dry_run else ""
    told = [f"{number} {what}" for name, what in _DONE.items() if (number := getattr(answer, name))]
    yield f"{answer.format} into {answer.namespace}. {would}{', '.join(told) or 'nothing new'}."
    counted = [
        _counted(answer.total_conversations, "conversation"),
        f"{answer.skipped} of them too short" if answer.skipped else "",
        _counted(answer.links, "link"),
    ]
    if any(counted):
        yield f"{', '.join(filter(None, counted))}."
    if answer.kinds:
        yield "By kind: " + ", ".join(f"{number} {kind}" for kind, number in answer.kinds.items()) + "."
    if answer.left_out:
        yield "Left out: " + ", ".join(f"{number} {sort}" for sort, number in answer.left_out.items()) + "."
    if answer.passed_over:
        yield f"Passed over: {answer.passed_over} files of no format or of another."
    for sample in answer.samples if answer.dry_run else ():
        speaker = f"{sample.speaker}: " if sample.speaker else ""
        yield f"  {safe(sample.title)}\n    {safe(f'{speaker}{sample.content}'[:120].splitlines()[0])}"
    yield from _problems(answer)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}" if number else ""


def _problems(answer: MineAnswer | KernexImported) -> Iterator[str]:
    for problem in answer.problems:
        yield f"{'Rejected' if problem.rejected else 'Note'}: {safe(problem.where)}: {safe(problem.what)}"
    untold = answer.rejected + answer.noted - len(answer.problems)
    if untold:
        yield f"And {untold} more."


def recovered(answer: RecoverAnswer) -> Iterator[str]:
    yield f"From {safe(', '.join(answer.transcripts))}:"
    yield from mined(answer)


def captured(answer: Captured) -> Iterator[str]:
    yield f"{answer.outcome} {answer.memory_id or ''}".rstrip()
    yield from map(safe, answer.notes)


def kernex(answer: KernexImported) -> Iterator[str]:
    """What became of each table, and why rows were not taken."""
    yield f"Into {answer.namespace}. {'Would be ' if answer.dry_run else ''}{answer.stored} stored."
    for one in answer.tables:
        counts = {"stored": one.stored, "here already": one.unchanged, "left": one.left}
        counts |= {"left out": one.left_out, "rejected": one.rejected}
        told = ", ".join(f"{number} {what}" for what, number in counts.items() if number)
        yield f"  {safe(one.table)}: {told or 'no rows'}"
        yield from (f"    {number}: {safe(why)}" for why, number in one.reasons.items())
    yield from _problems(answer)
