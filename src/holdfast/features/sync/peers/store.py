"""Table of enrolled peers and their used nonces."""

import msgspec
from msgspec import Struct

from holdfast.kernel.records.namespace_patterns import ALL, Scope
from holdfast.kernel.storage.port import Row, Session


class Peer(Struct, frozen=True, kw_only=True):
    """An enrolled store: identity, address, and the namespaces it may read and write."""

    name: str
    node: str
    public_key: bytes
    url: str | None
    tell: tuple[str, ...]
    """Patterns of the namespaces it may read."""
    take: tuple[str, ...]
    """Patterns of the namespaces it may write."""
    admin: bool
    """Whether policies, grants, standards and erasure requests are accepted from it."""
    fingerprint: str | None
    """SHA-256 of its pinned server certificate."""
    enrolled_at: int

    @property
    def scope(self) -> Scope:
        return Scope(self.tell, self.take, self.admin)


def enrolled(session: Session) -> list[Peer]:
    return [_peer(row) for row in session.rows("peer_list")]


def by_node(session: Session, node: str) -> Peer | None:
    return _one(session.row("peer_by_node", node=node))


def by_name(session: Session, name: str) -> Peer | None:
    return _one(session.row("peer_by_name", name=name))


def by_url(session: Session, url: str) -> Peer | None:
    """Find the peer with an address, ignoring a trailing slash."""
    wanted = url.rstrip("/")
    return next((peer for peer in enrolled(session) if peer.url and peer.url.rstrip("/") == wanted), None)


def scope_of(session: Session, node: str) -> Scope:
    """Return the scope of an enrolled node; a node that is not enrolled is synced by hand and has no limits."""
    peer = by_node(session, node)
    return peer.scope if peer else ALL


def put(session: Session, peer: Peer) -> None:
    """Insert a peer or replace the one with its name."""
    session.do(
        "peer_put",
        name=peer.name,
        node=peer.node,
        public_key=peer.public_key,
        url=peer.url,
        tell=_text(peer.tell),
        take=_text(peer.take),
        admin=int(peer.admin),
        fingerprint=peer.fingerprint,
        enrolled_at=peer.enrolled_at,
    )


def remove(session: Session, peer: Peer) -> None:
    """Delete a peer and its quarantined changes, since their scope is unknown now."""
    session.do("peer_remove", name=peer.name)
    session.do("peer_put_aside_drop", node=peer.node)


def carry(now: Session, to: Session) -> None:
    """Give another copy of the store exactly these peers and their used nonces."""
    for peer in enrolled(to):
        remove(to, peer)
    for peer in enrolled(now):
        put(to, peer)
    for node, nonce, at in now.rows("nonce_list"):
        to.row("nonce_add", node=node, nonce=nonce, at=at)


def use_nonce(session: Session, node: str, nonce: str, at: int, floor: int) -> bool:
    """Store a nonce; return whether it is new. Nonces are remembered while their requests could still be replayed."""
    session.do("nonce_forget", floor=floor)
    return session.row("nonce_add", node=node, nonce=nonce, at=at) is not None


def _one(row: Row | None) -> Peer | None:
    return _peer(row) if row else None


def _peer(row: Row) -> Peer:
    name, node, public_key, url, tell, take, admin, fingerprint, enrolled_at = row
    return Peer(
        name=name,
        node=node,
        public_key=bytes(public_key),
        url=url,
        tell=tuple(msgspec.json.decode(tell)),
        take=tuple(msgspec.json.decode(take)),
        admin=bool(admin),
        fingerprint=fingerprint,
        enrolled_at=enrolled_at,
    )


def _text(patterns: tuple[str, ...]) -> str:
    return msgspec.json.encode(patterns).decode()
