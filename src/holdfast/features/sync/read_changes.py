"""Read what a store sends to another: its handshake and the missing changes; keep its version vector."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.graph.model import Alias
from holdfast.features.memories.grant import Grant
from holdfast.features.namespaces.model import Standard
from holdfast.features.reflections.invalidation import Invalidation
from holdfast.features.skills import file_contents
from holdfast.features.skills.model import SKILL_VERSION, File, Skill, SkillVersion
from holdfast.features.sync.peers.filter import NamespaceFilter
from holdfast.features.sync.record_snapshots import (
    RecordSnapshot,
    build_snapshot,
    load_record,
    read_fields,
    read_snapshot,
)
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.journal import (
    Baseline,
    get_compaction_point,
    list_baselines,
    public_key_of,
    put_baselines,
    sign,
)
from holdfast.kernel.journal.kinds import KINDS, MEMORY, Kind
from holdfast.kernel.journal.transaction import Transaction, TransactionListener
from holdfast.kernel.records.change import Change, history_mark, signed_bytes
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.merge import canonical_json
from holdfast.kernel.records.namespace_patterns import FULL_SCOPE, PeerScope
from holdfast.kernel.storage.port import Row, Session
from holdfast.kernel.timestamps import RECORD_SNAPSHOT

SCAN_ENTRIES = 1000
PAGE_BYTES = 2 * 1024 * 1024
"""Target size of a page; it ends with the current transaction."""
MAX_PAGE_BYTES = 2 * PAGE_BYTES
"""Maximum size of a page; it ends even within a transaction."""
MAX_SCANNED = 20 * SCAN_ENTRIES
"""Maximum journal entries scanned for one page; a peer may be allowed to read few of them."""


class VectorEntry(NamedTuple):
    """The number up to which all changes of an origin are present, and a mark of the last of them."""

    n: int
    mark: str


class Handshake(Struct, frozen=True, kw_only=True):
    """Identity and version vector of a store at the start of an exchange."""

    node: str
    origin: str
    seq: int
    """The end of its journal."""
    now: int
    """Its wall clock, in microseconds."""
    vector: dict[str, VectorEntry]
    authors: dict[str, str]
    """Known public keys, by origin."""
    scope: str = ""
    """Identifies the namespace patterns it sends; empty for all. If it changes, its journal is read from the start."""


class Page(NamedTuple):
    """Changes in the order of their sender's journal, and the sequence number up to which it was read."""

    changes: list[Change]
    upto: int
    more: bool
    files: dict[str, bytes] = {}
    """Compressed contents of skill files in the page, by digest."""
    states: list[RecordSnapshot] = []
    """Snapshots of records whose changes are not sent one by one."""
    bases: dict[str, VectorEntry] = {}
    """Baselines: per origin, the number up to which everything sent so far contains all changes, snapshots included."""


def build_handshake(session: Session, now: int, scope: PeerScope = FULL_SCOPE) -> Handshake:
    head = journal.get_head(session)
    authors = {origin: key.hex() for origin, key, _ in session.rows("replica_list")}
    authors |= {origin: key.hex() for origin, key, _ in session.rows("signer_list")}
    return Handshake(
        node=head.node,
        origin=head.origin,
        seq=head.seq,
        now=now,
        vector=read_vector(session),
        authors=authors,
        scope=scope.send_digest,
    )


def read_vector(session: Session) -> dict[str, VectorEntry]:
    """Return the version vector, with a mark of the last change of each origin."""
    return {
        origin: VectorEntry(n, find_mark(session, origin, n) or "") for origin, n in read_numbers(session).items() if n
    }


def read_numbers(session: Session) -> dict[str, int]:
    """Return per origin the number up to which all changes are here, in the journal or compacted."""
    own, known = journal.get_head(session).origin, dict[str, int]()
    for origin, n in session.rows("own_numbers"):
        known[origin] = n
    for origin, n in session.rows("version_vector_list"):
        known[origin] = known.get(origin, 0) if origin == own else n
    for base in list_baselines(session):
        known[base.origin] = max(base.n, known.get(base.origin, 0))
    return known


def get_cursor(session: Session, sender: Handshake) -> int:
    """Return the cursor in the journal of another store; 0 if the namespaces it sends have changed since."""
    row = session.row("sync_cursor_get", origin=sender.origin)
    return row[0] if row and row[1] == sender.scope else 0


def advance_cursor(session: Session, sender: Handshake, seq: int, now: int) -> None:
    """Store that everything in the journal of another store up to `seq` was applied."""
    session.do("sync_cursor_put", origin=sender.origin, seq=seq, scope=sender.scope, now=now)


def read_numbers_at(session: Session, place: int) -> dict[str, int]:
    """Return per origin the number up to which all changes were here at a journal position, or the compaction point."""
    floor = get_compaction_point(session)
    upto = max(place, floor.seq if floor else 0)
    known = dict.fromkeys(read_numbers(session), 0)
    for base in list_baselines(session):
        if base.seq <= upto:
            known[base.origin] = max(base.n, known[base.origin])
    for origin, after in known.items():
        row = session.row("baseline_contiguous_upto", origin=origin, after=after, upto=upto)
        assert row is not None
        known[origin] = row[0]
    return {origin: n for origin, n in known.items() if n}


def find_mark(session: Session, origin: str, n: int) -> str | None:
    """Return the mark of a change here, or None."""
    if row := session.row("change_mark", origin=origin, n=n):
        return history_mark(origin, n, *row)
    row = session.row("baseline_mark", origin=origin, n=n)
    return row[0] if row else None


class _NamespaceField(Struct):
    """The namespace of a journalled memory."""

    namespace: str


_namespace_decoder = msgspec.json.Decoder(_NamespaceField)


_fields_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


class OutgoingFilter:
    """Decide which changes a peer may read, in the order of the journal."""

    def __init__(self, session: Session, scope: PeerScope) -> None:
        self._session = session
        self._scope = scope
        self._within: dict[tuple[str, str], bool] = {}

    def mark_visible(self, rows: Sequence[Row]) -> Iterator[tuple[Row, bool]]:
        """Yield journal rows, each with whether the peer may read it."""
        if self._scope.sends_everything:
            return ((row, True) for row in rows)
        self._load_namespaces({row[8] for row in rows if row[7] == "memory"})
        return ((row, self._is_row_visible(row)) for row in rows)

    def is_visible(self, kind: str, id: str) -> bool:
        """Whether the peer may read a record now."""
        return self._scope.sends_everything or self._is_within(kind, id)

    def list_entering(self, row: Row) -> list[RecordSnapshot]:
        """Return snapshots of records that a change makes visible to the peer: a moved memory and its referrers."""
        if (
            self._scope.sends_everything
            or row[7] != "memory"
            or "namespace" not in _fields_decoder.decode(row[11] or "{}")
        ):
            return []
        records = [("memory", row[8]), *((kind, id) for kind, id in self._session.rows("memory_referrers", id=row[8]))]
        states = [read_snapshot(self._session, kind, id) for kind, id in records if self._is_within(kind, id)]
        return [state for state in states if state is not None]

    def _is_row_visible(self, row: Row) -> bool:
        """Whether the peer may read a change: its memory must match both now and after the change."""
        kind, id, body = row[7], row[8], row[10]
        if not self._is_within(kind, id):
            return False
        return kind != "memory" or body is None or self._scope.can_send(_namespace_decoder.decode(body).namespace)

    def _is_within(self, kind: str, id: str) -> bool:
        if (kind, id) not in self._within:
            self._within[kind, id] = self._check_record(kind, id)
        return self._within[kind, id]

    def _check_record(self, kind: str, id: str) -> bool:
        if kind == "memory":
            self._load_namespaces({id})
            return self._within.get((kind, id), False)
        return NamespaceFilter(self._session, self._scope.can_send).contains_id(kind, id)

    def _load_namespaces(self, memories: set[str]) -> None:
        ids = sorted(id for id in memories if ("memory", id) not in self._within)
        for id, namespace in self._session.rows("memory_namespaces", ids=ids) if ids else []:
            self._within["memory", id] = self._scope.can_send(namespace)


def read_page(
    session: Session, key: bytes | None, after: int, known: Mapping[str, int], limit: int, scope: PeerScope = FULL_SCOPE
) -> Page:
    """Read a page of visible changes after `after` that the peer is missing; keeps transactions together if possible.

    `known` only saves bytes: changes above a gap are sent again and ignored there. Own changes whose signing key is
    gone cannot be signed: they are sent as record snapshots, like compacted ones.
    """
    reading = _PageReader(session, key, known, scope)
    for row, is_visible in reading.scan_entries(after):
        if reading.is_over() or (reading.is_full(limit) and row[1] != reading.batch):
            return reading.build_page(after, more=True)
        reading.add_entry(row, is_visible=is_visible)
    return reading.build_page(after, more=False)


class _PageReader:
    """Build one page while reading the journal."""

    def __init__(self, session: Session, key: bytes | None, known: Mapping[str, int], scope: PeerScope) -> None:
        self._session, self._key, self._known, self._scope = session, key, known, scope
        signers = {origin: public for origin, public, _ in session.rows("signer_list")}
        self._own = {origin for origin, public in signers.items() if key and public == public_key_of(key)}
        self._unsigned = signers.keys() - self._own
        self._filter = OutgoingFilter(session, scope)
        self._bases = list_baselines(session)
        self._has_all = all(known.get(base.origin, 0) >= base.n for base in self._bases)
        self._bases += _list_unsigned_baselines(session, self._unsigned)
        self._changes: list[Change] = []
        self._states: dict[tuple[str, str], RecordSnapshot] = {}
        self._read_upto, self.batch, self._read_count, self._bytes = 0, 0, 0, 0

    def is_full(self, limit: int) -> bool:
        size = len(self._changes) + len(self._states)
        return size >= limit or self._read_count >= MAX_SCANNED or self._bytes >= PAGE_BYTES

    def is_over(self) -> bool:
        """Whether the page must end within a transaction, which may be larger than a message."""
        return self._bytes >= MAX_PAGE_BYTES

    def scan_entries(self, after: int) -> Iterator[tuple[Row, bool]]:
        self._read_upto = after
        while rows := self._session.rows("change_feed", after=after, limit=SCAN_ENTRIES):
            yield from self._filter.mark_visible(rows)
            after = rows[-1][0]

    def add_entry(self, row: Row, *, is_visible: bool) -> None:
        """Add one entry: as a change, or as a snapshot of its record if the change cannot be sent any more."""
        self._read_upto, self.batch, self._read_count = row[0], row[1], self._read_count + 1
        if not is_visible:
            return
        for state in self._filter.list_entering(row):
            self._add_snapshot(state)
        if row[2] == RECORD_SNAPSHOT or row[-1]:
            self._add_compacted(row)
        elif row[3] <= self._known.get(row[2], 0):
            return
        elif row[2] in self._unsigned:
            self._add_with_required(row, covered=True)
        else:
            change = _build_change(row, self._own, self._key)
            self._changes.append(change)
            self._bytes += len(change.content or "") + _count_file_bytes(change)

    def _add_snapshot(self, state: RecordSnapshot) -> None:
        self._states[state.kind, state.record] = state
        self._bytes += len(state.body) + len(state.cells) + _count_file_bytes(state)

    def _add_compacted(self, row: Row) -> None:
        """Add the snapshot of a compacted record, unless the peer has all compacted changes."""
        covered = row[2] != RECORD_SNAPSHOT or row[6] == RECORD_SNAPSHOT
        if not (covered and self._has_all):
            self._add_with_required(row, covered=covered)

    def _add_with_required(self, row: Row, *, covered: bool) -> None:
        for state in _read_with_required(self._session, row[7], row[8]):
            is_added = (state.kind, state.record) in self._states
            if not is_added and self._filter.is_visible(state.kind, state.record):
                self._add_snapshot(replace(state, covered=covered and self._scope.sends_everything))

    def build_page(self, after: int, *, more: bool) -> Page:
        snapshots = list(self._states.values())
        files = _collect_files(self._session, self._changes, snapshots)
        return Page(
            self._changes, self._read_upto, more, files=files, states=snapshots, bases=self._list_baselines(after)
        )

    def _list_baselines(self, after: int) -> dict[str, VectorEntry]:
        """Return the baselines reached by the end of this page; none for a peer that may read only a part."""
        passed = [base for base in self._bases if after < base.seq <= self._read_upto and self._scope.sends_everything]
        return {base.origin: VectorEntry(base.n, base.mark) for base in sorted(passed, key=lambda base: base.n)}


def _read_with_required(session: Session, kind: str, id: str) -> list[RecordSnapshot]:
    """Return the snapshots of the records that a record requires, then its own."""
    loaded = load_record(session, KINDS[kind], id)
    if loaded is None:
        return []
    ends = [read_snapshot(session, end.name, one) for end, one in list_required(loaded[0])]
    return [*(state for state in ends if state is not None), build_snapshot(KINDS[kind], *loaded)]


def list_required(record: Struct) -> list[tuple[Kind[Any], str]]:
    """List the records that a record requires."""
    match record:
        case Link():
            return [(MEMORY, record.source), (MEMORY, record.target)]
        case Alias():
            return [(MEMORY, record.entity)]
        case Grant() | Standard():
            return [(MEMORY, record.memory)]
        case Invalidation():
            return [(MEMORY, record.dependent)]
        case Skill():
            return [(SKILL_VERSION, record.current)]
        case _:
            return []


def _list_unsigned_baselines(session: Session, origins: Collection[str]) -> list[Baseline]:
    """Return the baselines of own origins that are sent as snapshots."""
    last = [(origin, n) for origin, n in session.rows("own_numbers") if n and origin in origins]
    return [
        Baseline(origin, n, find_mark(session, origin, n) or "", row[0])
        for origin, n in last
        for row in session.rows("fork_own_changes", origin=origin, after=n - 1)
    ]


def _collect_files(
    session: Session, changes: Sequence[Change], snapshots: Sequence[RecordSnapshot]
) -> dict[str, bytes]:
    items: list[Change | RecordSnapshot] = [*changes, *snapshots]
    digests = {file.digest for one in items for file in _list_files_of(one)}
    return {digest: file_contents.read_compressed(session, digest) for digest in sorted(digests)}


def _list_files_of(item: Change | RecordSnapshot) -> Sequence[File]:
    if item.kind != "skill_version" or item.body is None:
        return ()
    return msgspec.json.decode(item.body, type=SkillVersion).files


def _count_file_bytes(item: Change | RecordSnapshot) -> int:
    return sum(file.size for file in _list_files_of(item))


def _build_change(row: Row, own: set[str], key: bytes | None) -> Change:
    _, batch, origin, n, at, actor, op, kind, record, about, body, delta, signature, digest, exact_body, _ = row
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
        body=None if delta is not None or erased else exact_body or body,
        delta=delta,
        erased=erased,
        signature=signature or "",
        group=batch,
    )
    if origin not in own or key is None:
        return change
    return replace(change, signature=sign(key, signed_bytes(change)).hex())


def advance_vector(session: Session, origins: Sequence[str]) -> None:
    """Advance the version vector of origins; never over a gap."""
    vector = {row[0]: row[1] for row in session.rows("version_vector_list")}
    for base in list_baselines(session):
        vector[base.origin] = max(base.n, vector.get(base.origin, 0))
    for origin in origins:
        row = session.row("contiguous_upto", origin=origin, after=vector.get(origin, 0))
        assert row is not None
        session.do("version_vector_put", origin=origin, n=row[0])


class SeenOrigins:
    """The origins whose changes one transaction applied."""

    def __init__(self) -> None:
        self.origins: set[str] = set()
        """Origins of single changes."""
        self.baselines: dict[str, tuple[int, str]] = {}
        """Per origin, the number and mark up to which all its changes were applied as record snapshots."""


class VersionVectorListener(TransactionListener):
    """Keep the version vector equal to the applied changes."""

    needs = SeenOrigins

    def on_appended(self, tx: Transaction) -> None:
        seen = tx.local[SeenOrigins]
        if seen.origins or seen.baselines:
            put_baselines(tx.session, seen.baselines, tx.last_seq)
            advance_vector(tx.session, sorted({*seen.origins, *seen.baselines}))


def compute_digest(session: Session) -> str:
    """Compute the store digest: equal on two stores if and only if all field versions of all records are equal."""
    total = 0
    for name, id in session.rows("record_list"):
        if name not in KINDS or not session.row(f"{name}_field_versions", id=id):
            continue
        states = read_fields(session, name, id)
        assert states is not None
        for cell, state in states.items():
            values = sorted([s.time, s.origin, canonical_json(v).decode()] for s, v in state.values.items())
            text = msgspec.json.encode([name, id, cell, values, sorted(state.seen.items())])
            total += int.from_bytes(sha256(text).digest()[:16], "big")
    return f"{total % (1 << 128):032x}"
