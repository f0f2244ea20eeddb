"""Create and end links; walk, list and search paths along them."""

from typing import Literal, NamedTuple

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from holdfast.features.graph import paths
from holdfast.features.graph import store as links
from holdfast.features.graph.store import Direction, Edge, LinkFilter
from holdfast.features.memories import store as memories
from holdfast.features.memories.store import View, require_write_access
from holdfast.features.reflections.depth import check_link
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid, NotFound
from holdfast.kernel.journal.kinds import LINK
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate
from holdfast.kernel.records.link import RELATIONS, Link, Relation
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.registry.operation import value_or_unset
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import TimeText, derive_id, format_time, format_timestamp

MAX_LINKS = 1000
MAX_NODES = 1000
MAX_STEP_LINKS = 10_000
"""Maximum links read in one step of a walk; beyond it the result is marked as truncated."""
SEARCH_ROUNDS = ((4, 100), (5, 1000), (7, MAX_STEP_LINKS))
"""Rounds of a path search: maximum path length and step limit. The next round runs if one is not enough."""
WIDE_END = 100
"""If one end of a path has this many links and the other has fewer, the search expands only the other."""
LINKS_PER_STEP = 10
"""Total links read per step of the limit, if that exceeds MAX_STEP_LINKS."""
PROVENANCE: tuple[Relation, ...] = ("derived_from", "derives_from", "reflects_on", "supersedes")
"""Relations from a derived memory to its sources."""

LinkOutcome = Literal["created", "revalidated", "unchanged"]


class LinkChange(NamedTuple):
    link: Link
    outcome: LinkOutcome


class EndedLink(NamedTuple):
    link: Link
    previous_valid_until: int | None


class Step(NamedTuple):
    """A link on a walk and the path to its end."""

    edge: Edge
    path: tuple[str, ...]

    @property
    def depth(self) -> int:
        return len(self.path) - 1


class WalkResult(NamedTuple):
    source: Memory
    steps: list[Step]
    truncated: bool
    """There are more than the limit."""


class PathsResult(NamedTuple):
    source: Memory
    target: Memory
    paths: list[paths.Path]
    truncated: bool
    """There are, or may be, more: the search hit a width or work limit."""


class Lineage(NamedTuple):
    memory: Memory
    nodes: list[tuple[Edge, int]]
    """Each memory with the first link that reached it, and its distance."""
    truncated: bool


def create_link(
    ctx: Context,
    source_id: str,
    target_id: str,
    relation: Relation = "related_to",
    *,
    valid_from: int | None = None,
    valid_until: int | None = None,
) -> LinkChange:
    """Link two memories. Linking an invalidated pair again makes the link valid again."""
    if source_id == target_id:
        raise Invalid("target_id: a memory cannot be linked to itself", fields=["target_id"])
    with ctx.transaction() as write:
        source, target = _resolve_ends(ctx, write.session, source_id, target_id, write.now, "live")
        require_write_access(ctx, write, source)
        return add_link(ctx, write, source.id, target.id, relation, valid_from=valid_from, valid_until=valid_until)


def add_link(
    ctx: Context,
    write: Transaction,
    source: str,
    target: str,
    relation: Relation,
    *,
    valid_from: int | None = None,
    valid_until: int | None = None,
) -> LinkChange:
    """Link two memories by full ids inside a transaction. The caller has checked write access."""
    if source == target:
        raise Invalid("target_id: a memory cannot be linked to itself", fields=["target_id"])
    known = write.get(LINK, link_id(source, target, relation))
    if known is None:
        fresh = Link(
            id=link_id(source, target, relation),
            source=source,
            target=target,
            relation=relation,
            valid_from=write.now if valid_from is None else valid_from,
            valid_until=valid_until,
            agent=ctx.caller.agent,
            created_at=write.now,
            updated_at=write.now,
            origin=write.origin,
            version=1,
        )
        check_link(write, None, _check_interval(fresh))
        return LinkChange(write.add(LINK, fresh, "link"), "created")
    relinked = _check_interval(_relink(known, write.now, valid_from, valid_until))
    check_link(write, known, relinked)
    written = write.change(LINK, known, relinked, "link")
    return LinkChange(written, "unchanged" if written.version == known.version else "revalidated")


def link_id(source: str, target: str, relation: Relation) -> str:
    """Derive the id of a link, the same on every node."""
    return derive_id(source, target, relation)


def _relink(known: Link, now: int, valid_from: int | None, valid_until: int | None) -> Link:
    """Compute an existing link that is linked again: given times win; a valid link keeps the others."""
    holds = known.state == "live" and (known.valid_until is None or known.valid_until > now)
    begin, end = (known.valid_from, known.valid_until) if holds else (now, None)
    begin = begin if valid_from is None else valid_from
    end = end if valid_until is None else valid_until
    if (begin, end, "live") == (known.valid_from, known.valid_until, known.state):
        return known
    return replace(known, valid_from=begin, valid_until=end, state="live", signature=None)


def _check_interval(link: Link) -> Link:
    if link.valid_until is not None and link.valid_until <= link.valid_from:
        raise Invalid("valid_until: must be later than valid_from", fields=["valid_until"])
    return link


def _resolve_ends(
    ctx: Context, session: Session, source_id: str, target_id: str, now: int, view: View
) -> tuple[Memory, Memory]:
    """Resolve both ends of a link; the error names the missing one."""
    return (
        _resolve_end(ctx, session, source_id, "source_id", now, view),
        _resolve_end(ctx, session, target_id, "target_id", now, view),
    )


def _resolve_end(ctx: Context, session: Session, id: str, field: str, now: int, view: View) -> Memory:
    try:
        return memories.resolve(session, ctx.caller, id, now, view)
    except NotFound:
        raise NotFound(f"{field}: there is no memory {id!r}.", id=id, fields=[field]) from None


def invalidate_link(
    ctx: Context, source_id: str, target_id: str, relation: Relation, valid_until: int | None = None
) -> EndedLink:
    """End a link, now by default. It stays in history; its signature is removed."""
    with ctx.transaction() as write:
        source, target = _resolve_ends(ctx, write.session, source_id, target_id, write.now, "kept")
        known = write.get(LINK, link_id(source.id, target.id, relation))
        if known is None or known.state != "live":
            raise NotFound(
                f"There is no {relation} link from {source.id} to {target.id}.",
                source_id=source.id,
                target_id=target.id,
                relation=relation,
            )
        require_write_access(ctx, write, source)
        end = _current_end(known, write.now) if valid_until is None else _check_end(known, valid_until)
        if end == known.valid_until:
            return EndedLink(known, end)
        return EndedLink(_write_end(write, known, end), known.valid_until)


def end_link(write: Transaction, known: Link) -> Link:
    """End a link now, inside a transaction. The caller has checked write access."""
    return _write_end(write, known, _current_end(known, write.now))


def _write_end(write: Transaction, known: Link, end: int) -> Link:
    ended = replace(known, valid_until=end, signature=None)
    check_link(write, known, ended)
    return write.change(LINK, known, ended, "invalidate")


def _current_end(known: Link, now: int) -> int:
    """The end for a link that is ended now: its own earlier end, or its start if that is in the future."""
    if known.valid_until is not None and known.valid_until <= now:
        return known.valid_until
    return max(now, known.valid_from)


def _check_end(known: Link, end: int) -> int:
    """Check that an end is not before the start. Equal to the start means that the link was never valid."""
    if end < known.valid_from:
        raise Invalid(
            f"valid_until: must not be before the link's valid_from ({format_timestamp(known.valid_from)})",
            fields=["valid_until"],
        )
    return end


def list_links(
    ctx: Context, session: Session, id: str, *, valid_at: int | None = None, limit: int = MAX_LINKS, skip: int = 0
) -> list[Link]:
    """List the links of a memory in both directions with a visible other end, including ended links and archived ends.

    With `valid_at`, only those valid then.
    """
    which = LinkFilter(view="kept", valid_at=valid_at, include_ended=valid_at is None)
    found = links.list_at(session, ctx.caller, id, which, ctx.now(), limit=limit, skip=skip)
    return [edge.link for edge in found]


def walk_links(
    ctx: Context, session: Session, source_id: str, which: LinkFilter, *, max_depth: int, limit: int
) -> WalkResult:
    """Follow outgoing links breadth first: each link once, by its shortest path, without cycles."""
    now = ctx.now()
    source = _resolve_end(ctx, session, source_id, "source_id", now, "live")
    if which.namespace is not None:
        which = replace(which, namespace=validate.namespace(which.namespace))
    for room in (1, max_depth * len(RELATIONS)):
        bounds = {"depth": max_depth, "steps": room * (limit + 2), "limit": room * (limit + 2)}
        edges, whole = links.walk_outward(session, ctx.caller, source.id, which, now, **bounds)
        steps = _build_steps(source.id, edges)
        if whole or len(steps) > limit:
            break
    return WalkResult(source, steps[:limit], len(steps) > limit)


def _build_steps(source: str, edges: list[Edge]) -> list[Step]:
    """Pair each link, nearest first, with the first path to it; drop links that close a cycle."""
    path_to: dict[str, tuple[str, ...]] = {source: (source,)}
    steps = list[Step]()
    for edge in edges:
        path = path_to[edge.link.source]
        if edge.id not in path:
            steps.append(Step(edge, (*path, edge.id)))
            path_to.setdefault(edge.id, steps[-1].path)
    return steps


def list_timeline(
    ctx: Context,
    session: Session,
    source_id: str,
    *,
    since: int | None,
    until: int | None,
    valid_at: int | None = None,
    limit: int,
) -> tuple[Memory, list[Edge]]:
    """List the outgoing links of a memory by start time, including ended links and archived targets.

    With `valid_at`, only those valid then.
    """
    now = ctx.now()
    if since is not None and until is not None and until < since:
        raise Invalid("until: must not be before since", fields=["until"])
    source = _resolve_end(ctx, session, source_id, "source_id", now, "kept")
    which = LinkFilter(
        view="kept", valid_at=valid_at, include_ended=valid_at is None, begun_since=since, begun_until=until
    )
    return source, links.list_outgoing(session, ctx.caller, [source.id], which, now, limit=limit)


def find_paths(
    ctx: Context,
    session: Session,
    source_id: str,
    target_id: str,
    *,
    max_depth: int,
    max_results: int,
    include_invalidated: bool,
    valid_at: int | None = None,
) -> PathsResult:
    """Find the shortest simple paths between two memories along links in either direction.

    Links are read from both ends inwards, or from the end with fewer links, only as far as the requested paths need.
    """
    now = ctx.now()
    source, target = _resolve_ends(ctx, session, source_id, target_id, now, "live")
    if source.id == target.id:
        return PathsResult(source, target, [(source.id,)], False)
    which = LinkFilter(include_ended=include_invalidated, valid_at=valid_at)
    for longest, steps in SEARCH_ROUNDS:
        depth = min(longest, max_depth)
        bounds = {
            "depth": depth,
            "wide": WIDE_END,
            "steps": steps,
            "limit": max(MAX_STEP_LINKS, LINKS_PER_STEP * steps),
        }
        pairs, known, whole = links.links_between_ends(
            session, ctx.caller, (source.id, target.id), which, now, **bounds
        )
        known = depth if steps == MAX_STEP_LINKS else known
        found = paths.find_simple_paths(
            _neighbour_lists(pairs), source.id, target.id, depth=known, most=max_results + 1
        )
        if (whole and depth == max_depth) or len(found.paths) > max_results:
            break
    more = not whole or not found.complete or len(found.paths) > max_results
    return PathsResult(source, target, found.paths[:max_results], more)


def _neighbour_lists(pairs: list[tuple[str, str]]) -> dict[str, list[str]]:
    """Map each memory to its sorted neighbours."""
    near: dict[str, set[str]] = {}
    for one, other in pairs:
        near.setdefault(one, set()).add(other)
        near.setdefault(other, set()).add(one)
    return {node: sorted(others) for node, others in near.items()}


def trace_lineage(
    ctx: Context, session: Session, id: str, direction: Direction, *, max_depth: int, valid_at: int | None = None
) -> Lineage:
    """List the ancestors or descendants of a memory, nearest first; deleted ones appear by id."""
    now = ctx.now()
    memory = memories.resolve(session, ctx.caller, id, now, "kept")
    which = LinkFilter(view=None, relations=PROVENANCE, valid_at=valid_at)
    edges = links.walk_lineage(
        session, ctx.caller, memory.id, direction, which, now, depth=max_depth, most=MAX_NODES + 1, limit=MAX_STEP_LINKS
    )
    first_links: dict[str, tuple[Edge, int]] = {}
    for edge, depth in edges:
        if edge.id != memory.id:
            first_links.setdefault(edge.id, (edge, depth))
    nodes = list(first_links.values())
    return Lineage(memory, nodes[:MAX_NODES], len(nodes) > MAX_NODES or len(edges) == MAX_STEP_LINKS)


class LinkView(Struct, frozen=True, kw_only=True):
    """A link in a response."""

    source_id: str
    target_id: str
    relation: str
    created_at: TimeText
    valid_from: TimeText
    observed_by: str
    version: int
    valid_until: TimeText | UnsetType = UNSET
    signature: str | UnsetType = UNSET


def link_view(link: Link) -> LinkView:
    return LinkView(
        source_id=link.source,
        target_id=link.target,
        relation=link.relation,
        created_at=format_timestamp(link.created_at),
        valid_from=format_timestamp(link.valid_from),
        observed_by=link.agent,
        version=link.version,
        valid_until=format_time(link.valid_until),
        signature=value_or_unset(link.signature),
    )
