"""Read memories back: one, a page, or those that hold all of some words."""

from msgspec.structs import replace

from ..domain import admit as door
from ..domain.errors import Invalid
from ..domain.memory import Memory
from ..domain.words import MOST_TERMS, runs
from ..storage import memories
from ..storage.memories import Filter
from ..storage.port import Session
from .hold import Hold

_PLACES = ("namespace", "under", "as_agent")


def get(hold: Hold, session: Session, id: str) -> Memory:
    """One live memory, or an archived one: an id is enough to find it again."""
    return memories.resolve(session, hold.caller, id, hold.now(), view="kept")


def browse(hold: Hold, session: Session, which: Filter, *, limit: int, skip: int) -> list[Memory]:
    """A page of memories, the most important first."""
    return memories.select(session, hold.caller, normal(which), hold.now(), limit=limit, skip=skip)


def search(hold: Hold, session: Session, query: str | None, which: Filter, *, limit: int) -> list[Memory]:
    """The memories that hold all the words of a query, best first; without one, those of a source."""
    if query is None:
        return memories.select(session, hold.caller, normal(which), hold.now(), order="by_creation", limit=limit)
    words = list(dict.fromkeys(runs(query)))[:MOST_TERMS]
    if not words:
        return []
    found = memories.matching(session, hold.caller, words, normal(which), hold.now(), limit=limit, every=True)
    view: memories.View = "kept" if which.archived else "live"
    read = memories.by_ids(session, hold.caller, [hit.id for hit in found], hold.now(), view)
    return [read[hit.id] for hit in found if hit.id in read]


def normal(which: Filter) -> Filter:
    """A filter whose namespaces are written as they are stored."""
    if which.since is not None and which.until is not None and which.until < which.since:
        raise Invalid("until: must not be before since", fields=["until"])
    named = {name: value for name in _PLACES if (value := getattr(which, name)) is not None}
    if named:
        which = replace(which, **{name: door.namespace(value, name) for name, value in named.items()})
    return replace(which, namespaces=tuple(map(door.namespace, which.namespaces))) if which.namespaces else which
