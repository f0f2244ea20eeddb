"""Namespaces: memory counts, the tree, and standards."""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import EVERYTHING, Filter
from holdfast.features.namespaces.model import STANDARD, Standard
from holdfast.kernel.context import Context, with_ancestors
from holdfast.kernel.errors import Forbidden, Invalid
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import taxonomy as tree
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session

EVERYWHERE = "*"
MAX_PARENTS = 8


class NamespaceStandard(NamedTuple):
    """The standard of a namespace, if there is one that the caller may see."""

    namespace: str
    memory: Memory | None
    parent: str | None


def list_namespaces(ctx: Context, session: Session) -> list[tuple[str, int]]:
    """Count the memories of every namespace, largest first."""
    return memories.count_by(session, ctx.caller, EVERYTHING, ctx.now(), by="namespace")


def build_taxonomy(ctx: Context, session: Session, prefix: str | None, *, depth: int, limit: int) -> tree.Taxonomy:
    """Build the tree of namespaces, or of those below a prefix, with memory counts."""
    place = None if prefix is None else validate.namespace(prefix, "namespace_prefix")
    counts = memories.count_by(session, ctx.caller, Filter(under=place), ctx.now(), by="namespace")
    return tree.build_taxonomy(counts, place or "", depth=depth, limit=limit)


def set_standard(ctx: Context, namespace: str, id: str, parent: str | None = None) -> tuple[Standard, Memory]:
    """Set a memory as the standard of a namespace, replacing the previous one."""
    namespace, parent = (
        _normalize_namespace(namespace),
        None if parent is None else _normalize_namespace(parent, "parent"),
    )
    if parent is not None and (parent == namespace or EVERYWHERE in (namespace, parent)):
        raise Invalid("parent: must be another namespace; * already applies to all", fields=["parent"])
    with ctx.transaction() as write:
        memory = memories.resolve(write.session, ctx.caller, id, write.now)
        known = write.get(STANDARD, namespace)
        if known is None:
            fresh = Standard(namespace, memory.id, parent, write.now, write.now, write.origin, 1)
            return write.add(STANDARD, fresh, "standard"), memory
        require_standard_access(ctx, write, known)
        wanted = replace(known, memory=memory.id, parent=parent, state="live")
        return write.change(STANDARD, known, wanted, "standard"), memory


def clear_standard(ctx: Context, namespace: str) -> bool:
    """Remove the standard of a namespace; return whether it had one."""
    with ctx.transaction() as write:
        known = write.get(STANDARD, _normalize_namespace(namespace))
        if known is None or known.state != "live":
            return False
        require_standard_access(ctx, write, known)
        write.change(STANDARD, known, replace(known, state="deleted"), "standard")
        return True


def require_standard_access(ctx: Context, write: Transaction, known: Standard) -> None:
    """Raise unless the caller may change the memory that is the current standard."""
    if known.state == "live" and not memories.can_write(write.session, ctx.caller, known.memory):
        raise Forbidden(f"Changing the standard of {known.id!r} requires write access to its memory.")


def get_standard(ctx: Context, session: Session, namespace: str) -> NamespaceStandard:
    """Read the standard set in a namespace itself."""
    return _visible_standards(ctx, session, [_normalize_namespace(namespace)])[0]


def get_standard_chain(ctx: Context, session: Session, namespace: str) -> list[NamespaceStandard]:
    """List all namespaces whose standards apply to this one, most general first.

    First `*`, then explicit parents, then ancestors by path, then the namespace itself.
    """
    path = [] if namespace == EVERYWHERE else list(reversed(with_ancestors(_normalize_namespace(namespace))))
    parents = [place for place in _list_parents(session, path) if ctx.caller.can_access(place)]
    return _visible_standards(ctx, session, [EVERYWHERE, *reversed(parents), *path])


def list_standards(ctx: Context, session: Session, namespace: str) -> list[Memory]:
    """Read the distinct standards that apply to a namespace, most general first."""
    found = {shown.memory.id: shown.memory for shown in get_standard_chain(ctx, session, namespace) if shown.memory}
    return list(found.values())


def _list_parents(session: Session, path: list[str]) -> list[str]:
    """List the explicit parents of a path, nearest first; cycles and long chains are cut."""
    found: list[str] = []
    following = path
    while following and len(found) < MAX_PARENTS:
        known = _read_standards(session, following)
        nexts = [known[place].parent for place in reversed(following) if place in known]
        following = [
            place for place in dict.fromkeys(nexts) if place is not None and place not in path and place not in found
        ]
        found += following
    return found[:MAX_PARENTS]


def _read_standards(session: Session, namespaces: Iterable[str]) -> dict[str, Standard]:
    return {row[0]: Standard(*row) for row in session.rows("standard_some", ids=list(namespaces))}


def _visible_standards(ctx: Context, session: Session, namespaces: list[str]) -> list[NamespaceStandard]:
    """Read the standards of some namespaces; one with a deleted or invisible memory is None."""
    known = _read_standards(session, namespaces)
    ids = [standard.memory for standard in known.values()]
    seen = memories.by_ids(session, ctx.caller, ids, ctx.now()) if ids else {}
    return [
        NamespaceStandard(place, seen.get(known[place].memory), known[place].parent)
        if place in known
        else NamespaceStandard(place, None, None)
        for place in namespaces
    ]


def _normalize_namespace(namespace: str, field: str = "namespace") -> str:
    return EVERYWHERE if namespace == EVERYWHERE else validate.namespace(namespace, field)
