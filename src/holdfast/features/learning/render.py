"""Terminal output of lessons, outcomes, observations and limitations."""

from collections.abc import Iterator
from typing import Any

from holdfast.kernel.terminal import escape, render_table, shorten, style

SIGNS = {1: "+", 0: "~", -1: "-"}


def render_added_lesson(answer: Any) -> Iterator[str]:
    yield style("Added:" if answer.created else "Already known; confidence raised:", fg="green")
    yield from _render_lesson_table([answer.lesson])
    if answer.archived:
        yield f"Archived weaker lessons: {', '.join(answer.archived)}"


def render_lessons(answer: Any) -> Iterator[str]:
    if not answer.lessons:
        yield "No lessons."
        return
    yield from _render_lesson_table(answer.lessons)


def _render_lesson_table(lessons: list[Any]) -> Iterator[str]:
    rows = [
        (f"{one.confidence:.2f}", f"+{one.positive} -{one.negative}", shorten(one.domain, 24), shorten(one.rule, 90))
        for one in lessons
    ]
    yield from render_table(rows, ("CONFIDENCE", "EVIDENCE", "DOMAIN", "RULE"))


def render_lesson_suggestions(answer: Any) -> Iterator[str]:
    if not answer.proposals:
        yield "No suggestions."
    for one in answer.proposals:
        yield f"{SIGNS[one.score]} {shorten(one.domain, 24)}: {shorten(one.what, 120)} ({len(one.outcomes)} outcomes)"


def render_recorded_outcome(answer: Any) -> Iterator[str]:
    yield f"Recorded outcome {answer.id}."
    if hasattr(answer.lesson, "rule"):
        yield from _render_lesson_table([answer.lesson])
    if hasattr(answer.proposes, "what"):
        yield style(
            f"{len(answer.proposes.outcomes)} outcomes say this. Run `learn lesson add` to make it a lesson.",
            fg="yellow",
        )


def render_outcomes(answer: Any) -> Iterator[str]:
    if not answer.outcomes:
        yield "No outcomes."
        return
    rows = [
        (one.at[:16] + "Z", SIGNS[one.score], shorten(one.domain, 24), shorten(one.what, 90)) for one in answer.outcomes
    ]
    yield from render_table(rows, ("AT", "", "DOMAIN", "WHAT"))


def render_observation(answer: Any) -> Iterator[str]:
    yield style(f"{escape(answer.title)}  ({answer.type})", bold=True)
    for name in ("what", "why", "where", "learned"):
        if isinstance(part := getattr(answer, name), str):
            yield f"  {name}: {shorten(part, 200)}"
    yield f"  {answer.id}"


def render_observations(answer: Any) -> Iterator[str]:
    if not answer.observations:
        yield "No observations found."
        return
    rows = [(one.id, one.type, one.created_at[:10], shorten(one.title, 80)) for one in answer.observations]
    yield from render_table(rows, ("ID", "TYPE", "CREATED", "TITLE"))


def render_added_limitation(answer: Any) -> Iterator[str]:
    yield "Added:" if answer.created else "Already known; evidence added:"
    yield from render_limitation(answer.limitation)


def render_limitation(answer: Any) -> Iterator[str]:
    yield style(f"{escape(answer.title)}  ({answer.status}, seen {answer.seen} times)", bold=True)
    yield f"  {shorten(answer.description, 200)}"
    for name in ("plan", "how"):
        if isinstance(part := getattr(answer, name), str):
            yield f"  {name}: {shorten(part, 200)}"


def render_limitations(answer: Any) -> Iterator[str]:
    if not answer.limitations:
        yield "No limitations."
        return
    rows = [(one.id, one.status, str(one.seen), shorten(one.title, 80)) for one in answer.limitations]
    yield from render_table(rows, ("ID", "STATUS", "SEEN", "TITLE"))
