"""Terminal output of history, events, undo and verify."""

from collections.abc import Iterator
from typing import Any

from holdfast.kernel.terminal import escape, pluralize, render_table, shorten, style


def render_history(answer: Any) -> Iterator[str]:
    yield from render_table(
        (
            (str(c.seq), c.at[:19].replace("T", " "), c.op, str(c.version or ""), escape(c.actor), _format_record(c))
            for c in answer.changes
        ),
        ("CHANGE", "AT", "OPERATION", "VERSION", "AGENT", "RESULT"),
    )
    if isinstance(answer.folded_before, str):
        yield f"History before {answer.folded_before} was compacted."


def render_events(answer: Any) -> Iterator[str]:
    for c in answer.events:
        at = c.at[:19].replace("T", " ")
        yield f"{c.seq:>6}  {at}  {c.op:<10} {c.kind:<8} {escape(c.actor)}  {_format_record(c)}"


def _format_record(change: Any) -> str:
    """Summarize the record after a change, in one line."""
    if not isinstance(change.memory, dict):
        return "(not shown)"
    record = change.memory
    if change.kind == "memory":
        return shorten(f"[{record['state']}] {record['title']}: {record['content']}", 70)
    return shorten(record.get("relation") or record.get("name") or record.get("agent_type") or record["id"], 70)


def render_undo(answer: Any) -> Iterator[str]:
    yield (
        f"Undid change {answer.undone} (recorded as change {answer.change}). "
        f"Run `holdfast undo {answer.change}` to redo it."
    )


def render_verification(answer: Any) -> Iterator[str]:
    if answer.intact:
        yield style(f"Intact: {pluralize(answer.entries, 'change')}, head {answer.head}", fg="green")
    else:
        yield style("NOT INTACT", fg="red", bold=True)
    for finding in answer.findings:
        yield f"  change {finding.seq}: {escape(finding.what)}"
