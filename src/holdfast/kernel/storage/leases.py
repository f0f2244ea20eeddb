"""Leases: exclusive rights with an end, so that a crashed owner blocks others only until then."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from holdfast.kernel.context import Context
from holdfast.kernel.errors import Conflict
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import format_timestamp


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


class JobLease(NamedTuple):
    """The lease of a job that one process at a time may run on a store."""

    name: str
    duration: int
    busy: str
    """Message of the error, with {until}: the end of the lease that another process holds."""
    error: type[Conflict] = Conflict

    def take(self, session: Session, owner: str, now: int) -> None:
        """Take or extend the lease. Raises if another process holds it."""
        if not acquire(session, self.name, owner, now + self.duration, now):
            lease = get_lease(session, self.name, now)
            until = format_timestamp(now if lease is None else lease.ends_at)
            raise self.error(self.busy.format(until=until), retryable=True)

    def renew(self, ctx: Context, owner: str) -> None:
        with ctx.store.transaction() as session:
            self.take(session, owner, ctx.now())

    @contextmanager
    def hold(self, ctx: Context, owner: str) -> Iterator[None]:
        """Hold the lease. A crashed holder blocks others only until it ends.

        From here on the operation may commit, so a cancelled caller is no longer told that nothing was written.
        """
        ctx.progress.begin_commit()
        self.renew(ctx, owner)
        try:
            yield
        finally:
            with ctx.store.transaction() as session:
                release(session, self.name, owner)
