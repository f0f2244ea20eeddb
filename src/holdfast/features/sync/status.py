"""Record the contacts with peers and report how far each side lags."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.features.sync import status_store as kept
from holdfast.features.sync.exchange import Synced
from holdfast.features.sync.peers import store as peers
from holdfast.features.sync.quorum import store as unreplicated
from holdfast.features.sync.read_changes import Greeting
from holdfast.features.sync.status_store import Attempts, Seen
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.kinds import KINDS

STALE = 30 * 10**6
"""Microseconds within which a contact without any change is not written."""


class Standing(NamedTuple):
    """Replication state of one peer, as far as known."""

    name: str
    url: str | None
    node: str | None
    seen: Seen | None
    attempts: Attempts | None
    behind_here: int | None
    """Entries of its journal not yet pulled."""
    behind_there: int | None
    quarantined: int


class Overview(NamedTuple):
    node: str
    seq: int
    peers: list[Standing]
    conflicts: int
    quarantined: int
    pending: int
    pending_since: int | None


def heard(
    hold: Hold, greeting: Greeting, followed: int, *, release: str, kinds: Sequence[str], reached: int = 0
) -> None:
    """Record the handshake of another store and the cursor in its journal, if changed."""
    now = hold.now()
    told = Seen(
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
    with hold.reading() as session:
        before, place = kept.seen_of(session, greeting.node), kept.followed(session).get(greeting.origin, 0)
    if before is None or _differs(before, told) or now - before.at > STALE or reached > place:
        with hold.store.writing() as session:
            kept.note(session, told)
            if reached > place:
                session.do("followed_put", origin=greeting.origin, seq=reached, scope=greeting.scope, now=now)


def _differs(before: Seen, told: Seen) -> bool:
    return replace(before, at=0, ahead=0) != replace(told, at=0, ahead=0)


def succeeded(hold: Hold, address: str, node: str, done: Synced) -> None:
    """Record a completed exchange."""
    now = hold.now()
    with hold.reading() as session:
        before = kept.attempts_at(session, address) or Attempts(address=address, tried_at=now)
    after = replace(
        before,
        node=node,
        tried_at=now,
        succeeded_at=now,
        error=None,
        failures=0,
        pulled=before.pulled + done.pulled.memories,
        pushed=before.pushed + done.pushed.memories,
        conflicts=before.conflicts + done.conflicts,
    )
    if replace(after, tried_at=0, succeeded_at=0) == replace(before, tried_at=0, succeeded_at=0) and (
        now - (before.succeeded_at or 0) < STALE
    ):
        return
    with hold.store.writing() as session:
        kept.note_attempts(session, after)


def failed(hold: Hold, address: str, error: HoldfastError, *, stays: bool) -> None:
    """Record a failed exchange and its error; a first failure only if the address is synced repeatedly."""
    now = hold.now()
    with hold.reading() as session:
        before = kept.attempts_at(session, address)
    if before is None and not stays:
        return
    with hold.store.writing() as session:
        before = kept.attempts_at(session, address) or Attempts(address=address, tried_at=now)
        after = replace(before, tried_at=now, failed_at=now, error=error.message, failures=before.failures + 1)
        kept.note_attempts(session, after)


def overview(hold: Hold) -> Overview:
    """Return the state of all peers: enrolled, contacted from here, or contacting this store."""
    with hold.reading() as session:
        known = _Known(
            journal.head_of(session).seq, kept.seen(session), kept.followed(session), kept.quarantined(session)
        )
        enrolled, links = peers.enrolled(session), kept.attempts(session)
        (conflicts,) = session.row("conflict_total") or (0,)
        node = journal.head_of(session).node
        pending = unreplicated.waiting(session)
    asked = {one.node: one for one in links if one.node} | {one.address.rstrip("/"): one for one in links}
    tried = {one.name: asked.get(one.node) or asked.get((one.url or "").rstrip("/")) for one in enrolled}
    found = [known.of(one.name, one.url, one.node, tried[one.name]) for one in enrolled]
    shown = {one.address for one in tried.values() if one}
    found += [known.of(one.address, one.address, one.node, one) for one in links if one.address not in shown]
    named = {one.node for one in found}
    found += [known.of(one, None, one, None) for one in known.seen if one not in named]
    return Overview(node, known.seq, found, conflicts, sum(known.aside.values()), *pending)


class _Known(NamedTuple):
    """The data from which the state of a peer is computed."""

    seq: int
    seen: dict[str, Seen]
    followed: dict[str, int]
    aside: dict[str, int]

    def of(self, name: str, url: str | None, node: str | None, attempts: Attempts | None) -> Standing:
        seen = self.seen.get(node or "")
        return Standing(
            name=name,
            url=url,
            node=node,
            seen=seen,
            attempts=attempts,
            behind_here=max(seen.seq - self.followed.get(seen.origin, 0), 0) if seen else None,
            behind_there=max(self.seq - seen.followed, 0) if seen else None,
            quarantined=self.aside.get(node or "", 0),
        )
