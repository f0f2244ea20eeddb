"""Enrol peers and set which namespaces each may read and write."""

import re
from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.features.sync import status
from holdfast.features.sync.peers import store as peers
from holdfast.features.sync.peers import token as peer_token
from holdfast.features.sync.peers.client import parse_address
from holdfast.features.sync.peers.store import Peer
from holdfast.features.sync.peers.token import PeerToken
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Conflict, Invalid, NotFound
from holdfast.kernel.journal import journal
from holdfast.kernel.net import fingerprint
from holdfast.kernel.records.namespace_patterns import EVERYTHING, validate_patterns
from holdfast.kernel.storage.port import Session

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
ALL_NAMESPACES = (EVERYTHING,)


def get_own_token(ctx: Context) -> PeerToken:
    """Return the token with which another store enrols this one."""
    ctx.caller.require_all_namespaces()
    with ctx.reading() as session:
        head = journal.get_head(session)
    return PeerToken(head.node, head.public_key)


def add_peer(
    ctx: Context,
    name: str,
    token: str,
    *,
    url: str | None = None,
    tell: Sequence[str] | None = None,
    take: Sequence[str] | None = None,
    admin: bool = False,
    pinned: str | None = None,
) -> Peer:
    """Enrol a store; its signature is accepted from now on."""
    ctx.caller.require_all_namespaces()
    if not _NAME.fullmatch(name):
        raise Invalid("name: 1 to 64 letters, digits or _ . -", fields=["name"])
    parsed = peer_token.parse_token(token)
    peer = Peer(
        name=name,
        node=parsed.node,
        public_key=parsed.public_key,
        url=_normalize_url(url),
        tell=list(validate_patterns(ALL_NAMESPACES if tell is None else tell, "tell")),
        take=list(validate_patterns(ALL_NAMESPACES if take is None else take, "take")),
        admin=admin,
        fingerprint=fingerprint.parse_fingerprint(pinned) if pinned else None,
        enrolled_at=ctx.now(),
    )
    with ctx.transaction() as write:
        _must_be_new(write.session, peer)
        peers.put_peer(write.session, peer)
    return peer


def _must_be_new(session: Session, peer: Peer) -> None:
    if peer.node == journal.get_head(session).node:
        raise Conflict("This is the token of this store. Use the token that the other store prints.")
    if peers.find_by_name(session, peer.name) is not None:
        raise Conflict(f"Peer {peer.name!r} exists already. Change it with `holdfast sync peers set`.", name=peer.name)
    if (known := peers.find_by_node(session, peer.node)) is not None:
        raise Conflict(f"This store is enrolled already, as {known.name!r}.", name=known.name)


def change_peer(
    ctx: Context,
    name: str,
    *,
    token: str | None = None,
    url: str | None = None,
    tell: Sequence[str] | None = None,
    take: Sequence[str] | None = None,
    admin: bool | None = None,
    pinned: str | None = None,
) -> Peer:
    """Change a peer; None leaves a field unchanged, an empty URL or fingerprint removes it."""
    ctx.caller.require_all_namespaces()
    with ctx.transaction() as write:
        before = _get_peer(write.session, name)
        after = replace(
            before,
            url=before.url if url is None else _normalize_url(url),
            tell=before.tell if tell is None else list(validate_patterns(tell, "tell")),
            take=before.take if take is None else list(validate_patterns(take, "take")),
            admin=before.admin if admin is None else admin,
            fingerprint=before.fingerprint
            if pinned is None
            else fingerprint.parse_fingerprint(pinned)
            if pinned
            else None,
        )
        if token is not None:
            after = _replace_key(after, peer_token.parse_token(token))
        peers.put_peer(write.session, after)
    return after


def _replace_key(peer: Peer, token: PeerToken) -> Peer:
    if token.node != peer.node:
        raise Conflict(
            f"This token belongs to a different store than {peer.name!r}. Enrol it with `holdfast sync peers add`."
        )
    return replace(peer, public_key=token.public_key)


def remove_peer(ctx: Context, name: str) -> Peer:
    """Remove a peer. Once this returns its signature is rejected and its quarantined changes are deleted."""
    ctx.caller.require_all_namespaces()
    with ctx.transaction() as write:
        peer = _get_peer(write.session, name)
        peers.remove_peer(write.session, peer)
        status.forget_peer(write.session, peer.node)
    return peer


def list_peers(ctx: Context) -> list[Peer]:
    ctx.caller.require_all_namespaces()
    with ctx.reading() as session:
        return peers.list_peers(session)


def _get_peer(session: Session, name: str) -> Peer:
    peer = peers.find_by_name(session, name)
    if peer is None:
        raise NotFound(f"No peer {name!r}. List peers with `holdfast sync peers`.", name=name)
    return peer


def _normalize_url(url: str | None) -> str | None:
    if not url:
        return None
    return parse_address(url).geturl().rstrip("/")


def replace_peers(now: Session, to: Session) -> None:
    """Give another copy of the store exactly these peers and their used nonces."""
    for peer in peers.list_peers(to):
        peers.remove_peer(to, peer)
    for peer in peers.list_peers(now):
        peers.put_peer(to, peer)
    for node, nonce, at in now.rows("nonce_list"):
        to.row("nonce_add", node=node, nonce=nonce, at=at)
