"""What a store tells another: who it is, what it has, and the changes that the other one misses."""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..domain import cells
from ..domain.change import Change, mark, signed
from ..domain.merge import Cell, canonical
from ..domain.scope import ALL, Scope
from ..domain.skill import SkillVersion
from ..domain.state import State
from . import journal, signer, skills, titles
from .port import Row, Session
from .records import KINDS, Kind
from .scoping import Telling

SCAN = 1000
MOST_READ = 20 * SCAN
"""Entries of the journal that one page goes over at most: a peer may hear of few of them."""


class Reached(NamedTuple):
    """Up to which number the changes of an origin are all there, and what the last of them was."""

    n: int
    mark: str


class Greeting(Struct, frozen=True, kw_only=True):
    """What a store says of itself before anything is exchanged."""

    node: str
    origin: str
    seq: int
    """The end of its journal."""
    now: int
    """Its wall clock, in microseconds."""
    vector: dict[str, Reached]
    authors: dict[str, str]
    """The public key by which each origin signs that it can tell of."""


class Page(NamedTuple):
    """Changes in the order of their sender's journal, and up to where that was read."""

    changes: list[Change]
    upto: int
    more: bool
    files: dict[str, bytes] = {}
    """What the files of skills say that were registered in it, compressed, by the digest of what they say."""
    states: list[State] = []
    """Records whole, whose changes are not told one by one."""
    bases: dict[str, Reached] = {}
    """Up to which number the changes of some origins are in what was told up to here, states included."""


def greet(session: Session, now: int) -> Greeting:
    head = journal.head_of(session)
    authors = {origin: key.hex() for origin, key, _ in session.rows("author_list")}
    authors |= {origin: head.public_key.hex() for origin, *_ in session.rows("signer_list")}
    return Greeting(node=head.node, origin=head.origin, seq=head.seq, now=now, vector=vector(session), authors=authors)


def vector(session: Session) -> dict[str, Reached]:
    """For every origin, how far its changes are all here."""
    reached = [*session.rows("own_numbers"), *session.rows("heard_list")]
    return {origin: Reached(n, mark_of(session, origin, n) or "") for origin, n in reached if n}


def mark_of(session: Session, origin: str, n: int) -> str | None:
    """What the change of a number was here."""
    row = session.row("change_mark", origin=origin, n=n)
    return mark(origin, n, *row) if row else None


def feed(session: Session, key: bytes, after: int, known: Mapping[str, int], limit: int, scope: Scope = ALL) -> Page:
    """The changes behind a place that the other one does not have and may see; no transaction is cut.

    Its vector only spares bytes: what is above a gap there is sent again, and is known there.
    """
    own = {row[0] for row in session.rows("signer_list")}
    changes: list[Change] = []
    states: list[State] = []
    telling, upto, batch, read = Telling(session, scope), after, 0, 0
    for row, told in _behind(session, after, telling):
        if (len(changes) + len(states) >= limit or read >= MOST_READ) and row[1] != batch:
            return Page(changes, upto, more=True, files=_files(session, changes), states=states)
        upto, batch, read = row[0], row[1], read + 1
        if not told:
            continue
        states += telling.entering(row)
        if row[3] > known.get(row[2], 0):
            changes.append(_change(row, own, key))
    return Page(changes, upto, more=False, files=_files(session, changes), states=states)


def _files(session: Session, changes: Sequence[Change]) -> dict[str, bytes]:
    bodies = [change.body for change in changes if change.kind == "skill_version" and change.body is not None]
    digests = {file.digest for body in bodies for file in msgspec.json.decode(body, type=SkillVersion).files}
    return {digest: skills.packed(session, digest) for digest in sorted(digests)}


def _behind(session: Session, after: int, telling: Telling) -> Iterator[tuple[Row, bool]]:
    while rows := session.rows("change_feed", after=after, limit=SCAN):
        yield from telling.told(rows)
        after = rows[-1][0]


def _change(row: Row, own: set[str], key: bytes) -> Change:
    _, batch, origin, n, at, actor, op, kind, record, about, body, delta, signature, digest, said = row
    erased = (digest or "purged") if body is None and delta is None else None
    change = Change(
        origin=origin,
        n=n,
        at=at,
        actor=actor,
        op=op,
        kind=kind,
        record=record,
        about=about,
        body=None if delta is not None or erased else said or body,
        delta=delta,
        erased=erased,
        signature=signature or "",
        group=batch,
    )
    if origin not in own:
        return change
    return replace(change, signature=signer.sign(key, signed(change)).hex())


def advance(session: Session, origins: Sequence[str]) -> None:
    """Note how far the changes of some origins are all here now: never over a gap."""
    heard = {row[0]: row[1] for row in session.rows("heard_list")}
    for origin in origins:
        row = session.row("heard_gapless", origin=origin, after=heard.get(origin, 0))
        assert row is not None
        session.do("heard_put", origin=origin, n=row[0])


def digest(session: Session) -> str:
    """Equal for two stores exactly if every cell of every record is: values, stamps and what was seen."""
    total = 0
    for name, id in session.rows("record_list"):
        if name not in KINDS or not session.row(f"{name}_cells", id=id):
            continue
        for cell, held in _cells(session, KINDS[name], id).items():
            values = sorted([s.time, s.origin, canonical(v).decode()] for s, v in held.values.items())
            said = msgspec.json.encode([name, id, cell, values, sorted(held.seen.items())])
            total += int.from_bytes(sha256(said).digest()[:16], "big")
    return f"{total % (1 << 128):032x}"


def _cells(session: Session, kind: Kind[Any], id: str) -> dict[str, Cell]:
    if kind.name == "memory":
        (member,) = titles.read(session, [id])
        return member.all
    row, raw = session.row(f"{kind.name}_get", id=id), session.row(f"{kind.name}_cells", id=id)
    assert row is not None
    assert raw is not None
    shows = cells.flatten(kind.shape, kind.load(row))
    return cells.unpack(raw[0], shows).all(shows)
