"""The stores that this one exchanges with, as somebody here enrolled them."""

import msgspec
from msgspec import Struct

from holdfast.kernel.records.namespace_patterns import ALL, Scope
from holdfast.kernel.storage.port import Row, Session


class Peer(Struct, frozen=True, kw_only=True):
    """Another store: who it is, where, and what goes over."""

    name: str
    node: str
    public_key: bytes
    url: str | None
    tell: tuple[str, ...]
    """Patterns of the namespaces of which it hears."""
    take: tuple[str, ...]
    """Patterns of the namespaces of which it may tell."""
    admin: bool
    """Whether policies, grants and standards are taken from it."""
    fingerprint: str | None
    """SHA-256 of the certificate that it serves with, if that is pinned."""
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
    """Whom an address belongs to; how it ends does not matter."""
    wanted = url.rstrip("/")
    return next((peer for peer in enrolled(session) if peer.url and peer.url.rstrip("/") == wanted), None)


def scope_of(session: Session, node: str) -> Scope:
    """What is exchanged with a node: as it was enrolled; with another, whatever the owner brings together by hand."""
    peer = by_node(session, node)
    return peer.scope if peer else ALL


def put(session: Session, peer: Peer) -> None:
    """Keep a peer, in the place of the one of its name."""
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
    """Forget a peer, and what of it was put aside: nobody says any more how much of that may be taken."""
    session.do("peer_remove", name=peer.name)
    session.do("peer_put_aside_drop", node=peer.node)


def carry(now: Session, to: Session) -> None:
    """Let another copy of the store have the peers that this one has, and no other, and know what they used."""
    for peer in enrolled(to):
        remove(to, peer)
    for peer in enrolled(now):
        put(to, peer)
    for node, nonce, at in now.rows("nonce_list"):
        to.row("nonce_add", node=node, nonce=nonce, at=at)


def use_nonce(session: Session, node: str, nonce: str, at: int, floor: int) -> bool:
    """Whether a nonce is used for the first time; it is remembered while a request of its time may come."""
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
