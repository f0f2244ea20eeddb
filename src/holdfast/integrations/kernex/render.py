"""Terminal output of the kernex import."""

from collections.abc import Iterator

from holdfast.features.importers.render import render_problems
from holdfast.integrations.kernex.operations import KernexImportResult
from holdfast.kernel.terminal import escape


def render_kernex_import(answer: KernexImportResult) -> Iterator[str]:
    """Print the counts of each table, and why rows were left out or rejected."""
    yield f"{answer.stored} {'would be stored' if answer.dry_run else 'stored'} in {answer.namespace}."
    for one in answer.tables:
        counts = {"stored": one.stored, "already stored": one.unchanged, "unchanged": one.left}
        counts |= {"left out": one.left_out, "rejected": one.rejected}
        summary = ", ".join(f"{number} {what}" for what, number in counts.items() if number)
        yield f"  {escape(one.table)}: {summary or 'no rows'}"
        yield from (f"    {number}: {escape(why)}" for why, number in one.reasons.items())
    yield from render_problems(answer.problems, answer.rejected + answer.noted)
