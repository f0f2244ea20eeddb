"""Namespaces: memory counts, the tree, standards and policies."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from msgspec.structs import replace

from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import EVERYTHING, Filter
from holdfast.features.namespaces.model import POLICY, RULES, STANDARD, Policy, Standard, validate_rules
from holdfast.features.namespaces.resolve_rules import EVERYWHERE
from holdfast.kernel.context import Context, with_ancestors
from holdfast.kernel.errors import Forbidden, Invalid
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import taxonomy as tree
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session

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
    namespace, parent = normalize_namespace(namespace), parent and normalize_namespace(parent, "parent")
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
        known = write.get(STANDARD, normalize_namespace(namespace))
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
    return _visible_standards(ctx, session, [normalize_namespace(namespace)])[0]


def get_standard_chain(ctx: Context, session: Session, namespace: str) -> list[NamespaceStandard]:
    """List all namespaces whose standards apply to this one, most general first.

    First `*`, then explicit parents, then ancestors by path, then the namespace itself.
    """
    path = [] if namespace == EVERYWHERE else list(reversed(with_ancestors(normalize_namespace(namespace))))
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


def normalize_namespace(namespace: str, field: str = "namespace") -> str:
    return EVERYWHERE if namespace == EVERYWHERE else validate.namespace(namespace, field)


# Policies


def set_policy(ctx: Context, namespace: str, rules: dict[str, Any], inherit: tuple[str, ...] = ()) -> Policy:
    """Set some rules of a namespace; rules in `inherit` are unset; others stay."""
    place, given = normalize_namespace(namespace), validate_rules(rules)
    require_policy_admin(ctx, place)
    if unknown := [name for name in inherit if name not in RULES or name in given]:
        raise Invalid(f"inherit: {unknown[0]!r} is not a rule, or is set in the same request", fields=["inherit"])
    if not given and not inherit:
        raise Invalid(f"Give at least one rule: {', '.join(RULES)}.", fields=list(RULES))
    with ctx.transaction() as write:
        known = write.get(POLICY, place)
        if known is None:
            fresh = Policy(place, given, ctx.caller.agent, write.now, write.now, write.origin, 1)
            return write.add(POLICY, fresh, "policy")
        current = known.rules if known.state == "live" else {}
        wanted = {name: value for name, value in {**current, **given}.items() if name not in inherit}
        return write.change(POLICY, known, replace(known, rules=wanted, state="live"), "policy")


def clear_policy(ctx: Context, namespace: str) -> bool:
    """Remove the policy of a namespace; return whether it had one."""
    place = normalize_namespace(namespace)
    require_policy_admin(ctx, place)
    with ctx.transaction() as write:
        known = write.get(POLICY, place)
        if known is None or known.state != "live":
            return False
        write.change(POLICY, known, replace(known, state="deleted"), "policy")
        return True


def require_policy_admin(ctx: Context, namespace: str) -> None:
    """Raise unless the caller has the admin right and can access the namespace: rules bind everybody else."""
    if not ctx.caller.has_right("admin"):
        raise Forbidden(f"Changing the policy of {namespace!r} requires the admin right: use an admin key.")
    ctx.caller.require_access(namespace)
