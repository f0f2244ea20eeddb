"""Terminal output of document ingestion."""

from collections.abc import Iterator
from typing import Any

from holdfast.kernel.terminal import escape, pluralize, render_table, shorten, style

MAX_LISTED = 40
"""A document of more segments than this lists only those with a notable decision."""
NOTABLE_DECISIONS = ("near-duplicate", "update", "conflict", "rejected")


def render_ingestion(answer: Any) -> Iterator[str]:
    """Print the counts, then all segments of a short document or the notable ones of a long one."""
    counts = ", ".join(f"{number} {name}" for name, number in answer.decisions.items() if number)
    plan = " (dry run: nothing was stored)" if answer.outcome == "planned" else ""
    yield style(f"{escape(answer.source_uri)}: {pluralize(answer.total, 'segment')}: {counts}{plan}", bold=True)
    by = f"{escape(answer.namespace)}  pipeline {escape(answer.pipeline)} {answer.pipeline_version}"
    yield style(f"{by}  document {answer.document_id}" if answer.document_id else by, dim=True)
    for note in answer.notes:
        yield style(escape(note), fg="yellow")
    for stage in answer.stages:
        if reason := stage.reason or None:
            yield style(f"{escape(stage.name)}: no model answer: {escape(reason)}", fg="yellow")
    yield from _render_segments(answer)
    for title, rows in (
        ("No longer in the document (memories kept)", answer.vanished),
        ("Deleted or archived since", answer.gone),
    ):
        if rows:
            yield f"{title}:"
            yield from (f"  {row.memory_id}  {shorten(row.title or '', 80)}" for row in rows)


def _render_segments(answer: Any) -> Iterator[str]:
    notable = [one for one in answer.segments if answer.total <= MAX_LISTED or one.decision in NOTABLE_DECISIONS]
    listed = notable[: 5 * MAX_LISTED]
    if listed:
        yield from render_table(map(_build_row, listed), ("LINE", "DECISION", "MEMORY", "TITLE OR REASON"))
    if len(listed) < answer.total:
        left = f"{answer.total - len(listed)} more" if listed else "Nothing to review"
        yield f"{left}. Use --json to list all segments."


def _build_row(one: Any) -> tuple[str, ...]:
    what = one.title if one.decision == "new" and one.title else one.reason
    what = f"{what} ({one.other_id})" if one.other_id and one.other_id != one.memory_id else what
    return (str(one.line), one.decision, one.memory_id or "-", shorten(what, 90))


def render_multistep(answer: Any) -> Iterator[str]:
    for stage in answer.stages:
        yield f"{escape(stage.name)}: {escape(stage.summary)}"
    yield from answer.ingested_memory_ids


def render_pipelines(answer: Any) -> Iterator[str]:
    rows = [
        (shorten(one.name, 40), one.version, "yes" if one.asks_model else "no", shorten(", ".join(one.stages), 90))
        for one in answer.pipelines
    ]
    yield from render_table(rows, ("NAME", "VERSION", "MODEL", "STAGES"))
