"""What could not be taken from other stores: seen, tried again, or let go."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from holdfast.features.admin.backup import must_reach_all
from holdfast.features.sync.peers import store as peers
from holdfast.features.sync.quarantine import store as quarantine
from holdfast.features.sync.quarantine.store import Quarantined
from holdfast.features.sync.receive_changes import Taken
from holdfast.features.sync.retry_quarantined import QuarantineRetry
from holdfast.kernel.context import Hold
from holdfast.kernel.records.namespace_patterns import ALL, Scope
from holdfast.kernel.storage.port import Session


class Retried(NamedTuple):
    """What became of a change that was tried again: why it is still aside, or None."""

    held: Quarantined
    still: Quarantined | None


def listed(hold: Hold, *, limit: int, skip: int) -> tuple[list[Quarantined], int]:
    """Some of it, newest first, and how much there is. It may be of any namespace."""
    must_reach_all(hold)
    with hold.reading() as session:
        return quarantine.page(session, limit=limit, skip=skip)


def senders(hold: Hold) -> dict[str, str]:
    """The name under which each node is enrolled here."""
    with hold.reading() as session:
        return {peer.node: peer.name for peer in peers.enrolled(session)}


def show(hold: Hold, id: str) -> Quarantined:
    must_reach_all(hold)
    with hold.reading() as session:
        return quarantine.one(session, id)


def retry(hold: Hold, ids: Sequence[str], *, trust_source: bool = False) -> list[Retried]:
    """Take changes as if they had just come, each sender's apart from the others'; without ids, all that there are."""
    must_reach_all(hold)
    owner = None if trust_source else hold.caller.agent
    with hold.reading() as session:
        held = [quarantine.one(session, id) for id in dict.fromkeys(ids)] or quarantine.every(session)
        scopes = {sender: _scope(session, sender[0], beyond=sender[1]) for sender in map(_sender, held)}
    for sender, many in groupby(sorted(held, key=_sender), key=_sender):
        QuarantineRetry(hold, Taken(), owner=owner, scope=scopes[sender]).retry(list(many))
    with hold.reading() as session:
        left = {one.id: one for one in quarantine.every(session)}
    return [Retried(one, left.get(one.id)) for one in held]


def _sender(held: Quarantined) -> tuple[str, bool]:
    """Who sent it, and whether it went beyond what its sender may tell."""
    return held.peer, held.reason in ("scope", "governance")


def _scope(session: Session, node: str, *, beyond: bool) -> Scope:
    """What is taken from a node: nothing that went too far, once it is no peer any more."""
    peer = peers.by_node(session, node)
    if peer is None:
        return Scope((), ()) if beyond else ALL
    return peer.scope


def take_due(hold: Hold) -> None:
    """Take what came from clocks that were ahead and whose time has come, though nothing new is told."""
    with hold.reading() as session:
        senders = {one.peer for one in quarantine.of_reasons(session, ["future"])}
        scopes = {_scope(session, peer, beyond=False) for peer in senders}
    for scope in sorted(scopes):
        QuarantineRetry(hold, Taken(), owner=None, scope=scope).due()


def drop(hold: Hold, ids: Sequence[str]) -> list[Quarantined]:
    """Let changes go for good: what was dropped, which is not taken if it comes again."""
    must_reach_all(hold)
    with hold.writing() as write:
        held = [quarantine.one(write.session, id) for id in dict.fromkeys(ids)]
        for one in held:
            quarantine.drop(write.session, one, hold.caller.agent, write.now)
    return held
