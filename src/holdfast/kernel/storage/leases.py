"""Leases: exclusive rights with an end, so that a crashed owner blocks others only until then."""

from typing import NamedTuple

from holdfast.kernel.storage.port import Session


class Lease(NamedTuple):
    owner: str
    ends_at: int


def acquire(session: Session, name: str, owner: str, until: int, now: int) -> bool:
    """Acquire or extend a lease; return whether it was free, ended, or already the owner's."""
    return session.row("lease_acquire", name=name, owner=owner, ends_at=until, now=now) is not None


def release(session: Session, name: str, owner: str) -> None:
    """Release a lease, if it is the owner's."""
    session.do("lease_release", name=name, owner=owner)


def get_lease(session: Session, name: str, now: int) -> Lease | None:
    """Return a lease that has not ended, else None."""
    row = session.row("lease_get", name=name)
    return Lease(*row) if row is not None and row[1] > now else None
