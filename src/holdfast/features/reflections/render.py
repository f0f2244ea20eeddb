"""Terminal output of reflections, suggestions and invalidations."""

import sys
from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from holdfast.features.memories.render import format_outcome
from holdfast.kernel.terminal import escape, pluralize, shorten, style


def render_reflection_text(answer: Any) -> Iterator[str | bytes]:
    """Print the file: byte for byte to a pipe, escaped on a terminal."""
    yield escape(answer.content) if sys.stdout.isatty() else answer.content.encode()


def render_suggestions(answer: Any) -> Iterator[str]:
    """Print each suggestion with its sources and draft, then how to accept or dismiss one."""
    if not answer.suggestions:
        yield "No new proposals."
    for one in answer.suggestions:
        yield style(f"{one.offer_id}  {escape(one.namespace)}", bold=True) + f"  {escape(one.reason)}"
        for source in one.sources:
            yield f"  {source.id}  {shorten(source.title)}"
        if one.draft is not UNSET:
            yield from _render_draft(one.draft)
    if answer.suggestions:
        hint = f"{pluralize(answer.count, 'proposal')}: accept one with reflect, or dismiss it with reflect-dismiss."
        yield style(hint, fg="green")


def _render_draft(draft: Any) -> Iterator[str]:
    by = "from the sources' sentences" if draft.method == "heuristic" else f"by {escape(draft.model)}"
    why = "" if draft.reason is UNSET else f"; model not used: {shorten(draft.reason, 160)}"
    yield style(f"  Draft, {by}{why}", dim=True)
    yield f"  {shorten(draft.title)}"
    for line in escape(draft.content).splitlines():
        yield f"    {line}"


def render_reflection(answer: Any) -> Iterator[str]:
    """Print a new reflection with its sources, or that it needs approval."""
    if answer.pending_id:
        yield f"Depth {answer.proposed_depth} requires approval: pending as {answer.pending_id}."
        return
    yield f"{answer.id}  {escape(answer.namespace)}  depth {answer.reflection_depth}"
    yield from (style(f"  reflects on {id}", dim=True) for id in answer.reflects_on)


def render_invalidations(answer: Any) -> Iterator[str]:
    """Print each stale memory, its cause and its status."""
    if not answer.invalidations:
        yield "No stale memories."
    for one in answer.invalidations:
        yield style(f"{one.status:<12} {escape(one.title)}", bold=one.status == "open")
        source = f" {one.invalidated_id}" if isinstance(one.invalidated_id, str) else ""
        replacement = f" by {one.invalidating_id}" if isinstance(one.invalidating_id, str) else ""
        yield f"      {one.dependent_id}: source{source} {one.cause}{replacement}  (distance {one.hop})"
        reason = f": {escape(one.reason)}" if isinstance(one.reason, str) else ""
        by = f"  {escape(one.resolver)}{reason}" if isinstance(one.resolver, str) else ""
        yield style(f"      {one.id}  since {one.created_at[:19].replace('T', ' ')}{by}", dim=True)


def render_dependents(answer: Any) -> Iterator[str]:
    if not answer.dependents:
        yield "No dependents."
    for one in answer.dependents:
        mark = style("  stale", fg="yellow") if one.stale else ""
        yield f"{one.hop:>3}  {one.id}  {escape(one.title)}{mark}"


def render_resolutions(answer: Any) -> Iterator[str]:
    """Print the outcome for each invalidation, and the sources to reflect on again."""
    for one in answer.outcomes:
        yield format_outcome(one)
        if one.reflect_with:
            yield style(f"          To reflect again: reflect {' '.join(one.reflect_with)}", dim=True)
