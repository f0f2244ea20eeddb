"""Terminal output of the skill operations."""

import sys
from collections.abc import Iterator
from typing import Any

from holdfast.features.skills.files import decode_content
from holdfast.kernel.terminal import escape, pluralize, render_table, shorten, style


def render_skill_registration(answer: Any) -> Iterator[str]:
    over = f", replaces {answer.superseded_id}" if isinstance(answer.superseded_id, str) else ""
    yield f"{escape(answer.namespace)}/{escape(answer.name)}: {answer.outcome}{over}."
    yield style(f"{answer.id}  {pluralize(answer.files, 'file')}  sha256 {answer.digest}", dim=True)


def render_skills(answer: Any) -> Iterator[str]:
    if not answer.skills:
        yield "No skills." if not answer.total else f"None of {answer.total} skills matches."
        return
    rows = (
        (
            one.id[:12],
            shorten(f"{one.namespace}/{one.name}", 40),
            shorten(f"(stale) {one.description}" if one.stale else one.description, 80),
        )
        for one in answer.skills
    )
    yield from render_table(rows, ("ID", "SKILL", "DESCRIPTION"))


def render_skill(answer: Any) -> Iterator[str]:
    """Print a skill in full, with its warnings and resources."""
    yield style(f"{escape(answer.namespace)}/{escape(answer.name)}", bold=True)
    yield escape(answer.description)
    yield style(f"{answer.id}  by {escape(answer.agent_id)} at {answer.created_at[:19].replace('T', ' ')}", dim=True)
    if isinstance(answer.superseded_by, str):
        yield style(f"not current: replaced by {answer.superseded_by}", fg="yellow")
    if answer.stale:
        yield style(f"stale: its reflection is no longer valid ({answer.stale.reason})", fg="yellow")
    if not answer.signed:
        yield style("not signed by a key of this store", fg="yellow")
    for file in answer.resources:
        yield style(f"  {escape(file.path)}  {file.kind}, {file.size} bytes", fg="cyan")
    yield ""
    yield escape(answer.body)


def render_skill_resource(answer: Any) -> Iterator[str | bytes]:
    """Print a file: byte for byte to a pipe, escaped on a terminal."""
    yield escape(answer.content) if sys.stdout.isatty() else decode_content(answer.content, answer.encoding)


def render_skill_export(answer: Any) -> Iterator[str]:
    if isinstance(answer.target_folder, str):
        files = pluralize(len(answer.files), "file")
        yield f"Exported {files} of {escape(answer.name)} to {escape(answer.target_folder)}."
        return
    for file in answer.files:
        yield style(f"{escape(file.path)}  {file.size} bytes", bold=True)
        yield escape(file.content)


def render_skill_promotion(answer: Any) -> Iterator[str]:
    omitted = f", {answer.sources_left_out} left out" if answer.sources_left_out else ""
    outcome = f"{answer.outcome}, with {pluralize(answer.sources_attached, 'source')}{omitted}"
    yield f"{escape(answer.namespace)}/{escape(answer.name)}: {outcome}."
    yield style(f"{answer.skill_id}  from {answer.derived_from_reflection_id}", dim=True)


def render_skill_rollback(answer: Any) -> Iterator[str]:
    yield f"Rolled back {escape(answer.namespace)}/{escape(answer.name)} from {answer.before} to {answer.id}."


def render_skill_deletion(answer: Any) -> Iterator[str]:
    name = f"{escape(answer.namespace)}/{escape(answer.name)}"
    yield f"Purged {name}." if answer.purged else f"Deleted {name}. Register it again, or undo, to restore it."


def render_skill_history(answer: Any) -> Iterator[str]:
    yield style(f"{escape(answer.namespace)}/{escape(answer.name)}", bold=True)
    for one in answer.versions:
        mark = style("*", fg="green") if one.current else " "
        yield f"{mark} {one.id}  {one.created_at[:19].replace('T', ' ')}  {shorten(one.description, 60)}"
    for change in answer.changes:
        at = change.at[:19].replace("T", " ")
        line = f"  {change.change:>6}  {at}  {change.op}  {change.id}  {escape(change.actor)}"
        yield style(line, dim=True)


def render_skill_composition(answer: Any) -> Iterator[str]:
    """Print a skill with the reflections that fit the budget."""
    yield style(f"{escape(answer.skill_namespace)}/{escape(answer.skill_name)}", bold=True)
    if isinstance(answer.superseded_by, str):
        yield style(f"not current: replaced by {answer.superseded_by}", fg="yellow")
    if answer.stale:
        yield style(f"stale: its reflection is no longer valid ({answer.stale.reason})", fg="yellow")
    yield escape(answer.body)
    for one in answer.reflections:
        yield ""
        yield style(escape(one.title), bold=True) + style(f"  {one.score:.2f}  {one.id}", dim=True)
        yield escape(one.content)
    for place in answer.compositional_namespaces:
        if isinstance(place.note, str):
            yield style(f"{escape(place.namespace)}: {place.note}", fg="yellow")
    for one in answer.dropped:
        yield style(f"{one.count} left out: {one.reason}", dim=True)
    yield style(f"{answer.tokens_used} of {answer.budget_tokens} tokens, body {answer.body_tokens}", dim=True)
