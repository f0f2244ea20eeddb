"""Who alone may do something for a while. A holder that dies keeps nobody waiting for longer than its time."""

from typing import NamedTuple

from holdfast.kernel.storage.port import Session


class Lease(NamedTuple):
    owner: str
    ends_at: int


def take(session: Session, name: str, owner: str, until: int, now: int) -> bool:
    """Have a lease, or have it for longer: whether it was free, over, or the owner's already."""
    return session.row("lease_take", name=name, owner=owner, ends_at=until, now=now) is not None


def release(session: Session, name: str, owner: str) -> None:
    """Let go of a lease; another's stays."""
    session.do("lease_release", name=name, owner=owner)


def held(session: Session, name: str, now: int) -> Lease | None:
    """Who has a lease that is not over."""
    row = session.row("lease_get", name=name)
    return Lease(*row) if row is not None and row[1] > now else None
