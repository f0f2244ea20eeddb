"""Observations and limitations for a person."""

from collections.abc import Iterator
from typing import Any

import click

from .human import one_line, safe, table


def one(answer: Any) -> Iterator[str]:
    yield click.style(f"{safe(answer.title)}  ({answer.type})", bold=True)
    for name in ("what", "why", "where", "learned"):
        if isinstance(said := getattr(answer, name), str):
            yield f"  {name}: {one_line(said, 200)}"
    yield f"  {answer.id}"


def listed(answer: Any) -> Iterator[str]:
    if not answer.observations:
        yield "Nothing was found."
        return
    rows = [(one.id, one.type, one.created_at[:10], one_line(one.title, 80)) for one in answer.observations]
    yield from table(rows, ("ID", "TYPE", "SEEN", "TITLE"))


def lacking(answer: Any) -> Iterator[str]:
    yield "Noted:" if answer.created else "Known already, and met again:"
    yield from one_lacking(answer.limitation)


def one_lacking(answer: Any) -> Iterator[str]:
    yield click.style(f"{safe(answer.title)}  ({answer.status}, met {answer.seen} times)", bold=True)
    yield f"  {one_line(answer.description, 200)}"
    for name in ("plan", "how"):
        if isinstance(said := getattr(answer, name), str):
            yield f"  {name}: {one_line(said, 200)}"


def all_lacking(answer: Any) -> Iterator[str]:
    if not answer.limitations:
        yield "There are none."
        return
    rows = [(one.id, one.status, str(one.seen), one_line(one.title, 80)) for one in answer.limitations]
    yield from table(rows, ("ID", "STATUS", "MET", "TITLE"))
