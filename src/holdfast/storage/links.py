"""Reading links: only those that lead to a memory which the caller may see."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from msgspec import Struct

from ..domain.caller import Caller
from ..domain.link import Link, Relation
from ..domain.memory import State
from . import memories
from .memories import Filter, View
from .port import Part, Session

LINK_COLUMNS = len(Link.__struct_fields__)


class Edge(NamedTuple):
    """A link, and what is to be said of the memory at its other end."""

    link: Link
    id: str
    title: str
    namespace: str
    state: State
    content_hash: str


class Which(Struct, frozen=True, kw_only=True):
    """Which links are meant. Every part narrows; the default means those that hold now between live memories."""

    view: View | None = "live"
    """The state of the memory at the other end; None: whatever it is."""
    valid_at: int | None = None
    ended_too: bool = False
    observers: tuple[str, ...] | None = None
    relations: tuple[Relation, ...] = ()
    namespace: str | None = None
    begun_since: int | None = None
    begun_until: int | None = None


def leaving(session: Session, caller: Caller, ids: Iterable[str], which: Which, now: int, *, limit: int) -> list[Edge]:
    """Links out of memories that the caller may see, in the order in which they began."""
    return _edges(session, caller, "link_leaving", {"ids": list(ids)}, which, now, limit, 0)


def entering(session: Session, caller: Caller, ids: Iterable[str], which: Which, now: int, *, limit: int) -> list[Edge]:
    """Links into memories that the caller may see, in the order in which they began."""
    return _edges(session, caller, "link_entering", {"ids": list(ids)}, which, now, limit, 0)


def at(session: Session, caller: Caller, id: str, which: Which, now: int, *, limit: int, skip: int = 0) -> list[Edge]:
    """Links at one memory, either way, in the order in which they began."""
    return _edges(session, caller, "link_at", {"end": id}, which, now, limit, skip)


def _edges(
    session: Session,
    caller: Caller,
    statement: str,
    ends: dict[str, Any],
    which: Which,
    now: int,
    limit: int,
    skip: int,
) -> list[Edge]:
    parts, params = _narrowed(caller, which, now)
    rows = session.assembled((statement, *parts, "link.in_order"), params | ends | {"limit": limit, "skip": skip})
    return [Edge(Link(*row[:LINK_COLUMNS]), *row[LINK_COLUMNS:]) for row in rows]


_CLAUSES = (
    ("observers", "link.observed_by"),
    ("relations", "link.of"),
    ("begun_since", "link.begun_since"),
    ("begun_until", "link.begun_until"),
)


def _narrowed(caller: Caller, which: Which, now: int) -> tuple[list[Part], dict[str, Any]]:
    if which.view is None:
        parts, params = memories.visible(caller)
    else:
        parts, params = memories.narrowed(caller, Filter(namespace=which.namespace), now, which.view)
    for field, part in _CLAUSES:
        value = getattr(which, field)
        if value is not None and not (field == "relations" and value == ()):
            parts.append(part)
            params[field] = value
    held = _held(which)
    if held:
        params["holds_at"] = now if which.valid_at is None else which.valid_at
    return [*parts, *held], params


def _held(which: Which) -> list[Part]:
    begun = "link.begun" if which.valid_at is not None else "link.begun_or_written"
    if which.ended_too:
        return [begun] if which.valid_at is not None else []
    return [begun, "link.unended"]


def count(session: Session, caller: Caller) -> int:
    """How many links there are between memories that the caller may see."""
    ends, params = memories.visible(caller)
    return int(session.assembled(("link_count", *ends, "link_count.target", *ends, "link_count.end"), params)[0][0])
