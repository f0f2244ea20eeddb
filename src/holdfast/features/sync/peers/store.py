"""Table of enrolled peers and their used nonces."""

import msgspec
from msgspec import Struct

from holdfast.kernel.records.namespace_patterns import FULL_SCOPE, PeerScope
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
    def scope(self) -> PeerScope:
        return PeerScope(self.tell, self.take, self.admin)


def list_peers(session: Session) -> list[Peer]:
    return [_to_peer(row) for row in session.rows("peer_list")]


def find_by_node(session: Session, node: str) -> Peer | None:
    return _peer_or_none(session.row("peer_by_node", node=node))


def find_by_name(session: Session, name: str) -> Peer | None:
    return _peer_or_none(session.row("peer_by_name", name=name))


def find_by_url(session: Session, url: str) -> Peer | None:
    """Find the peer with an address, ignoring a trailing slash."""
    wanted = url.rstrip("/")
    return next((peer for peer in list_peers(session) if peer.url and peer.url.rstrip("/") == wanted), None)


def get_scope(session: Session, node: str) -> PeerScope:
    """Return the scope of an enrolled node; a node that is not enrolled is synced by hand and has no limits."""
    peer = find_by_node(session, node)
    return peer.scope if peer else FULL_SCOPE


def put_peer(session: Session, peer: Peer) -> None:
    """Insert a peer or replace the one with its name."""
    session.do(
        "peer_put",
        name=peer.name,
        node=peer.node,
        public_key=peer.public_key,
        url=peer.url,
        tell=_encode_patterns(peer.tell),
        take=_encode_patterns(peer.take),
        admin=int(peer.admin),
        fingerprint=peer.fingerprint,
        enrolled_at=peer.enrolled_at,
    )


def remove_peer(session: Session, peer: Peer) -> None:
    """Delete a peer and its quarantined changes, since their scope is unknown now."""
    session.do("peer_remove", name=peer.name)
    session.do("quarantine_drop_peer", node=peer.node)


def use_nonce(session: Session, node: str, nonce: str, at: int, floor: int) -> bool:
    """Store a nonce; return whether it is new. Nonces are remembered while their requests could still be replayed."""
    session.do("nonce_forget", floor=floor)
    return session.row("nonce_add", node=node, nonce=nonce, at=at) is not None


def _peer_or_none(row: Row | None) -> Peer | None:
    return _to_peer(row) if row else None


def _to_peer(row: Row) -> Peer:
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


def _encode_patterns(patterns: tuple[str, ...]) -> str:
    return msgspec.json.encode(patterns).decode()
