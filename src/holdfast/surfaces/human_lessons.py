"""Lessons and outcomes for a person."""

from collections.abc import Iterator
from typing import Any

import click

from .human import one_line, table

SIGNS = {1: "+", 0: "~", -1: "-"}


def added(answer: Any) -> Iterator[str]:
    yield click.style("Learned:" if answer.created else "Known already, and surer now:", fg="green")
    yield from listed_ones([answer.lesson])
    if answer.archived:
        yield f"Archived as weaker: {', '.join(answer.archived)}"


def listed(answer: Any) -> Iterator[str]:
    if not answer.lessons:
        yield "Nothing was learned yet."
        return
    yield from listed_ones(answer.lessons)


def listed_ones(lessons: list[Any]) -> Iterator[str]:
    rows = [
        (f"{one.confidence:.2f}", f"+{one.positive} -{one.negative}", one_line(one.domain, 24), one_line(one.rule, 90))
        for one in lessons
    ]
    yield from table(rows, ("SURE", "EVIDENCE", "DOMAIN", "RULE"))


def proposed(answer: Any) -> Iterator[str]:
    if not answer.proposals:
        yield "Nothing was said often enough."
    for one in answer.proposals:
        yield f"{SIGNS[one.score]} {one_line(one.domain, 24)}: {one_line(one.what, 120)} ({len(one.outcomes)} outcomes)"


def recorded(answer: Any) -> Iterator[str]:
    yield f"Noted as {answer.id}."
    if hasattr(answer.lesson, "rule"):
        yield from listed_ones([answer.lesson])
    if hasattr(answer.proposes, "what"):
        yield click.style(f"Said {len(answer.proposes.outcomes)} times: `lesson add` makes it a lesson.", fg="yellow")


def outcomes(answer: Any) -> Iterator[str]:
    if not answer.outcomes:
        yield "Nothing was noted yet."
        return
    rows = [
        (one.at[:16] + "Z", SIGNS[one.score], one_line(one.domain, 24), one_line(one.what, 90))
        for one in answer.outcomes
    ]
    yield from table(rows, ("AT", "", "DOMAIN", "WHAT"))
