"""Terminal output of the memory operations."""

from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.kernel.terminal import escape, pluralize, render_table, shorten, style


def render_memory(answer: Any) -> Iterator[str]:
    """Print one memory in full, with its links and warnings."""
    yield style(escape(answer.title), bold=True)
    unusual = [word for word in (answer.scope, answer.state) if word not in ("collective", "live")]
    about = (
        answer.id,
        escape(answer.namespace),
        answer.tier,
        f"priority {answer.priority}",
        f"v{answer.version}",
        *unusual,
    )
    yield style("  ".join(about), dim=True)
    by = f"by {escape(answer.agent_id)} at {answer.created_at[:19].replace('T', ' ')}"
    end = f", until {answer.expires_at[:19].replace('T', ' ')}" if isinstance(answer.expires_at, str) else ""
    yield style(by + end, dim=True)
    if answer.tags:
        yield style("tags: " + ", ".join(escape(tag) for tag in answer.tags), fg="cyan")
    if mark := getattr(answer, "stale", None):
        yield format_stale_mark(mark)
    yield ""
    yield escape(answer.content)
    links = getattr(answer, "links", [])
    for link in links:
        yield style(f"  {link.source_id} -{link.relation}-> {link.target_id}", dim=True)
    yield from _render_warnings(answer)
    if outcome := getattr(answer, "outcome", None):
        yield style(f"({outcome})", fg="green")


def _render_warnings(answer: Any) -> Iterator[str]:
    """Print detected prompt injections and secrets, the restatement count and similar memories."""
    for name, what in (("untrusted", "untrusted"), ("secrets", "contains secrets"), ("redacted", "redacted")):
        if found := getattr(answer, name, None):
            yield style(f"{what}: {', '.join(found)}", fg="yellow")
    if again := getattr(answer, "restated", None):
        yield style(f"stored again {pluralize(again, 'time')}", dim=True)
    for one in getattr(answer, "similar", None) or ():
        yield style(f"  {one.suggestion:<11} {one.id}  {shorten(one.title, 60)}", dim=True)


def format_stale_mark(mark: Any) -> str:
    """Format why a memory is stale, in one line."""
    source = f" ({mark.invalidated_id})" if isinstance(mark.invalidated_id, str) else ""
    return style(f"stale: its source{source} is {mark.cause} since {mark.since[:10]}", fg="yellow")


def render_memories(answer: Any) -> Iterator[str]:
    yield from _render_memory_table(answer.memories)


def render_search(answer: Any) -> Iterator[str]:
    yield from _render_memory_table(answer.results, "No memory contains all of these words.")


def render_archive(answer: Any) -> Iterator[str]:
    yield from _render_memory_table(answer.archived, "The archive is empty.")


def _render_memory_table(found: list[Any], nothing: str = "No memories.") -> Iterator[str]:
    if not found:
        yield nothing
        return
    yield from render_table(_build_rows(found), ("ID", "TIER", "PRI", "NAMESPACE", "TITLE"))


def _build_rows(found: Iterable[Any]) -> Iterator[tuple[str, ...]]:
    for one in found:
        yield (one.id, one.tier, str(one.priority), shorten(one.namespace, 30), shorten(one.title, 60))


def render_deletion(answer: Any) -> Iterator[str]:
    yield f"Deleted {answer.id}. See `holdfast history {answer.id}`; restore it with `holdfast undo CHANGE`."


def render_batch(answer: Any) -> Iterator[str]:
    """Print the outcome of each item of a batch."""
    yield from map(format_outcome, answer.outcomes)


def format_outcome(one: Any) -> str:
    """Format the outcome of one item of a batch: its id, or its number if it has none, and its error."""
    id, error = getattr(one, "id", ""), getattr(one, "error", "")
    about = id if isinstance(id, str) else f"item {one.index + 1}"
    return f"{one.outcome:<9} {escape(about)}" + (f"  {escape(error)}" if isinstance(error, str) else "")
