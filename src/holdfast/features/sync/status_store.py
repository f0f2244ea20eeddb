"""How it stands with other stores: what each said of itself, and how the exchanges with it went."""

import msgspec
from msgspec import Struct

from holdfast.kernel.storage.port import Row, Session


class Seen(Struct, frozen=True, kw_only=True):
    """Another store, as it was when it was last heard."""

    node: str
    origin: str
    seq: int
    """The end of its journal."""
    followed: int
    """Up to where it had taken the journal here."""
    numbers: dict[str, int]
    """Up to which number it had all changes of each origin."""
    release: str
    unknown: tuple[str, ...]
    """Kinds of records here that its release does not know: it puts them aside until it is upgraded."""
    ahead: int
    """By how many microseconds its clock was before the one here."""
    at: int


class Attempts(Struct, frozen=True, kw_only=True):
    """How it went with one server."""

    address: str
    node: str | None = None
    tried_at: int
    succeeded_at: int | None = None
    failed_at: int | None = None
    error: str | None = None
    """Why the last exchange failed; None if it did not."""
    failures: int = 0
    """In a row."""
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
    """Drop what is known of a store that is a peer no more."""
    session.do("peer_seen_forget", node=node)
    session.do("peer_link_forget", node=node)


def followed(session: Session) -> dict[str, int]:
    """Up to where the journal of each other store was taken."""
    return dict(session.rows("followed_list"))


def quarantined(session: Session) -> dict[str, int]:
    """How many changes of each sender are in quarantine."""
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
