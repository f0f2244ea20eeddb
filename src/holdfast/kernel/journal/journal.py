"""The journal: an append-only, hash-chained table that is history, audit trail and change feed."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256, shake_256
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.kernel.errors import HistoryCompacted, StoreDamaged
from holdfast.kernel.storage.port import Session, Store
from holdfast.kernel.timestamps import format_timestamp

GENESIS = b""
UNSIGNED = b""
BATCH_SIZE = 256
"""Entries per insert."""


class Entry(NamedTuple):
    """One committed change: the record after it, its author and its position."""

    seq: int
    origin: str
    n: int
    batch: int
    at: int
    recorded_at: int
    actor: str
    op: str
    kind: str
    record: str
    about: str | None
    body: str | None
    delta: str | None
    digest: bytes
    hash: bytes


class Author(NamedTuple):
    """Author of a replicated change: its number there and its transaction."""

    origin: str
    n: int
    actor: str
    group: int


class PendingEntry(NamedTuple):
    """A change that is appended to the journal at the end of its transaction."""

    at: int
    op: str
    kind: str
    record: str
    about: str | None
    body: str | None
    delta: str | None
    author: Author | None = None
    """None: a local change."""


class Position(NamedTuple):
    """Sequence and hash that identify an entry of the chain."""

    seq: int
    hash: bytes


class Head(NamedTuple):
    node: str
    incarnation: int
    origin: str
    identity: str
    public_key: bytes
    seq: int
    n: int
    hash: bytes
    recorded_at: int
    signature: bytes


class Owner(NamedTuple):
    """The signer of a store: identity of this copy and its key."""

    identity: str
    key: bytes


KEY_DAMAGED = StoreDamaged("The store's key file is damaged: restore it from a backup, or move it away.")

BODY_INDEX = Entry._fields.index("body")
"""Index of the first content column. A purge erases content; the columns before it remain."""


def content_digest(body: str | None, delta: str | None) -> bytes:
    """Hash the content of an entry. The digest remains after a purge."""
    return sha256(msgspec.json.encode([body, delta])).digest()


def chain_hash(previous: bytes, about: Sequence[Any], digest: bytes) -> bytes:
    """Hash an entry's other columns, its digest and the previous hash."""
    return sha256(previous + sha256(msgspec.json.encode(about)).digest() + digest).digest()


def signed_bytes(head: Head) -> bytes:
    """Return the bytes that the node signs: everything the next entry depends on."""
    return msgspec.json.encode(
        [head.node, head.incarnation, head.origin, head.seq, head.n, head.hash.hex(), head.recorded_at]
    )


def get_head(session: Session) -> Head:
    row = session.row("journal_head_get")
    assert row is not None, "a migrated store has a head"
    return Head(*row)


def create_head(session: Session, owner: Owner) -> None:
    """Create the signed head of a new store, so that even truncation to nothing is detected."""
    node = os.urandom(6).hex()
    head = Head(
        node=node,
        incarnation=1,
        origin=new_origin(node, 1),
        identity=owner.identity,
        public_key=public_key_of(owner.key),
        seq=0,
        n=0,
        hash=GENESIS,
        recorded_at=0,
        signature=UNSIGNED,
    )
    session.do("journal_head_add", **head._replace(signature=sign(owner.key, signed_bytes(head)))._asdict())
    session.do("signer_add", origin=head.origin, public_key=head.public_key, since=1)


def new_origin(node: str, incarnation: int) -> str:
    """Create a replica id. Its random part distinguishes two copies of one store with the same incarnation."""
    return f"{node}.{incarnation}-{os.urandom(4).hex()}"


def open_chain(session: Session, store: Store) -> tuple[Head, bytes]:
    """Load the head and the signing key; a copied or re-keyed store first starts a new incarnation."""
    head, lost = get_head(session), store.signing_key(session) is None
    owner = get_or_create_owner(session, store)
    if (head.public_key, head.identity) == (public_key_of(owner.key), owner.identity):
        return head, owner.key
    return start_incarnation(session, owner, head.node, head.incarnation + 1, adopt=lost), owner.key


def get_or_create_owner(session: Session, store: Store) -> Owner:
    """Return this store's signer; create a key if there is none."""
    key = store.signing_key(session)
    if key is None:
        key = new_key()
        store.make_signing_key(session, key)
    if len(key) != KEY_SIZE:
        raise KEY_DAMAGED
    return Owner(store.identity(), key)


def start_incarnation(session: Session, owner: Owner, node: str, incarnation: int, *, adopt: bool) -> Head:
    """Start a new incarnation of a node: changes are numbered from 1 under a new replica id and the owner's key.

    A head without a valid signature stays unsigned. So does one signed by another key, unless `adopt`: after the own
    key was lost, or in a restore.
    """
    head, key = get_head(session), owner.key
    if not is_pair(key):
        raise KEY_DAMAGED
    ours = adopt or head.public_key == public_key_of(key)
    whole = ours and is_valid_signature(head.public_key, head.signature, signed_bytes(head))
    renewed = head._replace(
        node=node,
        incarnation=incarnation,
        origin=new_origin(node, incarnation),
        identity=owner.identity,
        public_key=public_key_of(key),
        n=0,
    )
    renewed = renewed._replace(signature=sign(key, signed_bytes(renewed)) if whole else UNSIGNED)
    session.do("journal_head_renew", was=head.node, **renewed._asdict())
    session.do("signer_add", origin=renewed.origin, public_key=renewed.public_key, since=head.seq + 1)
    renew_signature(session, node, head.public_key if ours else UNSIGNED, key)
    return renewed


def repair_head(session: Session, head: Head, key: bytes) -> None:
    """Replace the head after the last entries were rewritten; sign it if the previous one was signed."""
    signature = sign(key, signed_bytes(head)) if head.signature != UNSIGNED else UNSIGNED
    session.do("journal_head_repair", node=head.node, n=head.n, hash=head.hash, signature=signature)


def append(
    session: Session, head: Head, key: bytes, entries: Collection[PendingEntry], actor: str, now: int
) -> list[Position]:
    """Append entries without gaps in commit order, sign the new head, and return the first and last position.

    A head that this key did not sign stays unsigned, so that tampering is still detected.
    """
    if not entries:
        return []
    own = sum(entry.author is None for entry in entries)
    taken = session.row("journal_head_reserve", node=head.node, count=len(entries), own=own)
    assert taken is not None
    seq, n, previous, recorded_at, signature = taken
    before = head._replace(seq=seq, n=n, hash=previous, recorded_at=recorded_at)
    whole = sign(key, signed_bytes(before)) == signature
    end = _ChainTail(before, actor, max(now, recorded_at))
    rows, first = map(end.add, entries), Position(0, GENESIS)
    while portion := list(islice(rows, BATCH_SIZE)):
        first = first if first.seq else Position(portion[0]["seq"], portion[0]["hash"])
        session.many("journal_add", portion)
    after = head._replace(seq=end.seq, n=end.n, hash=end.hash, recorded_at=end.recorded_at)
    signature = sign(key, signed_bytes(after)) if whole else UNSIGNED
    session.do("journal_head_set", node=head.node, hash=end.hash, recorded_at=end.recorded_at, signature=signature)
    return [first, Position(end.seq, end.hash)]


class _ChainTail:
    """The end of the chain while entries are appended."""

    def __init__(self, head: Head, actor: str, recorded_at: int) -> None:
        self.seq, self.n, self.hash, self.recorded_at = head.seq, head.n, head.hash, recorded_at
        self._origin, self._actor = head.origin, actor
        self._batch, self._group = head.seq + 1, ("", -1)

    def add(self, entry: PendingEntry) -> dict[str, Any]:
        """Return the row of the next entry."""
        self.seq += 1
        self.n += entry.author is None
        author = entry.author or Author(self._origin, self.n, self._actor, 0)
        if (author.origin, author.group) != self._group:
            self._batch, self._group = self.seq, (author.origin, author.group)
        at = (self.seq, author.origin, author.n or self.seq, self._batch, entry.at, self.recorded_at, author.actor)
        fields = (*at, *entry[1:-1])
        digest = content_digest(entry.body, entry.delta)
        self.hash = chain_hash(self.hash, fields[:BODY_INDEX], digest)
        return dict(zip(Entry._fields, (*fields, digest, self.hash), strict=True))


def has_entry(session: Session, position: Position) -> bool:
    """Whether the chain contains exactly this entry."""
    row = session.row("journal_one", seq=position.seq)
    return row is not None and Entry(*row).hash == position.hash


def iter_entries(session: Session, statement: str = "journal_page", page_size: int = 1000) -> Iterator[Entry]:
    """Iterate over all entries in order; raises StoreDamaged if a page does not advance."""
    after = 0
    while page := session.rows(statement, after=after, limit=page_size):
        yield from (Entry(*row) for row in page)
        if isinstance(page[-1][0], int) and page[-1][0] <= after:
            raise StoreDamaged
        after = page[-1][0]


if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


KEY_SIZE = 64


def new_key() -> bytes:
    """Create a key: private followed by public, so that reading the public key needs no cryptography."""
    private = os.urandom(32)
    return private + _private(private).public_key().public_bytes_raw()


@lru_cache(maxsize=8)
def _private(key: bytes) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # 4 ms; reading needs none

    return Ed25519PrivateKey.from_private_bytes(key[:32])


def is_pair(key: bytes) -> bool:
    """Whether public and private key match."""
    return _private(key).public_key().public_bytes_raw() == public_key_of(key)


def public_key_of(key: bytes) -> bytes:
    return key[32:]


@lru_cache(maxsize=8)
def sign(key: bytes, message: bytes) -> bytes:
    """Sign a message. Recent signatures are cached, because the next writer needs the last one again."""
    return _private(key).sign(message)


def is_valid_signature(public: bytes, signature: bytes, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature  # 4 ms; reading needs none
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # 4 ms; reading needs none

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


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
    recorded_at: int
    compacted_at: int
    removed_entries: int
    """Number of entries removed by compaction."""
    remaining_sum: bytes
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
    field_versions: str | None
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


def encode_point(point: CompactionPoint) -> bytes:
    """Return the bytes that the node signs for a compaction point."""
    about = [point.node, point.seq, point.hash.hex(), point.recorded_at, point.compacted_at, point.removed_entries]
    return msgspec.json.encode(["floor", *about, point.remaining_sum.hex()])


def put_compaction_point(session: Session, point: CompactionPoint, key: bytes) -> None:
    """Sign a compaction point and replace the previous one."""
    session.do("compaction_point_clear")
    session.do("compaction_point_put", **point._replace(signature=sign(key, encode_point(point)))._asdict())


def renew_signature(session: Session, node: str, before: bytes, key: bytes) -> None:
    """Sign the compaction point with a new key if the old signature is valid; else leave it for `verify` to report."""
    floor = get_compaction_point(session)
    if floor is not None and is_valid_signature(before, floor.signature, encode_point(floor)):
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


def digest_field_versions(packed: str) -> bytes:
    return sha256(packed.encode()).digest()


def require_history_at(session: Session, at: int) -> None:
    """Raise if the history of a point in time was compacted."""
    floor = get_compaction_point(session)
    if floor is not None and at < floor.recorded_at:
        raise HistoryCompacted(
            f"History before {format_timestamp(floor.recorded_at)} was compacted: ask for that time or a later one.",
            since=format_timestamp(floor.recorded_at),
        )


def describe_missing_history(session: Session, at: int) -> str | None:
    """Return a warning if past states of a point in time may have been compacted, else None."""
    floor = get_compaction_point(session)
    if floor is None or at >= floor.recorded_at:
        return None
    return f"Older states of memories before {format_timestamp(floor.recorded_at)} were compacted."


def is_compacted(session: Session, seq: int) -> bool:
    """Whether an entry is below the compaction point, so that the change itself may be gone."""
    floor = get_compaction_point(session)
    return floor is not None and seq <= floor.seq
