"""Compaction point of a journal: below it only the newest entry of each record remains, signed by the node."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256, shake_256
from typing import Any, NamedTuple

import msgspec

from holdfast.kernel.errors import HistoryCompacted
from holdfast.kernel.journal import signer
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import format_timestamp

SUM_BYTES = 256
"""Bytes of a sum: wide enough to be collision-resistant."""
EMPTY_SUM = bytes(SUM_BYTES)
PAGE_SIZE = 500
DEFAULT_RETENTION_DAYS = 30
"""Days of history that compaction keeps by default."""


class CompactionPoint(NamedTuple):
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


class Baseline(NamedTuple):
    """Up to which number the changes of an origin are applied here, though not all of them are in the journal."""

    origin: str
    n: int
    mark: str
    seq: int
    """Journal sequence from which this holds."""


def get_compaction_point(session: Session) -> CompactionPoint | None:
    row = session.row("compaction_point_get")
    return CompactionPoint(*row) if row else None


class CompactedRecord(NamedTuple):
    """Field versions of a record at the time its history was compacted; None after a purge."""

    record: str
    kind: str
    seq: int
    """Sequence of the entry that remains; the field versions belong to its state."""
    cells: str | None
    digest: bytes


def get_compacted_record(session: Session, kind: str, record: str) -> CompactedRecord | None:
    row = session.row("compacted_record_get", record=record, kind=kind)
    return CompactedRecord(record, kind, *row) if row else None


def iter_compacted_records(session: Session) -> Iterator[CompactedRecord]:
    """Iterate over all compacted records, page by page."""
    record = kind = ""
    while page := session.rows("compacted_record_page", record=record, kind=kind, limit=PAGE_SIZE):
        yield from (CompactedRecord(*row) for row in page)
        record, kind = page[-1][0], page[-1][1]


def list_baselines(session: Session) -> list[Baseline]:
    return [Baseline(*row) for row in session.rows("baseline_list")]


def put_baseline(session: Session, base: Baseline) -> None:
    """Store a baseline; older ones that it covers are deleted."""
    session.do("baseline_drop", origin=base.origin, n=base.n, seq=base.seq)
    session.do("baseline_put", **base._asdict())


def put_baselines(session: Session, reached: Mapping[str, tuple[int, str]], seq: int) -> None:
    """Store the baselines of several origins, valid from a journal sequence on."""
    for origin, (n, mark) in reached.items():
        put_baseline(session, Baseline(origin, n, mark, seq))


def signed_bytes(point: CompactionPoint) -> bytes:
    """Return the bytes that the node signs for a compaction point."""
    about = [point.node, point.seq, point.hash.hex(), point.kept_at, point.folded_at, point.dropped]
    return msgspec.json.encode(["floor", *about, point.kept.hex()])


def put_compaction_point(session: Session, point: CompactionPoint, key: bytes) -> None:
    """Sign a compaction point and replace the previous one."""
    session.do("compaction_point_clear")
    session.do("compaction_point_put", **point._replace(signature=signer.sign(key, signed_bytes(point)))._asdict())


def renew_signature(session: Session, node: str, before: bytes, key: bytes) -> None:
    """Sign the compaction point with a new key if the old signature is valid; else leave it for `verify` to report."""
    floor = get_compaction_point(session)
    if floor is not None and signer.is_valid_signature(before, floor.signature, signed_bytes(floor)):
        put_compaction_point(session, floor._replace(node=node), key)


def encode_entry(about: Sequence[Any], digest: bytes, hash: bytes) -> bytes:
    """Encode a remaining entry for the sum. A later purge removes its content, but not its digest."""
    return msgspec.json.encode([*about, digest.hex(), hash.hex()])


def encode_compacted_record(record: CompactedRecord) -> bytes:
    return msgspec.json.encode([record.record, record.kind, record.seq, record.digest.hex()])


def update_sum(start: bytes, added: Iterable[bytes], removed: Iterable[bytes] = ()) -> bytes:
    """Add items to a sum and subtract others, in any order."""
    total = int.from_bytes(start, "big") + sum(map(_number, added)) - sum(map(_number, removed))
    return (total % (1 << 8 * SUM_BYTES)).to_bytes(SUM_BYTES, "big")


def _number(item: bytes) -> int:
    return int.from_bytes(shake_256(item).digest(SUM_BYTES), "big")


def cells_digest(cells: str) -> bytes:
    return sha256(cells.encode()).digest()


def require_history_at(session: Session, at: int) -> None:
    """Raise if the history of a point in time was compacted."""
    floor = get_compaction_point(session)
    if floor is not None and at < floor.kept_at:
        raise HistoryCompacted(
            f"History before {format_timestamp(floor.kept_at)} was compacted: ask for that time or a later one.",
            since=format_timestamp(floor.kept_at),
        )


def describe_missing_history(session: Session, at: int) -> str | None:
    """Return a warning if past states of a point in time may have been compacted, else None."""
    floor = get_compaction_point(session)
    if floor is None or at >= floor.kept_at:
        return None
    return f"Older states of memories before {format_timestamp(floor.kept_at)} were compacted."


def is_compacted(session: Session, seq: int) -> bool:
    """Whether an entry is below the compaction point, so that the change itself may be gone."""
    floor = get_compaction_point(session)
    return floor is not None and seq <= floor.seq
