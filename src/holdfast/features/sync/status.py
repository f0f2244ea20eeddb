"""Record the contacts with peers and report how far each side lags."""

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from holdfast.features.sync.peers import store as peers
from holdfast.features.sync.quorum.pending_acks import count_pending
from holdfast.features.sync.read_changes import Handshake, advance_cursor
from holdfast.kernel.context import Context
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.kinds import KINDS
from holdfast.kernel.records.fields import Named
from holdfast.kernel.storage.port import Row, Session
from holdfast.kernel.timestamps import SECOND, Time

MIN_CLOCK_SKEW = 120 * SECOND
"""Difference of two clocks from which it is reported."""
MIN_WRITE_INTERVAL = 30 * SECOND
"""Microseconds within which a contact without any change is not written."""


class PeerInfo(Struct, frozen=True, kw_only=True):
    """Another store as of the last contact."""

    node: str
    origin: str
    seq: int
    """The end of its journal."""
    followed: int
    """Its cursor in the journal here."""
    numbers: dict[str, int]
    """Its version vector."""
    release: str
    unknown: tuple[str, ...]
    """Record kinds here that its release does not know; it quarantines them until it is upgraded."""
    ahead: int
    """How far its clock was ahead of the local one, in microseconds."""
    at: int


class PeerAttempts(Struct, frozen=True, kw_only=True):
    """Exchange attempts with one server."""

    address: str
    node: str | None = None
    tried_at: int
    succeeded_at: int | None = None
    failed_at: int | None = None
    error: str | None = None
    """Why the last exchange failed; None if it succeeded."""
    failures: int = 0
    """Consecutive failures."""
    pulled: int = 0
    pushed: int = 0
    conflicts: int = 0


class PeerStatus(Struct, frozen=True, kw_only=True):
    """Replication state of one peer, as far as known."""

    name: Annotated[str, Named("peer")]
    """Its name as a peer, else its address, else its node."""
    state: Literal["ok", "failing", "unheard"]
    url: str | None = None
    node: str | None = None
    release: str | None = None
    unknown_there: list[str] | None = None
    """Record kinds here that its release does not know; it quarantines them until it is upgraded."""
    behind_here: int | None = None
    """Changes on the peer not yet pulled, as of the last contact."""
    behind_there: int | None = None
    """Changes here that the peer has not pulled, as of the last contact."""
    last_heard: Time | None = None
    last_success: Time | None = None
    last_failure: Time | None = None
    last_error: str | None = None
    """Why the last exchange failed; absent after a success."""
    failures: int = 0
    """Consecutive failures."""
    pulled: int = 0
    pushed: int = 0
    conflicts: int = 0
    """All conflicts met in exchanges with it, resolved ones included. Open conflicts are counted for the whole store
    only."""
    quarantined: int
    clock_ahead_secs: float | None = None
    """How far its clock is ahead of the local one, if more than two minutes."""


class SyncStatus(Struct, frozen=True, kw_only=True):
    node: str
    seq: int
    peers: list[PeerStatus]
    conflicts: int
    """Open conflicts of the whole store."""
    quarantined: int
    pending_replication: int
    """Changes of this store with too few acknowledgements, under quorum writes."""
    pending_since: Time | None = None


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
        before, place = (get_peer_info(session, greeting.node), list_cursors(session).get(greeting.origin, 0))
    if before is None or _is_different(before, info) or now - before.at > MIN_WRITE_INTERVAL or reached > place:
        with ctx.store.transaction() as session:
            put_peer_info(session, info)
            if reached > place:
                advance_cursor(session, greeting, reached, now)


def _is_different(before: PeerInfo, after: PeerInfo) -> bool:
    return replace(before, at=0, ahead=0) != replace(after, at=0, ahead=0)


def record_success(ctx: Context, address: str, node: str, *, pulled: int, pushed: int, conflicts: int) -> None:
    """Record a completed exchange with its counts of memories and conflicts."""
    now = ctx.now()
    with ctx.reading() as session:
        before = get_attempts(session, address) or PeerAttempts(address=address, tried_at=now)
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
        put_attempts(session, after)


def record_failure(ctx: Context, address: str, error: HoldfastError, *, stays: bool) -> None:
    """Record a failed exchange and its error; a first failure only if the address is synced repeatedly."""
    now = ctx.now()
    with ctx.reading() as session:
        before = get_attempts(session, address)
    if before is None and not stays:
        return
    with ctx.store.transaction() as session:
        before = get_attempts(session, address) or PeerAttempts(address=address, tried_at=now)
        after = replace(before, tried_at=now, failed_at=now, error=error.message, failures=before.failures + 1)
        put_attempts(session, after)


def read_status(ctx: Context) -> SyncStatus:
    """Return the state of all peers: enrolled, contacted from here, or contacting this store."""
    with ctx.reading() as session:
        known = _KnownState(
            journal.get_head(session).seq, list_peer_info(session), list_cursors(session), count_quarantined(session)
        )
        enrolled, links = peers.list_peers(session), list_attempts(session)
        (conflicts,) = session.row("conflict_total") or (0,)
        node = journal.get_head(session).node
        pending, pending_since = count_pending(session)
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
    return SyncStatus(
        node=node,
        seq=known.seq,
        peers=statuses,
        conflicts=conflicts,
        quarantined=sum(known.quarantined.values()),
        pending_replication=pending,
        pending_since=pending_since,
    )


class _KnownState(NamedTuple):
    """The data from which the state of a peer is computed."""

    seq: int
    seen: dict[str, PeerInfo]
    followed: dict[str, int]
    quarantined: dict[str, int]

    def build_status(self, name: str, url: str | None, node: str | None, attempts: PeerAttempts | None) -> PeerStatus:
        info = self.seen.get(node or "")
        status = PeerStatus(
            name=name,
            state="failing" if attempts and attempts.error is not None else "ok" if info else "unheard",
            url=url,
            node=node,
            quarantined=self.quarantined.get(node or "", 0),
        )
        if info:
            status = replace(
                status,
                release=info.release,
                unknown_there=list(info.unknown) or None,
                behind_here=max(info.seq - self.followed.get(info.origin, 0), 0),
                behind_there=max(self.seq - info.followed, 0),
                last_heard=info.at,
                clock_ahead_secs=round(info.ahead / SECOND, 1) if abs(info.ahead) > MIN_CLOCK_SKEW else None,
            )
        if attempts:
            status = replace(
                status,
                last_success=attempts.succeeded_at,
                last_failure=attempts.failed_at,
                last_error=attempts.error,
                failures=attempts.failures,
                pulled=attempts.pulled,
                pushed=attempts.pushed,
                conflicts=attempts.conflicts,
            )
        return status


# Tables of the last handshake and the attempts per peer


def list_peer_info(session: Session) -> dict[str, PeerInfo]:
    return {row[0]: _to_peer_info(row) for row in session.rows("peer_seen_list")}


def get_peer_info(session: Session, node: str) -> PeerInfo | None:
    row = session.row("peer_seen_get", node=node)
    return _to_peer_info(row) if row else None


def put_peer_info(session: Session, one: PeerInfo) -> None:
    numbers = msgspec.json.encode(one.numbers, order="sorted").decode()
    texts = {"numbers": numbers, "unknown": " ".join(one.unknown)}
    session.do("peer_seen_put", **(asdict(one) | texts))


def list_attempts(session: Session) -> list[PeerAttempts]:
    return [_to_attempts(row) for row in session.rows("peer_link_list")]


def get_attempts(session: Session, address: str) -> PeerAttempts | None:
    row = session.row("peer_link_get", address=address)
    return _to_attempts(row) if row else None


def put_attempts(session: Session, made: PeerAttempts) -> None:
    session.do("peer_link_put", **asdict(made))


def forget_peer(session: Session, node: str) -> None:
    """Delete the status of a removed peer."""
    session.do("peer_seen_forget", node=node)
    session.do("peer_link_forget", node=node)


def list_cursors(session: Session) -> dict[str, int]:
    """Return the cursor per origin."""
    return dict(session.rows("sync_cursor_list"))


def count_quarantined(session: Session) -> dict[str, int]:
    """Count the quarantined changes per sender."""
    return dict(session.rows("quarantine_by_peer"))


def _to_peer_info(row: Row) -> PeerInfo:
    node, origin, seq, followed, numbers, release, unknown, ahead, at = row
    return PeerInfo(
        node=node,
        origin=origin,
        seq=seq,
        followed=followed,
        numbers=msgspec.json.decode(numbers),
        release=release,
        unknown=tuple(unknown.split()),
        ahead=ahead,
        at=at,
    )


def _to_attempts(row: Row) -> PeerAttempts:
    return PeerAttempts(**dict(zip(PeerAttempts.__struct_fields__, row, strict=True)))
