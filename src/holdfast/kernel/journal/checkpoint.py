"""The floor of a journal: below it only the newest entry of each record stays, and the node vouches for the rest."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256, shake_256
from typing import Any, NamedTuple

import msgspec

from holdfast.kernel.errors import Folded
from holdfast.kernel.journal import signer
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import to_text

WIDTH = 256
"""Bytes of a sum: wide enough that nobody finds other entries with the same one."""
NOTHING = bytes(WIDTH)
PAGE = 500
RETENTION_DAYS = 30
"""Of how many days history stays whole, unless somebody says otherwise."""


class Floor(NamedTuple):
    """Where the whole journal begins, and what stays below."""

    node: str
    seq: int
    hash: bytes
    kept_at: int
    folded_at: int
    dropped: int
    """How many entries are gone."""
    kept: bytes
    """The sum of what stays below."""
    signature: bytes


class Base(NamedTuple):
    """Up to which number the changes of an origin are here without each being in the journal."""

    origin: str
    n: int
    mark: str
    seq: int
    """From which place on that is so."""


def floor_of(session: Session) -> Floor | None:
    row = session.row("floor_get")
    return Floor(*row) if row else None


class Folding(NamedTuple):
    """The cells of a record whose changes were folded, as they were then; None once a purge took them."""

    record: str
    kind: str
    seq: int
    """The entry that stayed: its cells are beside what that says."""
    cells: str | None
    digest: bytes


def folding_of(session: Session, kind: str, record: str) -> Folding | None:
    row = session.row("folded_get", record=record, kind=kind)
    return Folding(record, kind, *row) if row else None


def folded(session: Session) -> Iterator[Folding]:
    """All of them, a page at a time."""
    record = kind = ""
    while page := session.rows("folded_page", record=record, kind=kind, limit=PAGE):
        yield from (Folding(*row) for row in page)
        record, kind = page[-1][0], page[-1][1]


def bases(session: Session) -> list[Base]:
    return [Base(*row) for row in session.rows("base_list")]


def note(session: Session, base: Base) -> None:
    """Keep up to which number the changes of an origin are all here from a place on."""
    session.do("base_drop", origin=base.origin, n=base.n, seq=base.seq)
    session.do("base_put", **base._asdict())


def rest(session: Session, reached: Mapping[str, tuple[int, str]], seq: int) -> None:
    """From a place on, the changes of some origins are here up to a number."""
    for origin, (n, mark) in reached.items():
        note(session, Base(origin, n, mark, seq))


def witness_of(floor: Floor) -> bytes:
    """What the node signs of its floor."""
    about = [floor.node, floor.seq, floor.hash.hex(), floor.kept_at, floor.folded_at, floor.dropped]
    return msgspec.json.encode(["floor", *about, floor.kept.hex()])


def put(session: Session, floor: Floor, key: bytes) -> None:
    """Keep a floor in the place of the one before, signed."""
    session.do("floor_clear")
    session.do("floor_put", **floor._replace(signature=signer.sign(key, witness_of(floor)))._asdict())


def renew(session: Session, node: str, before: bytes, key: bytes) -> None:
    """Sign the floor by a new key, if the one before it did; else it stays as it is, to be found."""
    floor = floor_of(session)
    if floor is not None and signer.verifies(before, floor.signature, witness_of(floor)):
        put(session, floor._replace(node=node), key)


def entry_item(about: Sequence[Any], digest: bytes, hash: bytes) -> bytes:
    """An entry that stays, as it counts in the sum; what it says may be purged later, its digest not."""
    return msgspec.json.encode([*about, digest.hex(), hash.hex()])


def folded_item(folding: Folding) -> bytes:
    return msgspec.json.encode([folding.record, folding.kind, folding.seq, folding.digest.hex()])


def summed(kept: bytes, more: Iterable[bytes], less: Iterable[bytes] = ()) -> bytes:
    """A sum with some items more and some less: the order in which they came does not matter."""
    total = int.from_bytes(kept, "big") + sum(map(_number, more)) - sum(map(_number, less))
    return (total % (1 << 8 * WIDTH)).to_bytes(WIDTH, "big")


def _number(item: bytes) -> int:
    return int.from_bytes(shake_256(item).digest(WIDTH), "big")


def digest_of(cells: str) -> bytes:
    return sha256(cells.encode()).digest()


def must_reach(session: Session, at: int) -> None:
    """Raise if what was known at a moment cannot be told any more."""
    floor = floor_of(session)
    if floor is not None and at < floor.kept_at:
        raise Folded(
            f"What was known before {to_text(floor.kept_at)} was folded by compact: ask for that or a later moment.",
            since=to_text(floor.kept_at),
        )


def missing(session: Session, at: int) -> str | None:
    """What to say to somebody who asks what was true at a moment of which some states may have been folded."""
    floor = floor_of(session)
    if floor is None or at >= floor.kept_at:
        return None
    return f"What memories said before {to_text(floor.kept_at)} and do not say any more was folded by compact."


def gone(session: Session, seq: int) -> bool:
    """Whether a change lies below the floor: what came of it is kept, perhaps not the change itself."""
    floor = floor_of(session)
    return floor is not None and seq <= floor.seq
