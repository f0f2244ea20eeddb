"""Tables of the last handshake and the exchange attempts per peer."""

import msgspec
from msgspec import Struct

from holdfast.kernel.storage.port import Row, Session


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


def list_peer_info(session: Session) -> dict[str, PeerInfo]:
    return {row[0]: _to_peer_info(row) for row in session.rows("peer_seen_list")}


def get_peer_info(session: Session, node: str) -> PeerInfo | None:
    row = session.row("peer_seen_get", node=node)
    return _to_peer_info(row) if row else None


def put_peer_info(session: Session, one: PeerInfo) -> None:
    numbers = msgspec.json.encode(one.numbers, order="sorted").decode()
    texts = {"numbers": numbers, "unknown": " ".join(one.unknown)}
    session.do("peer_seen_put", **(msgspec.structs.asdict(one) | texts))


def list_attempts(session: Session) -> list[PeerAttempts]:
    return [_to_attempts(row) for row in session.rows("peer_link_list")]


def get_attempts(session: Session, address: str) -> PeerAttempts | None:
    row = session.row("peer_link_get", address=address)
    return _to_attempts(row) if row else None


def put_attempts(session: Session, made: PeerAttempts) -> None:
    session.do("peer_link_put", **msgspec.structs.asdict(made))


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
