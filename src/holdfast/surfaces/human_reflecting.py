"""Reflections and proposals of what to reflect on, for a person."""

import sys
from collections.abc import Iterator
from typing import Any

import click
from msgspec import UNSET

from .human import many, one_line, safe


def exported(answer: Any) -> Iterator[str | bytes]:
    """The file itself; on a terminal without what could move the cursor."""
    yield safe(answer.content) if sys.stdout.isatty() else answer.content.encode()


def suggestions(answer: Any) -> Iterator[str]:
    """Each group with its sources, what could be concluded, and what takes it up or ends it."""
    if not answer.suggestions:
        yield "Nothing is proposed that was not proposed before."
    for one in answer.suggestions:
        yield click.style(f"{one.offer_id}  {safe(one.namespace)}", bold=True) + f"  {safe(one.reason)}"
        for source in one.sources:
            yield f"  {source.id}  {one_line(source.title)}"
        if one.draft is not UNSET:
            yield from _draft(one.draft)
    if answer.suggestions:
        told = f"{many(answer.count, 'proposal')}: take one up with reflect, or end it with reflect-dismiss."
        yield click.style(told, fg="green")


def _draft(draft: Any) -> Iterator[str]:
    by = "in their own sentences" if draft.method == "heuristic" else f"by {safe(draft.model)}"
    why = "" if draft.reason is UNSET else f"; no model helped: {one_line(draft.reason, 160)}"
    yield click.style(f"  Draft, {by}{why}", dim=True)
    yield f"  {one_line(draft.title)}"
    for line in safe(draft.content).splitlines():
        yield f"    {line}"
