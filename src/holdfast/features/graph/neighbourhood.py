"""Read the subgraph around a memory or within a namespace."""

from typing import NamedTuple

from holdfast.features.graph import read_links as links
from holdfast.features.graph.export import Node
from holdfast.features.graph.read_links import LinkFilter
from holdfast.features.graph.service import MAX_STEP_LINKS
from holdfast.features.memories import read_memories as memories
from holdfast.kernel.context import Context
from holdfast.kernel.records import validate
from holdfast.kernel.records.link import Link
from holdfast.kernel.storage.port import Session

LINKS_PER_NODE = 10
"""The total number of links is limited to this times the node limit."""


class Subgraph(NamedTuple):
    nodes: list[Node]
    """Nearest first, or those with the oldest links first."""
    links: list[Link]
    truncated: bool
    """Whether nodes or links were left out."""


def find_subgraph(ctx: Context, session: Session, id: str, which: LinkFilter, *, depth: int, most: int) -> Subgraph:
    """Read the nearest memories along links in either direction, and all links between them."""
    now = ctx.now()
    start = memories.resolve(session, ctx.caller, id, now)
    visited, frontier, truncated = {start.id: None}, [start.id], False
    for _ in range(depth):
        pairs = links.list_neighbours(session, ctx.caller, frontier, which, now, limit=MAX_STEP_LINKS)
        frontier = [id for id in dict.fromkeys(pair.neighbour for pair in pairs) if id not in visited]
        truncated = truncated or len(pairs) == MAX_STEP_LINKS or len(visited) + len(frontier) > most
        frontier = frontier[: most - len(visited)]
        visited |= dict.fromkeys(frontier)
        if not frontier:
            break
    between = links.links_among(session, visited, which, now, limit=LINKS_PER_NODE * most + 1)
    return _build_subgraph(ctx, session, list(visited), between, most, cut=truncated)


def find_namespace_subgraph(
    ctx: Context, session: Session, namespace: str, which: LinkFilter, *, most: int
) -> Subgraph:
    """Read the memories of a namespace and its descendants that are linked to each other."""
    found = links.links_within(
        session, ctx.caller, validate.namespace(namespace), which, ctx.now(), limit=LINKS_PER_NODE * most + 1
    )
    ids = list(dict.fromkeys(end for link in found for end in (link.source, link.target)))
    selected = set(ids[:most])
    between = [link for link in found if link.source in selected and link.target in selected]
    truncated = len(ids) > most or len(found) > LINKS_PER_NODE * most
    return _build_subgraph(ctx, session, ids[:most], between, most, cut=truncated)


def _build_subgraph(
    ctx: Context, session: Session, ids: list[str], between: list[Link], most: int, *, cut: bool
) -> Subgraph:
    parts, params = memories.visibility_clauses(ctx.caller)
    rows = session.select(("memory_labels", *parts, "memory.some"), params | {"ids": ids})
    nodes = {row[0]: Node(*row) for row in rows}
    limit = LINKS_PER_NODE * most
    return Subgraph([nodes[id] for id in ids], between[:limit], cut or len(between) > limit)
