"""Invalidations due to expiry, computed on read.

Reads do not write. Until garbage collection stores these invalidations, they are computed exactly as they will be
written.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from holdfast.features.namespaces import policy_store
from holdfast.features.reflections.invalidation import INVALIDATION, Cause, Invalidation, SourceStatus, invalidation_id
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.storage.port import Session

MAX_HOPS = 64


class VirtualInvalidation(NamedTuple):
    """A dependent of an expired source, without a stored invalidation yet."""

    dependent: str
    source: str
    hop: int
    cause: Cause
    since: int

    def to_invalidation(self, origin: str) -> Invalidation:
        """Build the invalidation that will be written."""
        return Invalidation(
            id=invalidation_id(self.source, self.source, self.dependent),
            invalidated=self.source,
            invalidating=self.source,
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


def list_for(session: Session, ids: Sequence[str], now: int) -> list[VirtualInvalidation]:
    """List the pending expiries of the sources of some memories."""
    rows = session.rows("expired_sources", ids=list(ids), hops=MAX_HOPS, now=now) if ids else []
    return _build_virtual(session, [(root, fell, hop) for root, fell, hop in rows], now)


def list_all(session: Session, now: int) -> list[VirtualInvalidation]:
    """List all pending expiries."""
    roots = sorted({id for (id,) in session.rows("expired_roots", now=now)})
    rows = session.rows("invalidation_dependents", roots=roots, without=[], hops=MAX_HOPS, now=now) if roots else []
    return _build_virtual(session, [(dependent, root, hop) for root, dependent, hop in rows], now)


def expire_sources(write: Transaction, sources: Iterable[str]) -> None:
    """Collect some expired sources now, so that their dependents are notified at the end of the transaction."""
    ids = sorted(sources)
    write.session.do("expired_collect", ids=ids, now=write.now)
    write.expire(ids)


def _build_virtual(session: Session, found: Sequence[tuple[str, str, int]], now: int) -> list[VirtualInvalidation]:
    """Drop pairs that are already reported or beyond the policy's hop limit."""
    if not found:
        return []
    statuses = _read_statuses(session, {fell for _, fell, _ in found})
    written_at = _read_updated_at(session, (invalidation_id(fell, fell, dependent) for dependent, fell, _ in found))
    hops = {
        fell: policy_store.resolve_rules(session, one.namespace).invalidation_hops for fell, one in statuses.items()
    }
    return [
        VirtualInvalidation(dependent, fell, hop, cause, since)
        for dependent, fell, hop in found
        if (cause := statuses[fell].unavailable_because(now))
        and hop <= hops[fell]
        and written_at.get(invalidation_id(fell, fell, dependent), -1) < (since := statuses[fell].expired_at(now))
    ]


def _read_statuses(session: Session, ids: Iterable[str]) -> dict[str, SourceStatus]:
    return {row[0]: SourceStatus(*row) for row in session.rows("invalidation_source_status", ids=sorted(ids))}


def _read_updated_at(session: Session, ids: Iterable[str]) -> dict[str, int]:
    """Read when each invalidation was last written."""
    rows = session.rows("invalidation_some", ids=list(ids))
    return {one.id: one.updated_at for one in map(INVALIDATION.load, rows)}
