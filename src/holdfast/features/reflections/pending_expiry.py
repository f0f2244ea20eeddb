"""Invalidations due to expiry, computed on read.

Reads do not write. Until garbage collection stores these invalidations, they are computed exactly as they will be
written.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from holdfast.features.namespaces import policy_store as policies
from holdfast.features.reflections.invalidation import INVALIDATION, Cause, Invalidation, Standing, id_of
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.storage.port import Session

MOST_HOPS = 64


class Untold(NamedTuple):
    """A dependent of an expired source, without a stored invalidation yet."""

    dependent: str
    fell: str
    hop: int
    cause: Cause
    since: int

    def as_told(self, origin: str) -> Invalidation:
        """Build the invalidation that will be written."""
        return Invalidation(
            id=id_of(self.fell, self.fell, self.dependent),
            invalidated=self.fell,
            invalidating=self.fell,
            dependent=self.dependent,
            hop=self.hop,
            cause=self.cause,
            status="open",
            reason=None,
            resolver=None,
            created_at=self.since,
            updated_at=self.since,
            origin=origin,
            version=1,
        )


def of(session: Session, ids: Sequence[str], now: int) -> list[Untold]:
    """List the pending expiries of the sources of some memories."""
    rows = session.rows("untold_grounds", ids=list(ids), hops=MOST_HOPS, now=now) if ids else []
    return _untold(session, [(root, fell, hop) for root, fell, hop in rows], now)


def everything(session: Session, now: int) -> list[Untold]:
    """List all pending expiries."""
    roots = sorted({id for (id,) in session.rows("untold_roots", now=now)})
    rows = session.rows("invalidation_reach", roots=roots, without=[], hops=MOST_HOPS, now=now) if roots else []
    return _untold(session, [(dependent, root, hop) for root, dependent, hop in rows], now)


def tell(write: Transaction, fell: Iterable[str]) -> None:
    """Collect some expired sources now, so that their dependents are notified at the end of the transaction."""
    ids = sorted(fell)
    write.session.do("untold_release", ids=ids, now=write.now)
    write.expired(ids)


def _untold(session: Session, found: Sequence[tuple[str, str, int]], now: int) -> list[Untold]:
    """Drop pairs that are already reported or beyond the policy's hop limit."""
    if not found:
        return []
    statuses = _known(session, {fell for _, fell, _ in found})
    written_at = _told(session, (id_of(fell, fell, dependent) for dependent, fell, _ in found))
    hops = {fell: policies.resolved(session, one.namespace).invalidation_hops for fell, one in statuses.items()}
    return [
        Untold(dependent, fell, hop, cause, since)
        for dependent, fell, hop in found
        if (cause := statuses[fell].away(now))
        and hop <= hops[fell]
        and written_at.get(id_of(fell, fell, dependent), -1) < (since := statuses[fell].over_since(now))
    ]


def _known(session: Session, ids: Iterable[str]) -> dict[str, Standing]:
    return {row[0]: Standing(*row) for row in session.rows("invalidation_standing", ids=sorted(ids))}


def _told(session: Session, ids: Iterable[str]) -> dict[str, int]:
    """Read when each invalidation was last written."""
    rows = session.rows("invalidation_some", ids=list(ids))
    return {one.id: one.updated_at for one in map(INVALIDATION.load, rows)}
