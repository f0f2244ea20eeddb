"""Tables of the last handshake and the exchange attempts per peer."""

import msgspec
from msgspec import Struct

from holdfast.kernel.storage.port import Row, Session


class Seen(Struct, frozen=True, kw_only=True):
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


class Attempts(Struct, frozen=True, kw_only=True):
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


def seen(session: Session) -> dict[str, Seen]:
    return {row[0]: _seen(row) for row in session.rows("peer_seen_list")}


def seen_of(session: Session, node: str) -> Seen | None:
    row = session.row("peer_seen_get", node=node)
    return _seen(row) if row else None


def note(session: Session, one: Seen) -> None:
    numbers = msgspec.json.encode(one.numbers, order="sorted").decode()
    texts = {"numbers": numbers, "unknown": " ".join(one.unknown)}
    session.do("peer_seen_put", **(msgspec.structs.asdict(one) | texts))


def attempts(session: Session) -> list[Attempts]:
    return [_attempts(row) for row in session.rows("peer_link_list")]


def attempts_at(session: Session, address: str) -> Attempts | None:
    row = session.row("peer_link_get", address=address)
    return _attempts(row) if row else None


def note_attempts(session: Session, made: Attempts) -> None:
    session.do("peer_link_put", **msgspec.structs.asdict(made))


def forget(session: Session, node: str) -> None:
    """Delete the status of a removed peer."""
    session.do("peer_seen_forget", node=node)
    session.do("peer_link_forget", node=node)


def followed(session: Session) -> dict[str, int]:
    """Return the cursor per origin."""
    return dict(session.rows("followed_list"))


def quarantined(session: Session) -> dict[str, int]:
    """Count the quarantined changes per sender."""
    return dict(session.rows("quarantine_by_peer"))


def _seen(row: Row) -> Seen:
    node, origin, seq, followed, numbers, release, unknown, ahead, at = row
    return Seen(
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


def _attempts(row: Row) -> Attempts:
    return Attempts(**dict(zip(Attempts.__struct_fields__, row, strict=True)))
