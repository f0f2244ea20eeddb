"""Skills for a person."""

import sys
from collections.abc import Iterator
from typing import Any

import click

from .human import many, one_line, safe, table


def registered(answer: Any) -> Iterator[str]:
    over = f", over {answer.superseded_id}" if isinstance(answer.superseded_id, str) else ""
    yield f"{safe(answer.namespace)}/{safe(answer.name)}: {answer.outcome}{over}."
    yield click.style(f"{answer.id}  {many(answer.files, 'file')}  sha256 {answer.digest}", dim=True)


def listed(answer: Any) -> Iterator[str]:
    if not answer.skills:
        yield "No skills." if not answer.total else f"None of {answer.total} skills is about this."
        return
    rows = (
        (
            one.id[:12],
            one_line(f"{one.namespace}/{one.name}", 40),
            one_line(f"(stale) {one.description}" if one.stale else one.description, 80),
        )
        for one in answer.skills
    )
    yield from table(rows, ("ID", "SKILL", "DESCRIPTION"))


def whole(answer: Any) -> Iterator[str]:
    """A skill, whole."""
    yield click.style(f"{safe(answer.namespace)}/{safe(answer.name)}", bold=True)
    yield safe(answer.description)
    yield click.style(
        f"{answer.id}  by {safe(answer.agent_id)} at {answer.created_at[:19].replace('T', ' ')}", dim=True
    )
    if isinstance(answer.superseded_by, str):
        yield click.style(f"not in use: {answer.superseded_by} is", fg="yellow")
    if answer.stale:
        yield click.style(f"stale: the reflection it was made from does not hold ({answer.stale.reason})", fg="yellow")
    if not answer.signed:
        yield click.style("not signed by a key of this store", fg="yellow")
    for file in answer.resources:
        yield click.style(f"  {safe(file.path)}  {file.kind}, {file.size} bytes", fg="cyan")
    yield ""
    yield safe(answer.body)


def resource(answer: Any) -> Iterator[str | bytes]:
    """A file as it is, byte by byte; on a terminal without what could move the cursor."""
    from ..domain.envelope import decoded

    yield safe(answer.content) if sys.stdout.isatty() else decoded(answer.content, answer.encoding)


def exported(answer: Any) -> Iterator[str]:
    if isinstance(answer.target_folder, str):
        are = "is" if len(answer.files) == 1 else "are"
        yield f"{many(len(answer.files), 'file')} of {safe(answer.name)} {are} in {safe(answer.target_folder)}."
        return
    for file in answer.files:
        yield click.style(f"{safe(file.path)}  {file.size} bytes", bold=True)
        yield safe(file.content)


def promoted(answer: Any) -> Iterator[str]:
    left = f", {answer.sources_left_out} left out" if answer.sources_left_out else ""
    said = f"{answer.outcome}, with {many(answer.sources_attached, 'source')}{left}"
    yield f"{safe(answer.namespace)}/{safe(answer.name)}: {said}."
    yield click.style(f"{answer.skill_id}  from {answer.derived_from_reflection_id}", dim=True)


def turned(answer: Any) -> Iterator[str]:
    yield f"{safe(answer.namespace)}/{safe(answer.name)} is {answer.id} again; it was {answer.before}."


def deleted(answer: Any) -> Iterator[str]:
    how = "purged: what it said is gone" if answer.purged else "deleted. Register it again, or undo, to have it back"
    yield f"{safe(answer.namespace)}/{safe(answer.name)} is {how}."


def past(answer: Any) -> Iterator[str]:
    yield click.style(f"{safe(answer.namespace)}/{safe(answer.name)}", bold=True)
    for one in answer.versions:
        mark = click.style("*", fg="green") if one.current else " "
        yield f"{mark} {one.id}  {one.created_at[:19].replace('T', ' ')}  {one_line(one.description, 60)}"
    for change in answer.changes:
        line = (
            f"  {change.change:>6}  {change.at[:19].replace('T', ' ')}  {change.op}  {change.id}  {safe(change.actor)}"
        )
        yield click.style(line, dim=True)


def composed(answer: Any) -> Iterator[str]:
    """A skill with its reflections."""
    yield click.style(f"{safe(answer.skill_namespace)}/{safe(answer.skill_name)}", bold=True)
    if isinstance(answer.superseded_by, str):
        yield click.style(f"not in use: {answer.superseded_by} is", fg="yellow")
    if answer.stale:
        yield click.style(f"stale: the reflection it was made from does not hold ({answer.stale.reason})", fg="yellow")
    yield safe(answer.body)
    for one in answer.reflections:
        yield ""
        yield click.style(safe(one.title), bold=True) + click.style(f"  {one.score:.2f}  {one.id}", dim=True)
        yield safe(one.content)
    for place in answer.compositional_namespaces:
        if isinstance(place.note, str):
            yield click.style(f"{safe(place.namespace)}: {place.note}", fg="yellow")
    for one in answer.dropped:
        yield click.style(f"{one.count} left out: {one.reason}", dim=True)
    yield click.style(f"{answer.tokens_used} of {answer.budget_tokens} tokens, body {answer.body_tokens}", dim=True)
