"""Terminal output of lessons, outcomes, observations and limitations."""

from collections.abc import Iterator
from typing import Any

from holdfast.kernel.terminal import escape, render_table, shorten, style

SIGNS = {1: "+", 0: "~", -1: "-"}


def render_added_lesson(answer: Any) -> Iterator[str]:
    yield style("Learned:" if answer.created else "Known already, and surer now:", fg="green")
    yield from _render_lesson_table([answer.lesson])
    if answer.archived:
        yield f"Archived as weaker: {', '.join(answer.archived)}"


def render_lessons(answer: Any) -> Iterator[str]:
    if not answer.lessons:
        yield "Nothing was learned yet."
        return
    yield from _render_lesson_table(answer.lessons)


def _render_lesson_table(lessons: list[Any]) -> Iterator[str]:
    rows = [
        (f"{one.confidence:.2f}", f"+{one.positive} -{one.negative}", shorten(one.domain, 24), shorten(one.rule, 90))
        for one in lessons
    ]
    yield from render_table(rows, ("SURE", "EVIDENCE", "DOMAIN", "RULE"))


def render_lesson_suggestions(answer: Any) -> Iterator[str]:
    if not answer.proposals:
        yield "Nothing was said often enough."
    for one in answer.proposals:
        yield f"{SIGNS[one.score]} {shorten(one.domain, 24)}: {shorten(one.what, 120)} ({len(one.outcomes)} outcomes)"


def render_recorded_outcome(answer: Any) -> Iterator[str]:
    yield f"Noted as {answer.id}."
    if hasattr(answer.lesson, "rule"):
        yield from _render_lesson_table([answer.lesson])
    if hasattr(answer.proposes, "what"):
        yield style(f"Said {len(answer.proposes.outcomes)} times: `lesson add` makes it a lesson.", fg="yellow")


def render_outcomes(answer: Any) -> Iterator[str]:
    if not answer.outcomes:
        yield "Nothing was noted yet."
        return
    rows = [
        (one.at[:16] + "Z", SIGNS[one.score], shorten(one.domain, 24), shorten(one.what, 90)) for one in answer.outcomes
    ]
    yield from render_table(rows, ("AT", "", "DOMAIN", "WHAT"))


def render_observation(answer: Any) -> Iterator[str]:
    yield style(f"{escape(answer.title)}  ({answer.type})", bold=True)
    for name in ("what", "why", "where", "learned"):
        if isinstance(said := getattr(answer, name), str):
            yield f"  {name}: {shorten(said, 200)}"
    yield f"  {answer.id}"


def render_observations(answer: Any) -> Iterator[str]:
    if not answer.observations:
        yield "Nothing was found."
        return
    rows = [(one.id, one.type, one.created_at[:10], shorten(one.title, 80)) for one in answer.observations]
    yield from render_table(rows, ("ID", "TYPE", "SEEN", "TITLE"))


def render_added_limitation(answer: Any) -> Iterator[str]:
    yield "Noted:" if answer.created else "Known already, and met again:"
    yield from render_limitation(answer.limitation)


def render_limitation(answer: Any) -> Iterator[str]:
    yield style(f"{escape(answer.title)}  ({answer.status}, met {answer.seen} times)", bold=True)
    yield f"  {shorten(answer.description, 200)}"
    for name in ("plan", "how"):
        if isinstance(said := getattr(answer, name), str):
            yield f"  {name}: {shorten(said, 200)}"


def render_limitations(answer: Any) -> Iterator[str]:
    if not answer.limitations:
        yield "There are none."
        return
    rows = [(one.id, one.status, str(one.seen), shorten(one.title, 80)) for one in answer.limitations]
    yield from render_table(rows, ("ID", "STATUS", "MET", "TITLE"))
