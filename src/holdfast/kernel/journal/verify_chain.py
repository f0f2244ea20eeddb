"""Verify the hash chain: its links, sums, numbers and signatures."""

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.kernel.journal.journal import (
    BODY_INDEX,
    EMPTY_SUM,
    GENESIS,
    CompactionPoint,
    Entry,
    Head,
    chain_hash,
    content_digest,
    encode_compacted_record,
    encode_entry,
    encode_point,
    get_compaction_point,
    get_head,
    is_valid_signature,
    iter_compacted_records,
    iter_entries,
    list_baselines,
    signed_bytes,
    update_sum,
)
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import RECORD_SNAPSHOT


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
        self.floor, self._own_ends = get_compaction_point(session), _own_origin_ends(session)
        self._bases, self._session, self._compacted_sum = (list_baselines(session), session, EMPTY_SUM)
        self._previous, self._expected, self._recorded_at = GENESIS, 1, 0
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
            item = encode_entry(entry[:BODY_INDEX], entry.digest, entry.hash)
            self._compacted_sum = update_sum(self._compacted_sum, [item])
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
        return head._replace(seq=self._expected - 1, n=n, hash=self._previous, recorded_at=self._recorded_at)

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
        if entry.recorded_at < self._recorded_at:
            yield JournalFault(entry.seq, "its time is before that of the previous entry")
        self._numbers[entry.origin], self._recorded_at = entry.n, entry.recorded_at
        self._previous, self._expected = entry.hash, entry.seq + 1

    def _cross_compaction_point(self, floor: CompactionPoint) -> Iterator[JournalFault]:
        """Check the entries below the compaction point against the signed sum, then continue from it."""
        if self._crossed:
            return
        self._crossed = True
        items = map(encode_compacted_record, iter_compacted_records(self._session))
        if update_sum(self._compacted_sum, items) != floor.remaining_sum:
            yield JournalFault(floor.seq, "the compacted entries were edited")
        self._previous, self._expected, self._recorded_at = floor.hash, floor.seq + 1, floor.recorded_at
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


def _check_compaction_signature(head: Head, floor: CompactionPoint | None) -> Iterator[JournalFault]:
    if floor is not None and not is_valid_signature(head.public_key, floor.signature, encode_point(floor)):
        yield JournalFault(floor.seq, "the compaction point is not signed by this node's key: it was edited")


def _check_signers(session: Session, head: Head, first_seqs: dict[str, tuple[int, int]]) -> Iterator[JournalFault]:
    """Check that every own incarnation is recorded with its key and began after the previous one's last change.

    After a restore, entries of an earlier incarnation can come back from peers.
    """
    known = {origin: (public_key, since) for origin, public_key, since in session.rows("signer_list")}
    elsewhere, reigns = {row[0] for row in session.rows("replica_list")}, _own_origin_ends(session)
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
    if not is_valid_signature(head.public_key, head.signature, signed_bytes(head)):
        yield JournalFault(head.seq, "the head is not signed by this node's key: the journal was edited or rebuilt")
    if own_public_key is None:
        yield JournalFault(head.seq, "the node's key is missing: the signature of the head cannot be checked")
    elif own_public_key != head.public_key:
        yield JournalFault(head.seq, "the head's key differs from the store's key")
