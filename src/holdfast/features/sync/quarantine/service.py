"""List, retry and drop quarantined changes."""

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
    """The result of a retry; `still` is None if the change was applied."""

    held: Quarantined
    still: Quarantined | None


def listed(hold: Hold, *, limit: int, skip: int) -> tuple[list[Quarantined], int]:
    """List quarantined changes of all namespaces, newest first, with their total."""
    must_reach_all(hold)
    with hold.reading() as session:
        return quarantine.page(session, limit=limit, skip=skip)


def senders(hold: Hold) -> dict[str, str]:
    """Return the peer name of each enrolled node."""
    with hold.reading() as session:
        return {peer.node: peer.name for peer in peers.enrolled(session)}


def show(hold: Hold, id: str) -> Quarantined:
    must_reach_all(hold)
    with hold.reading() as session:
        return quarantine.one(session, id)


def retry(hold: Hold, ids: Sequence[str], *, trust_source: bool = False) -> list[Retried]:
    """Retry changes as if they had just arrived, separately per sender; without ids, all of them."""
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
    """Return the sender, and whether the change exceeded the sender's rights."""
    return held.peer, held.reason in ("scope", "governance")


def _scope(session: Session, node: str, *, beyond: bool) -> Scope:
    """Return the scope of a node. A removed peer's changes beyond its rights are never applied."""
    peer = peers.by_node(session, node)
    if peer is None:
        return Scope((), ()) if beyond else ALL
    return peer.scope


def take_due(hold: Hold) -> None:
    """Apply changes from fast clocks whose time has come, without waiting for an exchange."""
    with hold.reading() as session:
        senders = {one.peer for one in quarantine.of_reasons(session, ["future"])}
        scopes = {_scope(session, peer, beyond=False) for peer in senders}
    for scope in sorted(scopes):
        QuarantineRetry(hold, Taken(), owner=None, scope=scope).due()


def drop(hold: Hold, ids: Sequence[str]) -> list[Quarantined]:
    """Drop changes permanently and return them; they are rejected if they arrive again."""
    must_reach_all(hold)
    with hold.writing() as write:
        held = [quarantine.one(write.session, id) for id in dict.fromkeys(ids)]
        for one in held:
            quarantine.drop(write.session, one, hold.caller.agent, write.now)
    return held
