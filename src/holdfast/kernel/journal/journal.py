"""The journal: an append-only, hash-chained table that is history, audit trail and change feed."""

import os
from collections.abc import Collection, Iterator, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from holdfast.kernel.errors import StoreDamaged
from holdfast.kernel.journal import checkpoint, signer
from holdfast.kernel.storage.port import Session, Store
from holdfast.kernel.timestamps import RECORD_SNAPSHOT

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
    kept_at: int
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
    kept_at: int
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
        [head.node, head.incarnation, head.origin, head.seq, head.n, head.hash.hex(), head.kept_at]
    )


def get_head(session: Session) -> Head:
    row = session.row("chain_head")
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
        public_key=signer.public_key_of(owner.key),
        seq=0,
        n=0,
        hash=GENESIS,
        kept_at=0,
        signature=UNSIGNED,
    )
    session.do("chain_begin", **head._replace(signature=signer.sign(owner.key, signed_bytes(head)))._asdict())
    session.do("signer_add", origin=head.origin, public_key=head.public_key, since=1)


def new_origin(node: str, incarnation: int) -> str:
    """Create a replica id. Its random part distinguishes two copies of one store with the same incarnation."""
    return f"{node}.{incarnation}-{os.urandom(4).hex()}"


def open_chain(session: Session, store: Store) -> tuple[Head, bytes]:
    """Load the head and the signing key; a copied or re-keyed store first starts a new incarnation."""
    head, lost = get_head(session), store.signing_key(session) is None
    owner = get_or_create_owner(session, store)
    if (head.public_key, head.identity) == (signer.public_key_of(owner.key), owner.identity):
        return head, owner.key
    return start_incarnation(session, owner, head.node, head.incarnation + 1, adopt=lost), owner.key


def get_or_create_owner(session: Session, store: Store) -> Owner:
    """Return this store's signer; create a key if there is none."""
    key = store.signing_key(session)
    if key is None:
        key = signer.new_key()
        store.make_signing_key(session, key)
    if len(key) != signer.KEY_SIZE:
        raise KEY_DAMAGED
    return Owner(store.identity(), key)


def start_incarnation(session: Session, owner: Owner, node: str, incarnation: int, *, adopt: bool) -> Head:
    """Start a new incarnation of a node: changes are numbered from 1 under a new replica id and the owner's key.

    A head without a valid signature stays unsigned. So does one signed by another key, unless `adopt`: after the own
    key was lost, or in a restore.
    """
    head, key = get_head(session), owner.key
    if not signer.is_pair(key):
        raise KEY_DAMAGED
    ours = adopt or head.public_key == signer.public_key_of(key)
    whole = ours and signer.is_valid_signature(head.public_key, head.signature, signed_bytes(head))
    renewed = head._replace(
        node=node,
        incarnation=incarnation,
        origin=new_origin(node, incarnation),
        identity=owner.identity,
        public_key=signer.public_key_of(key),
        n=0,
    )
    renewed = renewed._replace(signature=signer.sign(key, signed_bytes(renewed)) if whole else UNSIGNED)
    session.do("chain_renew", was=head.node, **renewed._asdict())
    session.do("signer_add", origin=renewed.origin, public_key=renewed.public_key, since=head.seq + 1)
    checkpoint.renew_signature(session, node, head.public_key if ours else UNSIGNED, key)
    return renewed


def repair_head(session: Session, head: Head, key: bytes) -> None:
    """Replace the head after the last entries were rewritten; sign it if the previous one was signed."""
    signature = signer.sign(key, signed_bytes(head)) if head.signature != UNSIGNED else UNSIGNED
    session.do("chain_repair", node=head.node, n=head.n, hash=head.hash, signature=signature)


def append(
    session: Session, head: Head, key: bytes, entries: Collection[PendingEntry], actor: str, now: int
) -> list[Position]:
    """Append entries without gaps in commit order, sign the new head, and return the first and last position.

    A head that this key did not sign stays unsigned, so that tampering is still detected.
    """
    if not entries:
        return []
    own = sum(entry.author is None for entry in entries)
    taken = session.row("chain_reserve", node=head.node, count=len(entries), own=own)
    assert taken is not None
    seq, n, previous, kept_at, signature = taken
    before = head._replace(seq=seq, n=n, hash=previous, kept_at=kept_at)
    whole = signer.sign(key, signed_bytes(before)) == signature
    end = _ChainTail(before, actor, max(now, kept_at))
    rows, first = map(end.add, entries), Position(0, GENESIS)
    while portion := list(islice(rows, BATCH_SIZE)):
        first = first if first.seq else Position(portion[0]["seq"], portion[0]["hash"])
        session.many("journal_add", portion)
    after = head._replace(seq=end.seq, n=end.n, hash=end.hash, kept_at=end.kept_at)
    signature = signer.sign(key, signed_bytes(after)) if whole else UNSIGNED
    session.do("chain_set", node=head.node, hash=end.hash, kept_at=end.kept_at, signature=signature)
    return [first, Position(end.seq, end.hash)]


class _ChainTail:
    """The end of the chain while entries are appended."""

    def __init__(self, head: Head, actor: str, kept_at: int) -> None:
        self.seq, self.n, self.hash, self.kept_at = head.seq, head.n, head.hash, kept_at
        self._origin, self._actor = head.origin, actor
        self._batch, self._group = head.seq + 1, ("", -1)

    def add(self, entry: PendingEntry) -> dict[str, Any]:
        """Return the row of the next entry."""
        self.seq += 1
        self.n += entry.author is None
        author = entry.author or Author(self._origin, self.n, self._actor, 0)
        if (author.origin, author.group) != self._group:
            self._batch, self._group = self.seq, (author.origin, author.group)
        at = (self.seq, author.origin, author.n or self.seq, self._batch, entry.at, self.kept_at, author.actor)
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


class JournalFault(NamedTuple):
    """A defect of the chain."""

    seq: int
    message: str


def verify_chain(session: Session, own_public_key: bytes | None) -> Iterator[JournalFault]:
    """Check the chain and yield every defect."""
    try:
        yield from _find_faults(session, own_public_key)
    except (TypeError, AttributeError):
        yield JournalFault(
            0, "the journal contains values that its tables do not allow: the file was damaged or rebuilt"
        )


def _find_faults(session: Session, own_public_key: bytes | None) -> Iterator[JournalFault]:
    head, walk = get_head(session), _ChainWalk(session)
    for entry in iter_entries(session):
        yield from walk.step(entry)
    yield from walk.end()
    if walk.computed_head(head) != head:
        yield JournalFault(head.seq, "the journal does not end at its head: entries were removed or added at the end")
    yield from _check_head_signature(head, own_public_key)
    yield from _check_compaction_signature(head, walk.floor)
    yield from _check_signers(session, head, walk.first_seqs)


class _ChainWalk:
    """Walks the chain: checks entries below the compaction point by their sum, the others link by link."""

    def __init__(self, session: Session) -> None:
        self.floor, self._own_ends = checkpoint.get_compaction_point(session), _own_origin_ends(session)
        self._bases, self._session, self._compacted_sum = (
            checkpoint.list_baselines(session),
            session,
            checkpoint.EMPTY_SUM,
        )
        self._previous, self._expected, self._kept_at = GENESIS, 1, 0
        self._numbers: dict[str, int] = {}
        self.first_seqs: dict[str, tuple[int, int]] = {}
        self._last_own = 0
        self._erased: dict[tuple[str, str], list[int]] = {}
        self._purged: set[tuple[str, str]] = set()
        self._crossed = self.floor is None

    def step(self, entry: Entry) -> Iterator[JournalFault]:
        if self.floor is not None and entry.seq > self.floor.seq:
            yield from self._cross_compaction_point(self.floor)
        yield from self._check_content(entry)
        if self._crossed:
            yield from self._check_link(entry)
        else:
            item = checkpoint.encode_entry(entry[:BODY_INDEX], entry.digest, entry.hash)
            self._compacted_sum = checkpoint.update_sum(self._compacted_sum, [item])
        self.first_seqs.setdefault(entry.origin, (self._last_own, entry.seq))
        self._last_own = entry.seq if entry.seq < self._own_ends.get(entry.origin, 0) else self._last_own

    def end(self) -> Iterator[JournalFault]:
        if self.floor is not None:
            yield from self._cross_compaction_point(self.floor)
        for seq in sorted(seq for many in self._erased.values() for seq in many):
            yield JournalFault(seq, "the entry's content was erased without a purge")

    def computed_head(self, head: Head) -> Head:
        """Return the head that follows from the entries."""
        n = self._numbers.get(head.origin, 0)
        return head._replace(seq=self._expected - 1, n=n, hash=self._previous, kept_at=self._kept_at)

    def _check_content(self, entry: Entry) -> Iterator[JournalFault]:
        """Check the content of an entry. Erased content requires a purge, which may come first if replicated."""
        if (entry.body, entry.delta) == (None, None):
            if (entry.kind, entry.record) not in self._purged:
                self._erased.setdefault((entry.kind, entry.record), []).append(entry.seq)
        elif content_digest(entry.body, entry.delta) != entry.digest:
            yield JournalFault(entry.seq, "the entry's content was edited")
        elif entry.op == "purge":
            self._erased.pop((entry.kind, entry.record), None)
            self._purged.add((entry.kind, entry.record))

    def _check_link(self, entry: Entry) -> Iterator[JournalFault]:
        if entry.seq != self._expected:
            yield JournalFault(self._expected, f"entries {self._expected} to {entry.seq - 1} are missing")
        if chain_hash(self._previous, entry[:BODY_INDEX], entry.digest) != entry.hash:
            yield JournalFault(entry.seq, "the entry was edited, or does not follow from the previous one")
        if entry.seq < self._own_ends.get(entry.origin, 0) and entry.n != self._numbers.get(entry.origin, 0) + 1:
            yield JournalFault(entry.seq, f"change {entry.n} of {entry.origin} is out of order")
        if entry.kept_at < self._kept_at:
            yield JournalFault(entry.seq, "its time is before that of the previous entry")
        self._numbers[entry.origin], self._kept_at = entry.n, entry.kept_at
        self._previous, self._expected = entry.hash, entry.seq + 1

    def _cross_compaction_point(self, floor: checkpoint.CompactionPoint) -> Iterator[JournalFault]:
        """Check the entries below the compaction point against the signed sum, then continue from it."""
        if self._crossed:
            return
        self._crossed = True
        items = map(checkpoint.encode_compacted_record, checkpoint.iter_compacted_records(self._session))
        if checkpoint.update_sum(self._compacted_sum, items) != floor.kept:
            yield JournalFault(floor.seq, "the compacted entries were edited")
        self._previous, self._expected, self._kept_at = floor.hash, floor.seq + 1, floor.kept_at
        for base in self._bases:
            if base.seq <= floor.seq:
                self._numbers[base.origin] = max(base.n, self._numbers.get(base.origin, 0))


def _own_origin_ends(session: Session) -> dict[str, int]:
    """Return the end of each own origin's reign in the journal; later entries of it were received from peers."""
    signers = sorted(session.rows("signer_list"), key=lambda row: (row[2], _incarnation(row[0])))
    ends = [*(since for _, _, since in signers[1:]), 1 << 62][: len(signers)]
    return {origin: end for (origin, *_), end in zip(signers, ends, strict=True)}


def _incarnation(origin: str) -> int:
    number = origin.partition(".")[2].partition("-")[0]
    return int(number) if number.isdecimal() else 0


def _check_compaction_signature(head: Head, floor: checkpoint.CompactionPoint | None) -> Iterator[JournalFault]:
    if floor is not None and not signer.is_valid_signature(
        head.public_key, floor.signature, checkpoint.signed_bytes(floor)
    ):
        yield JournalFault(floor.seq, "the compaction point is not signed by this node's key: it was edited")


def _check_signers(session: Session, head: Head, first_seqs: dict[str, tuple[int, int]]) -> Iterator[JournalFault]:
    """Check that every own incarnation is recorded with its key and began after the previous one's last change.

    After a restore, entries of an earlier incarnation can come back from peers.
    """
    known = {origin: (public_key, since) for origin, public_key, since in session.rows("signer_list")}
    elsewhere, reigns = {row[0] for row in session.rows("author_list")}, _own_origin_ends(session)
    for origin, (before, seq) in first_seqs.items():
        back = seq >= reigns.get(origin, 1 << 62)
        if (
            origin not in (*elsewhere, RECORD_SNAPSHOT)
            and not back
            and not before < known.get(origin, (b"", 0))[1] <= seq
        ):
            yield JournalFault(seq, f"the recorded signing key of {origin} was edited")
    if known.get(head.origin, (b"", 0))[0] != head.public_key:
        yield JournalFault(head.seq, f"the recorded signing key of {head.origin} was edited")


def _check_head_signature(head: Head, own_public_key: bytes | None) -> Iterator[JournalFault]:
    if not signer.is_valid_signature(head.public_key, head.signature, signed_bytes(head)):
        yield JournalFault(head.seq, "the head is not signed by this node's key: the journal was edited or rebuilt")
    if own_public_key is None:
        yield JournalFault(head.seq, "the node's key is missing: the signature of the head cannot be checked")
    elif own_public_key != head.public_key:
        yield JournalFault(head.seq, "the head's key differs from the store's key")
