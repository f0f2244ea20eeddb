"""List, retry and drop quarantined changes."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from holdfast.features.sync.apply_changes import SyncResult
from holdfast.features.sync.peers import store as peers
from holdfast.features.sync.quarantine import store as quarantine_store
from holdfast.features.sync.quarantine.retry import QuarantineRetry
from holdfast.features.sync.quarantine.store import QuarantinedChange
from holdfast.kernel.context import Context
from holdfast.kernel.records.namespace_patterns import FULL_SCOPE, PeerScope
from holdfast.kernel.storage.port import Session


class RetryOutcome(NamedTuple):
    """The result of a retry; `still` is None if the change was applied."""

    change: QuarantinedChange
    still_quarantined: QuarantinedChange | None


def list_quarantined(ctx: Context, *, limit: int, skip: int) -> tuple[list[QuarantinedChange], int]:
    """List quarantined changes of all namespaces, newest first, with their total."""
    ctx.caller.require_all_namespaces()
    with ctx.reading() as session:
        return quarantine_store.list_page(session, limit=limit, skip=skip)


def get_sender_names(ctx: Context) -> dict[str, str]:
    """Return the peer name of each enrolled node."""
    with ctx.reading() as session:
        return {peer.node: peer.name for peer in peers.list_peers(session)}


def get_quarantined(ctx: Context, id: str) -> QuarantinedChange:
    ctx.caller.require_all_namespaces()
    with ctx.reading() as session:
        return quarantine_store.get_by_id(session, id)


def retry_quarantined(ctx: Context, ids: Sequence[str], *, trust_source: bool = False) -> list[RetryOutcome]:
    """Retry changes as if they had just arrived, separately per sender; without ids, all of them."""
    ctx.caller.require_all_namespaces()
    owner = None if trust_source else ctx.caller.agent
    with ctx.reading() as session:
        changes = [quarantine_store.get_by_id(session, id) for id in dict.fromkeys(ids)] or quarantine_store.list_all(
            session
        )
        scopes = {sender: _get_scope(session, sender[0], beyond=sender[1]) for sender in map(_sender_key, changes)}
    for sender, many in groupby(sorted(changes, key=_sender_key), key=_sender_key):
        QuarantineRetry(ctx, SyncResult(), owner=owner, scope=scopes[sender]).retry(list(many))
    with ctx.reading() as session:
        remaining = {one.id: one for one in quarantine_store.list_all(session)}
    return [RetryOutcome(one, remaining.get(one.id)) for one in changes]


def _sender_key(quarantined: QuarantinedChange) -> tuple[str, bool]:
    """Return the sender, and whether the change exceeded the sender's rights."""
    return quarantined.peer, quarantined.reason in ("scope", "governance")


def _get_scope(session: Session, node: str, *, beyond: bool) -> PeerScope:
    """Return the scope of a node. A removed peer's changes beyond its rights are never applied."""
    peer = peers.find_by_node(session, node)
    if peer is None:
        return PeerScope((), ()) if beyond else FULL_SCOPE
    return peer.scope


def apply_due(ctx: Context) -> None:
    """Apply changes from fast clocks whose time has come, without waiting for an exchange."""
    with ctx.reading() as session:
        senders = {one.peer for one in quarantine_store.list_by_reasons(session, ["future"])}
        scopes = {_get_scope(session, peer, beyond=False) for peer in senders}
    for scope in sorted(scopes):
        QuarantineRetry(ctx, SyncResult(), owner=None, scope=scope).retry_due()


def drop_quarantined(ctx: Context, ids: Sequence[str]) -> list[QuarantinedChange]:
    """Drop changes permanently and return them; they are rejected if they arrive again."""
    ctx.caller.require_all_namespaces()
    with ctx.transaction() as write:
        changes = [quarantine_store.get_by_id(write.session, id) for id in dict.fromkeys(ids)]
        for one in changes:
            quarantine_store.drop_change(write.session, one, ctx.caller.agent, write.now)
    return changes
