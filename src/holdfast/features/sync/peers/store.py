"""Table of enrolled peers and their used nonces."""

from typing import Annotated

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from holdfast.kernel.records.fields import PRIVATE, Named, computed
from holdfast.kernel.records.namespace_patterns import FULL_SCOPE, PeerScope
from holdfast.kernel.storage.port import Row, Session
from holdfast.kernel.timestamps import Time


class Peer(Struct, frozen=True, kw_only=True):
    """An enrolled store: identity, address, and the namespaces it may read and write."""

    name: str
    node: str
    public_key: Annotated[bytes, PRIVATE]
    url: str | None = None
    tell: list[str]
    """Patterns of the namespaces it may read."""
    take: list[str]
    """Patterns of the namespaces it may write."""
    admin: bool
    """Whether policies, grants, standards and erasure requests are accepted from it."""
    fingerprint: str | None = None
    """SHA-256 of its pinned server certificate."""
    enrolled_at: Time

    @computed
    def public_key_text(self) -> Annotated[str, Named("public_key")]:
        return self.public_key.hex()

    @property
    def scope(self) -> PeerScope:
        return PeerScope(tuple(self.tell), tuple(self.take), self.admin)


def list_peers(session: Session) -> list[Peer]:
    return [_to_peer(row) for row in session.rows("peer_list")]


def find_by_node(session: Session, node: str) -> Peer | None:
    row = session.row("peer_by_node", node=node)
    return _to_peer(row) if row else None


def find_by_name(session: Session, name: str) -> Peer | None:
    row = session.row("peer_by_name", name=name)
    return _to_peer(row) if row else None


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
    tell, take = (msgspec.json.encode(patterns).decode() for patterns in (peer.tell, peer.take))
    session.do("peer_put", **(asdict(peer) | {"tell": tell, "take": take, "admin": int(peer.admin)}))


def remove_peer(session: Session, peer: Peer) -> None:
    """Delete a peer and its quarantined changes, since their scope is unknown now."""
    session.do("peer_remove", name=peer.name)
    session.do("quarantine_drop_peer", node=peer.node)


def use_nonce(session: Session, node: str, nonce: str, at: int, floor: int) -> bool:
    """Store a nonce; return whether it is new. Nonces are remembered while their requests could still be replayed."""
    session.do("nonce_forget", floor=floor)
    return session.row("nonce_add", node=node, nonce=nonce, at=at) is not None


def _to_peer(row: Row) -> Peer:
    name, node, public_key, url, tell, take, admin, fingerprint, enrolled_at = row
    return Peer(
        name=name,
        node=node,
        public_key=bytes(public_key),
        url=url,
        tell=msgspec.json.decode(tell),
        take=msgspec.json.decode(take),
        admin=bool(admin),
        fingerprint=fingerprint,
        enrolled_at=enrolled_at,
    )
