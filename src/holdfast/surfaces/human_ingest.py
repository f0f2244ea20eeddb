"""What became of a document, for a person."""

from collections.abc import Iterator
from typing import Any

import click

from .human import many, one_line, safe, table

SHOWN = 40
"""Segments that are listed one by one; of a longer document only what needs a look."""
WORTH_A_LOOK = ("near-duplicate", "update", "conflict", "rejected")


def ingested(answer: Any) -> Iterator[str]:
    """The counts, then the segments: all of a short document, else those that need a look."""
    counts = ", ".join(f"{number} {name}" for name, number in answer.decisions.items() if number)
    plan = " (planned: nothing was kept)" if answer.outcome == "planned" else ""
    yield click.style(f"{safe(answer.source_uri)}: {many(answer.total, 'segment')}: {counts}{plan}", bold=True)
    by = f"{safe(answer.namespace)}  pipeline {safe(answer.pipeline)} {answer.pipeline_version}"
    yield click.style(f"{by}  document {answer.document_id}" if answer.document_id else by, dim=True)
    for note in answer.notes:
        yield click.style(safe(note), fg="yellow")
    for stage in answer.stages:
        if reason := stage.reason or None:
            yield click.style(f"{safe(stage.name)}: no model helped: {safe(reason)}", fg="yellow")
    yield from _segments(answer)
    for title, rows in (("Not in the document any more, but kept", answer.vanished), ("Gone since", answer.gone)):
        if rows:
            yield f"{title}:"
            yield from (f"  {row.memory_id}  {one_line(row.title or '', 80)}" for row in rows)


def _segments(answer: Any) -> Iterator[str]:
    shown = [one for one in answer.segments if answer.total <= SHOWN or one.decision in WORTH_A_LOOK][: 5 * SHOWN]
    if shown:
        yield from table(map(_row, shown), ("LINE", "DECISION", "MEMORY", "WHAT"))
    if len(shown) < answer.total:
        left = f"{answer.total - len(shown)} more" if shown else "None of them needs a look"
        yield f"{left}: --json lists all."


def _row(one: Any) -> tuple[str, ...]:
    what = one.title if one.decision == "new" and one.title else one.reason
    what = f"{what} ({one.other_id})" if one.other_id and one.other_id != one.memory_id else what
    return (str(one.line), one.decision, one.memory_id or "-", one_line(what, 90))


def multistep(answer: Any) -> Iterator[str]:
    for stage in answer.stages:
        yield f"{safe(stage.name)}: {safe(stage.summary)}"
    yield from answer.ingested_memory_ids


def pipelines(answer: Any) -> Iterator[str]:
    rows = [
        (one_line(one.name, 40), one.version, "yes" if one.asks_model else "no", one_line(", ".join(one.stages), 90))
        for one in answer.pipelines
    ]
    yield from table(rows, ("NAME", "VERSION", "MODEL", "STAGES"))
