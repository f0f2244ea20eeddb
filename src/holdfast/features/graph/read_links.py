"""Read links. Only links whose other end the caller may see are returned."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import Filter, View
from holdfast.kernel.context import Caller
from holdfast.kernel.records.link import Link, Relation
from holdfast.kernel.records.memory import State
from holdfast.kernel.storage.port import Session, SqlPart

Direction = Literal["ancestors", "descendants"]
LINK_COLUMNS = len(Link.__struct_fields__)


class Edge(NamedTuple):
    """A link and the memory at its other end."""

    link: Link
    id: str
    title: str
    namespace: str
    state: State
    content_hash: str


class LinkFilter(Struct, frozen=True, kw_only=True):
    """A filter on links. All conditions must hold; the default is links valid now between live memories."""

    view: View | None = "live"
    """The state of the memory at the other end; None: any."""
    valid_at: int | None = None
    include_ended: bool = False
    observers: tuple[str, ...] | None = None
    relations: tuple[Relation, ...] = ()
    namespace: str | None = None
    begun_since: int | None = None
    begun_until: int | None = None


def list_outgoing(
    session: Session, caller: Caller, ids: Iterable[str], which: LinkFilter, now: int, *, limit: int
) -> list[Edge]:
    """Read outgoing links of some visible memories, ordered by start."""
    return _read_edges(session, caller, "link_leaving", {"ids": list(ids)}, which, now, limit, 0)


def list_incoming(
    session: Session, caller: Caller, ids: Iterable[str], which: LinkFilter, now: int, *, limit: int
) -> list[Edge]:
    """Read incoming links of some visible memories, ordered by start."""
    return _read_edges(session, caller, "link_entering", {"ids": list(ids)}, which, now, limit, 0)


def list_at(
    session: Session, caller: Caller, id: str, which: LinkFilter, now: int, *, limit: int, skip: int = 0
) -> list[Edge]:
    """Read the links of one memory in both directions, ordered by start.

    A title group has the links of all its members, each once; an end is shown as the representative of its group.
    """
    others = [row[0] for row in session.rows("title_group_others", id=id)]
    if not others:
        return [
            _show_representatives(edge, id, id)
            for edge in _read_edges(session, caller, "link_at", {"end": id}, which, now, limit, skip)
        ]
    found: dict[tuple[str, str, str], Edge] = {}
    for end in (id, *others):
        for edge in _read_edges(session, caller, "link_at", {"end": end}, which, now, limit + skip, 0):
            one = _show_representatives(edge, end, id)
            if one.link.source != one.link.target:
                found.setdefault((one.link.source, one.link.target, one.link.relation), one)
    ordered = sorted(found.values(), key=lambda edge: (edge.link.valid_from, edge.link.created_at, edge.link.id))
    return ordered[skip : skip + limit]


def _show_representatives(edge: Edge, end: str, stands: str) -> Edge:
    """Replace both ends of a link by the representatives of their title groups."""
    leaves = edge.link.source == end
    ends = {"source": stands, "target": edge.id} if leaves else {"source": edge.id, "target": stands}
    changed = (edge.link.source, edge.link.target) != tuple(ends.values())
    return edge._replace(link=replace(edge.link, **ends)) if changed else edge


def find_superseded(session: Session, ids: Sequence[str], now: int) -> set[str]:
    """Ids of the memories that are superseded."""
    return {row[0] for row in session.rows("invalidation_supersessions", ids=list(ids), now=now)} if ids else set()


class OutwardLinks(NamedTuple):
    edges: list[Edge]
    """Ordered by distance of their source, then by start."""
    complete: bool
    """False if there may be more, beyond these."""


def walk_outward(
    session: Session, caller: Caller, id: str, which: LinkFilter, now: int, *, depth: int, steps: int, limit: int
) -> OutwardLinks:
    """Walk the outgoing links from a memory, except links back to it.

    Stops at `limit` links or `steps` walk steps; a memory is visited at most once per depth.
    """
    parts, params = _filter_clauses(caller, which, now)
    bounds = {"start": id, "last": depth - 1, "steps": steps, "limit": limit}
    rows = session.select(("link_walk", *parts, "link_walk.met", *parts, "link.by_depth"), params | bounds)
    edges = [Edge(Link(*row[:LINK_COLUMNS]), *row[LINK_COLUMNS:-1]) for row in rows]
    return OutwardLinks(edges, len(rows) < limit and (not rows or rows[0][-1] < steps))


class LinksBetween(NamedTuple):
    pairs: list[tuple[str, str]]
    depth_covered: int
    """All paths of up to this many links are covered."""
    complete: bool


def links_between_ends(
    session: Session,
    caller: Caller,
    ends: tuple[str, str],
    which: LinkFilter,
    now: int,
    *,
    depth: int,
    wide: int,
    steps: int,
    limit: int,
) -> LinksBetween:
    """Read the link ends around two memories that paths of up to `depth` links between them need.

    Stops at `limit` links or `steps` walk steps. An end of `wide` or more links is not expanded if the other has fewer.
    """
    parts, params = _filter_clauses(caller, which, now)
    bounds = {"source": ends[0], "target": ends[1], "source_last": (depth - 1) // 2, "target_last": depth // 2 - 1}
    bounds |= {"shortest": min(0, depth - 2), "longest": max(0, depth - 2)}
    bounds |= {"wide": wide, "steps": steps, "limit": limit}
    statement = ("link_between", *parts, "link_between.met", *parts, "link_between.in_order")
    rows = session.select(statement, params | bounds)
    truncated = len(rows) == limit
    if not truncated and (not rows or rows[0][-1] < steps):
        return LinksBetween([row[:2] for row in rows], depth, True)
    levels, last = rows[-1][2] + (0 if truncated else 1), rows[-1][3]
    return LinksBetween([row[:2] for row in rows], min(levels, last + 1) + min(levels, depth - 1 - last), False)


class LinkEnds(NamedTuple):
    """The ends of a link; `met` is the one reached from the other."""

    source: str
    target: str
    neighbour: str


def list_neighbours(
    session: Session, caller: Caller, ids: Iterable[str], which: LinkFilter, now: int, *, limit: int
) -> list[LinkEnds]:
    """Read the neighbours of some memories in both directions: only the ends, which is all a path needs."""
    parts, params = _filter_clauses(caller, which, now)
    statement = ("link_pairs", *parts, "link_pairs.back", *parts, "link_pairs.in_order")
    return [LinkEnds(*row[:3]) for row in session.select(statement, params | {"ids": list(ids), "limit": limit})]


def walk_lineage(
    session: Session,
    caller: Caller,
    id: str,
    direction: Direction,
    which: LinkFilter,
    now: int,
    *,
    depth: int,
    most: int,
    limit: int,
) -> list[tuple[Edge, int]]:
    """Walk provenance links to ancestors or descendants, nearest first; each with the depth of its far end.

    Limited to the nearest `most` memories; each is visited at most once per depth.
    """
    parts, params = _filter_clauses(caller, which, now)
    bounds = {"start": id, "last": depth - 1, "steps": most * depth, "most": most, "limit": limit}
    statement = (f"link_{direction}", *parts, f"link_{direction}.met", *parts, "link.by_depth")
    rows = session.select(statement, params | bounds)
    return [(Edge(Link(*row[:LINK_COLUMNS]), *row[LINK_COLUMNS:-1]), row[-1]) for row in rows]


def links_among(session: Session, ids: Iterable[str], which: LinkFilter, now: int, *, limit: int) -> list[Link]:
    """Read the links between some memories, ordered by start. The caller has checked their visibility."""
    parts, params = _link_clauses(which, now)
    params |= {"ids": list(ids), "limit": limit, "skip": 0}
    return [Link(*row) for row in session.select(("link_among", *parts, "link.in_order"), params)]


def links_within(
    session: Session, caller: Caller, under: str, which: LinkFilter, now: int, *, limit: int
) -> list[Link]:
    """Read the links between live memories of a namespace and its descendants, ordered by start."""
    ends, params = memories.filter_clauses(caller, Filter(under=under), now)
    parts, more = _link_clauses(which, now)
    statement = ("link_within", *ends, "link_count.target", *ends, "link_count.end", *parts, "link.in_order")
    return [Link(*row) for row in session.select(statement, params | more | {"limit": limit, "skip": 0})]


def _read_edges(
    session: Session,
    caller: Caller,
    statement: str,
    ends: dict[str, Any],
    which: LinkFilter,
    now: int,
    limit: int,
    skip: int,
) -> list[Edge]:
    parts, params = _filter_clauses(caller, which, now)
    rows = session.select((statement, *parts, "link.in_order"), params | ends | {"limit": limit, "skip": skip})
    return [Edge(Link(*row[:LINK_COLUMNS]), *row[LINK_COLUMNS:]) for row in rows]


_CLAUSES = (
    ("observers", "link.observed_by"),
    ("relations", "link.with_relation"),
    ("begun_since", "link.begun_since"),
    ("begun_until", "link.begun_until"),
)


def _filter_clauses(caller: Caller, which: LinkFilter, now: int) -> tuple[list[SqlPart], dict[str, Any]]:
    if which.view is None:
        parts, params = memories.visibility_clauses(caller)
    else:
        parts, params = memories.filter_clauses(caller, Filter(namespace=which.namespace), now, which.view)
    holding, more = _link_clauses(which, now)
    return [*parts, *holding], params | more


def _link_clauses(which: LinkFilter, now: int) -> tuple[list[SqlPart], dict[str, Any]]:
    """Build the clauses on the links themselves."""
    parts: list[SqlPart] = []
    params: dict[str, Any] = {}
    for field, part in _CLAUSES:
        value = getattr(which, field)
        if value is not None and not (field == "relations" and value == ()):
            parts.append(part)
            params[field] = value
    validity = _validity_clauses(which)
    if validity:
        params["holds_at"] = now if which.valid_at is None else which.valid_at
    return [*parts, *validity], params


def _validity_clauses(which: LinkFilter) -> list[SqlPart]:
    begun = "link.begun" if which.valid_at is not None else "link.begun_or_written"
    if which.include_ended:
        return [begun] if which.valid_at is not None else []
    return [begun, "link.not_ended"]


def count(session: Session, caller: Caller) -> int:
    """Count the links between visible memories."""
    ends, params = memories.visibility_clauses(caller)
    return int(session.select(("link_count", *ends, "link_count.target", *ends, "link_count.end"), params)[0][0])
