"""Resolve aliases of principals."""

from collections.abc import Sequence

from holdfast.features.people.model import MAX_HOPS, alias_chain, canonical_name, principal_id
from holdfast.kernel.storage.port import Session


def list_names(session: Session, name: str) -> tuple[str, ...]:
    """List every name of a principal, given any of them; the principal comes first."""
    first = resolve_principal(session, name)
    found, fresh = [first], [first]
    while fresh:
        behind = [row[0] for row in session.rows("principal_aliases", names=fresh)]
        fresh = [other for other in behind if other not in found]
        found += fresh
    return tuple(found)


def list_all_names(session: Session, names: Sequence[str]) -> tuple[str, ...]:
    """List every name of several principals."""
    return tuple(dict.fromkeys(other for name in names for other in list_names(session, name)))


def resolve_principal(session: Session, name: str) -> str:
    """Return the principal that a name stands for."""
    follows: dict[str, str] = {}
    at: str | None = name
    while at is not None and at not in follows and len(follows) <= MAX_HOPS:
        row = session.row("principal_target", id=principal_id(at))
        if row is None or row[0] is None:
            break
        follows[at] = row[0]
        at = row[0]
    return canonical_name(alias_chain(name, follows))
