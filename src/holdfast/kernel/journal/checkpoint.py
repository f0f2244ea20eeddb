"""Compaction point of a journal: below it only the newest entry of each record remains, signed by the node."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256, shake_256
from typing import Any, NamedTuple

import msgspec

from holdfast.kernel.errors import Folded
from holdfast.kernel.journal import signer
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import to_text

WIDTH = 256
"""Bytes of a sum: wide enough to be collision-resistant."""
NOTHING = bytes(WIDTH)
PAGE = 500
RETENTION_DAYS = 30
"""Days of history that compaction keeps by default."""


class Floor(NamedTuple):
    """The point below which the journal is compacted."""

    node: str
    seq: int
    hash: bytes
    kept_at: int
    folded_at: int
    dropped: int
    """Number of entries removed by compaction."""
    kept: bytes
    """Sum of the entries that remain below the point."""
    signature: bytes


class Base(NamedTuple):
    """Up to which number the changes of an origin are applied here, though not all of them are in the journal."""

    origin: str
    n: int
    mark: str
    seq: int
    """Journal sequence from which this holds."""


def floor_of(session: Session) -> Floor | None:
    row = session.row("floor_get")
    return Floor(*row) if row else None


class Folding(NamedTuple):
    """Field versions of a record at the time its history was compacted; None after a purge."""

    record: str
    kind: str
    seq: int
    """Sequence of the entry that remains; the field versions belong to its state."""
    cells: str | None
    digest: bytes


def folding_of(session: Session, kind: str, record: str) -> Folding | None:
    row = session.row("folded_get", record=record, kind=kind)
    return Folding(record, kind, *row) if row else None


def folded(session: Session) -> Iterator[Folding]:
    """Iterate over all compacted records, page by page."""
    record = kind = ""
    while page := session.rows("folded_page", record=record, kind=kind, limit=PAGE):
        yield from (Folding(*row) for row in page)
        record, kind = page[-1][0], page[-1][1]


def bases(session: Session) -> list[Base]:
    return [Base(*row) for row in session.rows("base_list")]


def note(session: Session, base: Base) -> None:
    """Store a baseline; older ones that it covers are deleted."""
    session.do("base_drop", origin=base.origin, n=base.n, seq=base.seq)
    session.do("base_put", **base._asdict())


def rest(session: Session, reached: Mapping[str, tuple[int, str]], seq: int) -> None:
    """Store the baselines of several origins, valid from a journal sequence on."""
    for origin, (n, mark) in reached.items():
        note(session, Base(origin, n, mark, seq))


def witness_of(floor: Floor) -> bytes:
    """Return the bytes that the node signs for a compaction point."""
    about = [floor.node, floor.seq, floor.hash.hex(), floor.kept_at, floor.folded_at, floor.dropped]
    return msgspec.json.encode(["floor", *about, floor.kept.hex()])


def put(session: Session, floor: Floor, key: bytes) -> None:
    """Sign a compaction point and replace the previous one."""
    session.do("floor_clear")
    session.do("floor_put", **floor._replace(signature=signer.sign(key, witness_of(floor)))._asdict())


def renew(session: Session, node: str, before: bytes, key: bytes) -> None:
    """Sign the compaction point with a new key if the old signature is valid; else leave it for `verify` to report."""
    floor = floor_of(session)
    if floor is not None and signer.verifies(before, floor.signature, witness_of(floor)):
        put(session, floor._replace(node=node), key)


def entry_item(about: Sequence[Any], digest: bytes, hash: bytes) -> bytes:
    """Encode a remaining entry for the sum. A later purge removes its content, but not its digest."""
    return msgspec.json.encode([*about, digest.hex(), hash.hex()])


def folded_item(folding: Folding) -> bytes:
    return msgspec.json.encode([folding.record, folding.kind, folding.seq, folding.digest.hex()])


def summed(kept: bytes, more: Iterable[bytes], less: Iterable[bytes] = ()) -> bytes:
    """Add items to a sum and subtract others, in any order."""
    total = int.from_bytes(kept, "big") + sum(map(_number, more)) - sum(map(_number, less))
    return (total % (1 << 8 * WIDTH)).to_bytes(WIDTH, "big")


def _number(item: bytes) -> int:
    return int.from_bytes(shake_256(item).digest(WIDTH), "big")


def digest_of(cells: str) -> bytes:
    return sha256(cells.encode()).digest()


def must_reach(session: Session, at: int) -> None:
    """Raise if the history of a point in time was compacted."""
    floor = floor_of(session)
    if floor is not None and at < floor.kept_at:
        raise Folded(
            f"History before {to_text(floor.kept_at)} was compacted: ask for that time or a later one.",
            since=to_text(floor.kept_at),
        )


def missing(session: Session, at: int) -> str | None:
    """Return a warning if past states of a point in time may have been compacted, else None."""
    floor = floor_of(session)
    if floor is None or at >= floor.kept_at:
        return None
    return f"Older states of memories before {to_text(floor.kept_at)} were compacted."


def gone(session: Session, seq: int) -> bool:
    """Whether an entry is below the compaction point, so that the change itself may be gone."""
    floor = floor_of(session)
    return floor is not None and seq <= floor.seq
