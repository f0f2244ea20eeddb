"""Read memories: one by id, a page, or a keyword search."""

from msgspec.structs import replace

from holdfast.features.memories import store as memories
from holdfast.features.memories.store import Filter
from holdfast.features.recall import candidates
from holdfast.features.sync import conflict_store as conflicts
from holdfast.features.sync.conflict_store import Lost
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage import fts_tokens as tokens
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text import emoji
from holdfast.kernel.text.words import MOST_TERMS, runs

_PLACES = ("namespace", "under", "as_agent")


def get(hold: Hold, session: Session, id: str) -> Memory:
    """Read one live or archived memory by id."""
    return memories.resolve(session, hold.caller, id, hold.now(), view="kept")


def browse(hold: Hold, session: Session, which: Filter, *, limit: int, skip: int) -> list[Memory]:
    """Read a page of memories, most important first."""
    return memories.select(session, hold.caller, normal(which), hold.now(), limit=limit, skip=skip)


def search(hold: Hold, session: Session, query: str | None, which: Filter, *, limit: int) -> list[Memory]:
    """Find memories that contain all words of a query, best first; without a query, those of a source."""
    if query is None:
        return memories.select(session, hold.caller, normal(which), hold.now(), order="by_creation", limit=limit)
    words = list(dict.fromkeys((*runs(query), *emoji.names(query))))[:MOST_TERMS]
    if not words:
        return []
    which = normal(which)
    hits = memories.matching(session, hold.caller, words, which, hold.now(), limit=limit, every=True)
    found = [hit.id for hit in hits]
    if len(found) < limit:
        stems = {stem for word in words for stem in tokens.stems(word)}
        lost = [one.memory for one in lost_contents(hold, session) if stems <= set(tokens.found_by(one.text))]
        allowed = (
            {row.id for row in candidates.by_ids(session, hold.caller, lost, which, hold.now())} if lost else set()
        )
        found = list(dict.fromkeys([*found, *(id for id in lost if id in allowed)]))[:limit]
    view: memories.View = "kept" if which.archived else "live"
    read = memories.by_ids(session, hold.caller, found, hold.now(), view)
    return [read[id] for id in found if id in read]


def lost_contents(hold: Hold, session: Session) -> list["Lost"]:
    """Read the losing contents of merge conflicts: their words find the memory, too."""
    if session.row("conflict_any") is None:
        return []
    return conflicts.lost_contents(session, hold.caller)


def normal(which: Filter) -> Filter:
    """Normalize the namespaces of a filter; raise if its time range is reversed."""
    if which.since is not None and which.until is not None and which.until < which.since:
        raise Invalid("until: must not be before since", fields=["until"])
    given = {name: value for name in _PLACES if (value := getattr(which, name)) is not None}
    if given:
        which = replace(which, **{name: door.namespace(value, name) for name, value in given.items()})
    return replace(which, namespaces=tuple(map(door.namespace, which.namespaces))) if which.namespaces else which
