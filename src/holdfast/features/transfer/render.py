"""Terminal output of export and import."""

from collections.abc import Iterator
from typing import Any

from holdfast.kernel.terminal import escape, print_error, style


def render_export(answer: Any) -> Iterator[str]:
    """Print the size of the export; on standard error if the export itself goes to standard output."""
    text = f"{sum(answer.arrays.values()):,} rows in {answer.bytes:,} bytes"
    if answer.file == "-":
        print_error(text)
    else:
        yield text


def render_import(answer: Any) -> Iterator[str]:
    """Print the counts of each record type and every rejected row."""
    yield _format_counts("memories", answer) + (" (dry run: nothing was changed)" if answer.dry_run else "")
    for name, counts in answer.arrays.items():
        if name not in ("memories", "archived") and any((counts.imported, counts.merged, counts.older)):
            yield _format_counts(name, counts)
    if answer.kept:
        yield "Unknown fields, stored unchanged: " + ", ".join(escape(name) for name in answer.kept)
    for one in answer.errors:
        yield style(f"rejected {escape(one.array)}[{one.index}]: {escape(one.error)} [{one.code}]", fg="red")


def _format_counts(name: str, counts: Any) -> str:
    later = f", {counts.older} older (skipped)" if counts.older else ""
    return f"{name}: {counts.imported} new, {counts.merged} merged, {counts.unchanged} unchanged{later}"
