"""Read the subgraph around a memory or within a namespace."""

from typing import NamedTuple

from holdfast.features.graph import store as links
from holdfast.features.graph.export import Node
from holdfast.features.graph.service import WIDEST
from holdfast.features.graph.store import Which
from holdfast.features.memories import store as memories
from holdfast.kernel.context import Hold
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.link import Link
from holdfast.kernel.storage.port import Session

LINKS_EACH = 10
"""The total number of links is limited to this times the node limit."""


class Surroundings(NamedTuple):
    nodes: list[Node]
    """Nearest first, or those with the oldest links first."""
    links: list[Link]
    truncated: bool
    """Whether nodes or links were left out."""


def around(hold: Hold, session: Session, id: str, which: Which, *, depth: int, most: int) -> Surroundings:
    """Read the nearest memories along links in either direction, and all links between them."""
    now = hold.now()
    start = memories.resolve(session, hold.caller, id, now)
    visited, frontier, truncated = {start.id: None}, [start.id], False
    for _ in range(depth):
        pairs = links.beside(session, hold.caller, frontier, which, now, limit=WIDEST)
        frontier = [id for id in dict.fromkeys(pair.met for pair in pairs) if id not in visited]
        truncated = truncated or len(pairs) == WIDEST or len(visited) + len(frontier) > most
        frontier = frontier[: most - len(visited)]
        visited |= dict.fromkeys(frontier)
        if not frontier:
            break
    between = links.among(session, visited, which, now, limit=LINKS_EACH * most + 1)
    return _shown(hold, session, list(visited), between, most, cut=truncated)


def within(hold: Hold, session: Session, namespace: str, which: Which, *, most: int) -> Surroundings:
    """Read the memories of a namespace and its descendants that are linked to each other."""
    found = links.within(
        session, hold.caller, door.namespace(namespace), which, hold.now(), limit=LINKS_EACH * most + 1
    )
    ids = list(dict.fromkeys(end for link in found for end in (link.source, link.target)))
    selected = set(ids[:most])
    between = [link for link in found if link.source in selected and link.target in selected]
    truncated = len(ids) > most or len(found) > LINKS_EACH * most
    return _shown(hold, session, ids[:most], between, most, cut=truncated)


def _shown(hold: Hold, session: Session, ids: list[str], between: list[Link], most: int, *, cut: bool) -> Surroundings:
    parts, params = memories.visible(hold.caller)
    rows = session.assembled(("memory_labels", *parts, "memory.some"), params | {"ids": ids})
    nodes = {row[0]: Node(*row) for row in rows}
    limit = LINKS_EACH * most
    return Surroundings([nodes[id] for id in ids], between[:limit], cut or len(between) > limit)
