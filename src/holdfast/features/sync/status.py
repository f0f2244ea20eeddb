"""Record the contacts with peers and report how far each side lags."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.features.sync import status_store
from holdfast.features.sync.peers import store as peers
from holdfast.features.sync.quorum import store as ack_store
from holdfast.features.sync.read_changes import Handshake, advance_cursor
from holdfast.features.sync.status_store import PeerAttempts, PeerInfo
from holdfast.kernel.context import Context
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.kinds import KINDS

MIN_WRITE_INTERVAL = 30 * 10**6
"""Microseconds within which a contact without any change is not written."""


class PeerStatus(NamedTuple):
    """Replication state of one peer, as far as known."""

    name: str
    url: str | None
    node: str | None
    seen: PeerInfo | None
    attempts: PeerAttempts | None
    behind_here: int | None
    """Entries of its journal not yet pulled."""
    behind_there: int | None
    quarantined: int


class SyncOverview(NamedTuple):
    node: str
    seq: int
    peers: list[PeerStatus]
    conflicts: int
    quarantined: int
    pending: int
    pending_since: int | None


def record_peer(
    ctx: Context, greeting: Handshake, followed: int, *, release: str, kinds: Sequence[str], reached: int = 0
) -> None:
    """Record the handshake of another store and the cursor in its journal, if changed."""
    now = ctx.now()
    info = PeerInfo(
        node=greeting.node,
        origin=greeting.origin,
        seq=greeting.seq,
        followed=followed,
        numbers={origin: reached.n for origin, reached in greeting.vector.items()},
        release=release,
        unknown=tuple(sorted(KINDS.keys() - set(kinds))),
        ahead=greeting.now - now,
        at=now,
    )
    with ctx.reading() as session:
        before, place = (
            status_store.get_peer_info(session, greeting.node),
            status_store.list_cursors(session).get(greeting.origin, 0),
        )
    if before is None or _is_different(before, info) or now - before.at > MIN_WRITE_INTERVAL or reached > place:
        with ctx.store.transaction() as session:
            status_store.put_peer_info(session, info)
            if reached > place:
                advance_cursor(session, greeting, reached, now)


def _is_different(before: PeerInfo, after: PeerInfo) -> bool:
    return replace(before, at=0, ahead=0) != replace(after, at=0, ahead=0)


def record_success(ctx: Context, address: str, node: str, *, pulled: int, pushed: int, conflicts: int) -> None:
    """Record a completed exchange with its counts of memories and conflicts."""
    now = ctx.now()
    with ctx.reading() as session:
        before = status_store.get_attempts(session, address) or PeerAttempts(address=address, tried_at=now)
    after = replace(
        before,
        node=node,
        tried_at=now,
        succeeded_at=now,
        error=None,
        failures=0,
        pulled=before.pulled + pulled,
        pushed=before.pushed + pushed,
        conflicts=before.conflicts + conflicts,
    )
    if replace(after, tried_at=0, succeeded_at=0) == replace(before, tried_at=0, succeeded_at=0) and (
        now - (before.succeeded_at or 0) < MIN_WRITE_INTERVAL
    ):
        return
    with ctx.store.transaction() as session:
        status_store.put_attempts(session, after)


def record_failure(ctx: Context, address: str, error: HoldfastError, *, stays: bool) -> None:
    """Record a failed exchange and its error; a first failure only if the address is synced repeatedly."""
    now = ctx.now()
    with ctx.reading() as session:
        before = status_store.get_attempts(session, address)
    if before is None and not stays:
        return
    with ctx.store.transaction() as session:
        before = status_store.get_attempts(session, address) or PeerAttempts(address=address, tried_at=now)
        after = replace(before, tried_at=now, failed_at=now, error=error.message, failures=before.failures + 1)
        status_store.put_attempts(session, after)


def read_overview(ctx: Context) -> SyncOverview:
    """Return the state of all peers: enrolled, contacted from here, or contacting this store."""
    with ctx.reading() as session:
        known = _KnownState(
            journal.get_head(session).seq,
            status_store.list_peer_info(session),
            status_store.list_cursors(session),
            status_store.count_quarantined(session),
        )
        enrolled, links = peers.list_peers(session), status_store.list_attempts(session)
        (conflicts,) = session.row("conflict_total") or (0,)
        node = journal.get_head(session).node
        pending = ack_store.count_pending(session)
    by_address = {one.node: one for one in links if one.node} | {one.address.rstrip("/"): one for one in links}
    tried = {one.name: by_address.get(one.node) or by_address.get((one.url or "").rstrip("/")) for one in enrolled}
    statuses = [known.build_status(one.name, one.url, one.node, tried[one.name]) for one in enrolled]
    listed_addresses = {one.address for one in tried.values() if one}
    statuses += [
        known.build_status(one.address, one.address, one.node, one)
        for one in links
        if one.address not in listed_addresses
    ]
    listed_nodes = {one.node for one in statuses}
    statuses += [known.build_status(one, None, one, None) for one in known.seen if one not in listed_nodes]
    return SyncOverview(node, known.seq, statuses, conflicts, sum(known.quarantined.values()), *pending)


class _KnownState(NamedTuple):
    """The data from which the state of a peer is computed."""

    seq: int
    seen: dict[str, PeerInfo]
    followed: dict[str, int]
    quarantined: dict[str, int]

    def build_status(self, name: str, url: str | None, node: str | None, attempts: PeerAttempts | None) -> PeerStatus:
        info = self.seen.get(node or "")
        return PeerStatus(
            name=name,
            url=url,
            node=node,
            seen=info,
            attempts=attempts,
            behind_here=max(info.seq - self.followed.get(info.origin, 0), 0) if info else None,
            behind_there=max(self.seq - info.followed, 0) if info else None,
            quarantined=self.quarantined.get(node or "", 0),
        )
