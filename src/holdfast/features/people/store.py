"""Resolve aliases of principals."""

from collections.abc import Sequence

from holdfast.features.people.principal import MOST_HOPS, canonical, chain_of, id_of
from holdfast.kernel.storage.port import Session


def known_as(session: Session, name: str) -> tuple[str, ...]:
    """List every name of a principal, given any of them; the principal comes first."""
    first = resolve(session, name)
    found, fresh = [first], [first]
    while fresh:
        behind = [row[0] for row in session.rows("principal_behind", names=fresh)]
        fresh = [other for other in behind if other not in found]
        found += fresh
    return tuple(found)


def all_known_as(session: Session, names: Sequence[str]) -> tuple[str, ...]:
    """List every name of several principals."""
    return tuple(dict.fromkeys(other for name in names for other in known_as(session, name)))


def resolve(session: Session, name: str) -> str:
    """Return the principal that a name stands for."""
    follows: dict[str, str] = {}
    at: str | None = name
    while at is not None and at not in follows and len(follows) <= MOST_HOPS:
        row = session.row("principal_next", id=id_of(at))
        if row is None or row[0] is None:
            break
        follows[at] = row[0]
        at = row[0]
    return canonical(chain_of(name, follows))
