"""Create and end links; walk, list and search paths along them."""

from typing import Literal, NamedTuple

from msgspec.structs import replace

from holdfast.features.graph import paths
from holdfast.features.graph import store as links
from holdfast.features.graph.store import Direction, Edge, Which
from holdfast.features.memories import store as memories
from holdfast.features.memories.store import View
from holdfast.features.memories.store_memory import must_change
from holdfast.features.reflections.depth import stand
from holdfast.kernel import ids
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Invalid, NotFound
from holdfast.kernel.journal.kinds import LINK
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.link import RELATIONS, Link, Relation
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import to_text

MOST_LINKS = 1000
MOST_NODES = 1000
WIDEST = 10_000
"""Maximum links read in one step of a walk; beyond it the result is marked as truncated."""
ROUNDS = ((4, 100), (5, 1000), (7, WIDEST))
"""Rounds of a path search: maximum path length and step limit. The next round runs if one is not enough."""
WIDE = 100
"""If one end of a path has this many links and the other has fewer, the search expands only the other."""
LINKS_EACH = 10
"""Total links read per step of the limit, if that exceeds WIDEST."""
PROVENANCE: tuple[Relation, ...] = ("derived_from", "derives_from", "reflects_on", "supersedes")
"""Relations from a derived memory to its sources."""

Linking = Literal["created", "revalidated", "unchanged"]


class Linked(NamedTuple):
    link: Link
    outcome: Linking


class Invalidated(NamedTuple):
    link: Link
    previous_valid_until: int | None


class Step(NamedTuple):
    """A link on a walk and the path to its end."""

    edge: Edge
    path: tuple[str, ...]

    @property
    def depth(self) -> int:
        return len(self.path) - 1


class Walked(NamedTuple):
    source: Memory
    steps: list[Step]
    truncated: bool
    """There are more than the limit."""


class Ways(NamedTuple):
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


def link(
    hold: Hold,
    source_id: str,
    target_id: str,
    relation: Relation = "related_to",
    *,
    valid_from: int | None = None,
    valid_until: int | None = None,
) -> Linked:
    """Link two memories. Linking an invalidated pair again makes the link valid again."""
    if source_id == target_id:
        raise Invalid("target_id: a memory cannot be linked to itself", fields=["target_id"])
    with hold.writing() as write:
        source, target = _ends(hold, write.session, source_id, target_id, write.now, "live")
        must_change(hold, write, source)
        return tie(hold, write, source.id, target.id, relation, valid_from=valid_from, valid_until=valid_until)


def tie(
    hold: Hold,
    write: Transaction,
    source: str,
    target: str,
    relation: Relation,
    *,
    valid_from: int | None = None,
    valid_until: int | None = None,
) -> Linked:
    """Link two memories by full ids inside a transaction. The caller has checked write access."""
    if source == target:
        raise Invalid("target_id: a memory cannot be linked to itself", fields=["target_id"])
    known = write.get(LINK, id_of(source, target, relation))
    if known is None:
        fresh = Link(
            id=id_of(source, target, relation),
            source=source,
            target=target,
            relation=relation,
            valid_from=write.now if valid_from is None else valid_from,
            valid_until=valid_until,
            agent=hold.caller.agent,
            created_at=write.now,
            updated_at=write.now,
            origin=write.origin,
            version=1,
        )
        stand(write, None, _must_be_ordered(fresh))
        return Linked(write.add(LINK, fresh, "link"), "created")
    relinked = _must_be_ordered(_held_again(known, write.now, valid_from, valid_until))
    stand(write, known, relinked)
    written = write.change(LINK, known, relinked, "link")
    return Linked(written, "unchanged" if written.version == known.version else "revalidated")


def id_of(source: str, target: str, relation: Relation) -> str:
    """Derive the id of a link, the same on every node."""
    return ids.derived(source, target, relation)


def _held_again(known: Link, now: int, valid_from: int | None, valid_until: int | None) -> Link:
    """Compute an existing link that is linked again: given times win; a valid link keeps the others."""
    holds = known.state == "live" and (known.valid_until is None or known.valid_until > now)
    begin, end = (known.valid_from, known.valid_until) if holds else (now, None)
    begin = begin if valid_from is None else valid_from
    end = end if valid_until is None else valid_until
    if (begin, end, "live") == (known.valid_from, known.valid_until, known.state):
        return known
    return replace(known, valid_from=begin, valid_until=end, state="live", signature=None)


def _must_be_ordered(link: Link) -> Link:
    if link.valid_until is not None and link.valid_until <= link.valid_from:
        raise Invalid("valid_until: must be later than valid_from", fields=["valid_until"])
    return link


def _ends(hold: Hold, session: Session, source_id: str, target_id: str, now: int, view: View) -> tuple[Memory, Memory]:
    """Resolve both ends of a link; the error names the missing one."""
    return (
        _end(hold, session, source_id, "source_id", now, view),
        _end(hold, session, target_id, "target_id", now, view),
    )


def _end(hold: Hold, session: Session, id: str, field: str, now: int, view: View) -> Memory:
    try:
        return memories.resolve(session, hold.caller, id, now, view)
    except NotFound:
        raise NotFound(f"{field}: there is no memory {id!r}.", id=id, fields=[field]) from None


def invalidate(
    hold: Hold, source_id: str, target_id: str, relation: Relation, valid_until: int | None = None
) -> Invalidated:
    """End a link, now by default. It stays in history; its signature is removed."""
    with hold.writing() as write:
        source, target = _ends(hold, write.session, source_id, target_id, write.now, "kept")
        known = write.get(LINK, id_of(source.id, target.id, relation))
        if known is None or known.state != "live":
            raise NotFound(
                f"There is no {relation} link from {source.id} to {target.id}.",
                source_id=source.id,
                target_id=target.id,
                relation=relation,
            )
        must_change(hold, write, source)
        end = _end_of(known, write.now) if valid_until is None else _after(known, valid_until)
        if end == known.valid_until:
            return Invalidated(known, end)
        return Invalidated(_ended(write, known, end), known.valid_until)


def untie(write: Transaction, known: Link) -> Link:
    """End a link now, inside a transaction. The caller has checked write access."""
    return _ended(write, known, _end_of(known, write.now))


def _ended(write: Transaction, known: Link, end: int) -> Link:
    ended = replace(known, valid_until=end, signature=None)
    stand(write, known, ended)
    return write.change(LINK, known, ended, "invalidate")


def _end_of(known: Link, now: int) -> int:
    """The end for a link that is ended now: its own earlier end, or its start if that is in the future."""
    if known.valid_until is not None and known.valid_until <= now:
        return known.valid_until
    return max(now, known.valid_from)


def _after(known: Link, end: int) -> int:
    """Check that an end is not before the start. Equal to the start means that the link was never valid."""
    if end < known.valid_from:
        raise Invalid(
            f"valid_until: must not be before the link's valid_from ({to_text(known.valid_from)})",
            fields=["valid_until"],
        )
    return end


def links_of(
    hold: Hold, session: Session, id: str, *, valid_at: int | None = None, limit: int = MOST_LINKS, skip: int = 0
) -> list[Link]:
    """List the links of a memory in both directions with a visible other end, including ended links and archived ends.

    With `valid_at`, only those valid then.
    """
    which = Which(view="kept", valid_at=valid_at, ended_too=valid_at is None)
    found = links.at(session, hold.caller, id, which, hold.now(), limit=limit, skip=skip)
    return [edge.link for edge in found]


def walk(hold: Hold, session: Session, source_id: str, which: Which, *, max_depth: int, limit: int) -> Walked:
    """Follow outgoing links breadth first: each link once, by its shortest path, without cycles."""
    now = hold.now()
    source = _end(hold, session, source_id, "source_id", now, "live")
    if which.namespace is not None:
        which = replace(which, namespace=door.namespace(which.namespace))
    for room in (1, max_depth * len(RELATIONS)):
        bounds = {"depth": max_depth, "steps": room * (limit + 2), "limit": room * (limit + 2)}
        edges, whole = links.outward(session, hold.caller, source.id, which, now, **bounds)
        steps = _steps(source.id, edges)
        if whole or len(steps) > limit:
            break
    return Walked(source, steps[:limit], len(steps) > limit)


def _steps(source: str, edges: list[Edge]) -> list[Step]:
    """Pair each link, nearest first, with the first path to it; drop links that close a cycle."""
    path_to: dict[str, tuple[str, ...]] = {source: (source,)}
    steps = list[Step]()
    for edge in edges:
        path = path_to[edge.link.source]
        if edge.id not in path:
            steps.append(Step(edge, (*path, edge.id)))
            path_to.setdefault(edge.id, steps[-1].path)
    return steps


def timeline(
    hold: Hold,
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
    now = hold.now()
    if since is not None and until is not None and until < since:
        raise Invalid("until: must not be before since", fields=["until"])
    source = _end(hold, session, source_id, "source_id", now, "kept")
    which = Which(view="kept", valid_at=valid_at, ended_too=valid_at is None, begun_since=since, begun_until=until)
    return source, links.leaving(session, hold.caller, [source.id], which, now, limit=limit)


def find_paths(
    hold: Hold,
    session: Session,
    source_id: str,
    target_id: str,
    *,
    max_depth: int,
    max_results: int,
    include_invalidated: bool,
    valid_at: int | None = None,
) -> Ways:
    """Find the shortest simple paths between two memories along links in either direction.

    Links are read from both ends inwards, or from the end with fewer links, only as far as the requested paths need.
    """
    now = hold.now()
    source, target = _ends(hold, session, source_id, target_id, now, "live")
    if source.id == target.id:
        return Ways(source, target, [(source.id,)], False)
    which = Which(ended_too=include_invalidated, valid_at=valid_at)
    for longest, steps in ROUNDS:
        depth = min(longest, max_depth)
        bounds = {"depth": depth, "wide": WIDE, "steps": steps, "limit": max(WIDEST, LINKS_EACH * steps)}
        pairs, known, whole = links.between(session, hold.caller, (source.id, target.id), which, now, **bounds)
        known = depth if steps == WIDEST else known
        found = paths.simple_paths(_near(pairs), source.id, target.id, depth=known, most=max_results + 1)
        if (whole and depth == max_depth) or len(found.paths) > max_results:
            break
    more = not whole or not found.complete or len(found.paths) > max_results
    return Ways(source, target, found.paths[:max_results], more)


def _near(pairs: list[tuple[str, str]]) -> dict[str, list[str]]:
    """Map each memory to its sorted neighbours."""
    near: dict[str, set[str]] = {}
    for one, other in pairs:
        near.setdefault(one, set()).add(other)
        near.setdefault(other, set()).add(one)
    return {node: sorted(others) for node, others in near.items()}


def lineage(
    hold: Hold, session: Session, id: str, direction: Direction, *, max_depth: int, valid_at: int | None = None
) -> Lineage:
    """List the ancestors or descendants of a memory, nearest first; deleted ones appear by id."""
    now = hold.now()
    memory = memories.resolve(session, hold.caller, id, now, "kept")
    which = Which(view=None, relations=PROVENANCE, valid_at=valid_at)
    edges = links.lineage(
        session, hold.caller, memory.id, direction, which, now, depth=max_depth, most=MOST_NODES + 1, limit=WIDEST
    )
    first_links: dict[str, tuple[Edge, int]] = {}
    for edge, depth in edges:
        if edge.id != memory.id:
            first_links.setdefault(edge.id, (edge, depth))
    nodes = list(first_links.values())
    return Lineage(memory, nodes[:MOST_NODES], len(nodes) > MOST_NODES or len(edges) == WIDEST)
