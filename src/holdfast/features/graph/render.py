"""Terminal output of the graph operations."""

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.kernel.terminal import escape, style


def render_traversal(answer: Any) -> Iterator[str]:
    """Print the linked memories, indented by their distance."""
    if not answer.memories:
        yield "No links lead from it."
    for one in answer.memories:
        yield f"{'  ' * one.depth}-{one.relation}-> {escape(one.title)}  " + style(one.target_id, dim=True)
    if answer.truncated:
        yield style("There are more: raise --limit.", fg="yellow")


def render_paths(answer: Any) -> Iterator[str]:
    if not answer.paths:
        yield "No path connects them."
    for path in answer.paths:
        yield " - ".join(path)


def render_lineage(answer: Any) -> Iterator[str]:
    """Print the ancestors or descendants of a memory with the number of steps to each."""
    if not answer.nodes:
        yield "Nothing: it was derived from no other." if answer.direction == "ancestors" else "Nothing came of it."
    for one in answer.nodes:
        gone = "" if one.state == "live" else style(f"  {one.state}", fg="yellow")
        yield f"{one.depth:>3}  {one.id}  {one.relation:<12}  {escape(one.title or '-')}{gone}"
    if answer.truncated:
        yield "There is more: ask for fewer steps with --max-depth."


def render_graph(answer: Any) -> Iterator[str]:
    """Print the drawing, the JSON, or one line for each link."""
    if answer.text:
        yield from answer.text.splitlines()
        return
    if answer.format == "json":
        yield msgspec.json.encode(answer).decode()
        return
    titles = {node.id: escape(node.title) for node in answer.nodes}
    if not answer.links:
        yield "No links hold here."
    for link in answer.links:
        yield f"{titles[link.source_id]} -{link.relation}-> {titles[link.target_id]}"
    if answer.truncated:
        yield style("There is more than is shown: raise --limit, or ask for less.", fg="yellow")
