"""Terminal output of the graph operations."""

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.kernel.terminal import escape, style


def render_traversal(answer: Any) -> Iterator[str]:
    """Print the linked memories, indented by their distance."""
    if not answer.memories:
        yield "No outgoing links."
    for one in answer.memories:
        yield f"{'  ' * one.depth}-{one.relation}-> {escape(one.title)}  " + style(one.target_id, dim=True)
    if answer.truncated:
        yield style("Truncated: raise --limit.", fg="yellow")


def render_paths(answer: Any) -> Iterator[str]:
    if not answer.paths:
        yield "No path found."
    for path in answer.paths:
        yield " - ".join(path)


def render_lineage(answer: Any) -> Iterator[str]:
    """Print the ancestors or descendants of a memory with the number of steps to each."""
    if not answer.nodes:
        yield "No ancestors." if answer.direction == "ancestors" else "No descendants."
    for one in answer.nodes:
        gone = "" if one.state == "live" else style(f"  {one.state}", fg="yellow")
        yield f"{one.depth:>3}  {one.id}  {one.relation:<12}  {escape(one.title or '-')}{gone}"
    if answer.truncated:
        yield "Truncated: lower --max-depth."


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
        yield "No links."
    for link in answer.links:
        yield f"{titles[link.source_id]} -{link.relation}-> {titles[link.target_id]}"
    if answer.truncated:
        yield style("Truncated: raise --limit, or narrow the query.", fg="yellow")
