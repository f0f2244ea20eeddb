"""Namespaces: memory counts, the tree, and standards."""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.features.memories import store as memories
from holdfast.features.memories.store import EVERYTHING, Filter
from holdfast.features.namespaces.model import STANDARD, Standard
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Forbidden, Invalid
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import taxonomy as tree
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.taxonomy import lineage
from holdfast.kernel.storage.port import Session

EVERYWHERE = "*"
MOST_PARENTS = 8


class Shown(NamedTuple):
    """The standard of a namespace, if there is one that the caller may see."""

    namespace: str
    memory: Memory | None
    parent: str | None


def namespaces(hold: Hold, session: Session) -> list[tuple[str, int]]:
    """Count the memories of every namespace, largest first."""
    return memories.counts(session, hold.caller, EVERYTHING, hold.now(), by="namespace")


def taxonomy(hold: Hold, session: Session, prefix: str | None, *, depth: int, limit: int) -> tree.Taxonomy:
    """Build the tree of namespaces, or of those below a prefix, with memory counts."""
    place = None if prefix is None else door.namespace(prefix, "namespace_prefix")
    counts = memories.counts(session, hold.caller, Filter(under=place), hold.now(), by="namespace")
    return tree.taxonomy(counts, place or "", depth=depth, limit=limit)


def set_standard(hold: Hold, namespace: str, id: str, parent: str | None = None) -> tuple[Standard, Memory]:
    """Set a memory as the standard of a namespace, replacing the previous one."""
    namespace, parent = _place(namespace), None if parent is None else _place(parent, "parent")
    if parent is not None and (parent == namespace or EVERYWHERE in (namespace, parent)):
        raise Invalid("parent: must be another namespace; * already applies to all", fields=["parent"])
    with hold.writing() as write:
        memory = memories.resolve(write.session, hold.caller, id, write.now)
        known = write.get(STANDARD, namespace)
        if known is None:
            fresh = Standard(namespace, memory.id, parent, write.now, write.now, write.origin, 1)
            return write.add(STANDARD, fresh, "standard"), memory
        must_govern(hold, write, known)
        wanted = replace(known, memory=memory.id, parent=parent, state="live")
        return write.change(STANDARD, known, wanted, "standard"), memory


def clear_standard(hold: Hold, namespace: str) -> bool:
    """Remove the standard of a namespace; return whether it had one."""
    with hold.writing() as write:
        known = write.get(STANDARD, _place(namespace))
        if known is None or known.state != "live":
            return False
        must_govern(hold, write, known)
        write.change(STANDARD, known, replace(known, state="deleted"), "standard")
        return True


def must_govern(hold: Hold, write: Transaction, known: Standard) -> None:
    """Raise unless the caller may change the memory that is the current standard."""
    if known.state == "live" and not memories.may_change(write.session, hold.caller, known.memory):
        raise Forbidden(f"Changing the standard of {known.id!r} requires write access to its memory.")


def standard_of(hold: Hold, session: Session, namespace: str) -> Shown:
    """Read the standard set in a namespace itself."""
    return _shown(hold, session, [_place(namespace)])[0]


def chain_of(hold: Hold, session: Session, namespace: str) -> list[Shown]:
    """List all namespaces whose standards apply to this one, most general first.

    First `*`, then explicit parents, then ancestors by path, then the namespace itself.
    """
    path = [] if namespace == EVERYWHERE else list(reversed(lineage(_place(namespace))))
    parents = [place for place in _parents(session, path) if hold.caller.reaches(place)]
    return _shown(hold, session, [EVERYWHERE, *reversed(parents), *path])


def for_namespace(hold: Hold, session: Session, namespace: str) -> list[Memory]:
    """Read the distinct standards that apply to a namespace, most general first."""
    found = {shown.memory.id: shown.memory for shown in chain_of(hold, session, namespace) if shown.memory}
    return list(found.values())


def _parents(session: Session, path: list[str]) -> list[str]:
    """List the explicit parents of a path, nearest first; cycles and long chains are cut."""
    found: list[str] = []
    following = path
    while following and len(found) < MOST_PARENTS:
        known = _standards(session, following)
        nexts = [known[place].parent for place in reversed(following) if place in known]
        following = [
            place for place in dict.fromkeys(nexts) if place is not None and place not in path and place not in found
        ]
        found += following
    return found[:MOST_PARENTS]


def _standards(session: Session, namespaces: Iterable[str]) -> dict[str, Standard]:
    return {row[0]: Standard(*row) for row in session.rows("standard_some", ids=list(namespaces))}


def _shown(hold: Hold, session: Session, namespaces: list[str]) -> list[Shown]:
    """Read the standards of some namespaces; one with a deleted or invisible memory is None."""
    known = _standards(session, namespaces)
    ids = [standard.memory for standard in known.values()]
    seen = memories.by_ids(session, hold.caller, ids, hold.now()) if ids else {}
    return [
        Shown(place, seen.get(known[place].memory), known[place].parent) if place in known else Shown(place, None, None)
        for place in namespaces
    ]


def _place(namespace: str, field: str = "namespace") -> str:
    return EVERYWHERE if namespace == EVERYWHERE else door.namespace(namespace, field)
