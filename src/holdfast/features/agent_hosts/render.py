"""Terminal output of the project operations."""

from collections.abc import Iterator
from typing import Any

from holdfast.kernel.terminal import escape, render_table, shorten, style


def render_project(answer: Any) -> Iterator[str]:
    """Print the namespace on the first line, where scripts read it, then how it was found."""
    yield style(escape(answer.namespace), bold=True)
    for reason in answer.why:
        yield f"  {shorten(reason, 400)}"
    for name in answer.names[1:]:
        yield f"  also {escape(name)}"


def render_project_names(answer: Any) -> Iterator[str]:
    yield style(escape(answer.namespace), bold=True)
    for name in answer.names[1:]:
        yield f"  also {escape(name)}"


def render_merged_projects(answer: Any) -> Iterator[str]:
    if not answer.merged:
        yield "No merged projects."
        return
    yield from render_table([(escape(one.alias), escape(one.project)) for one in answer.merged], ("ALIAS", "PROJECT"))
