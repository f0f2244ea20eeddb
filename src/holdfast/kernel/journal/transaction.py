"""The unit of work: writes the records of one transaction, rows immediately, journal entries at the end."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.errors import VersionConflict
from holdfast.kernel.journal import conflicts, journal
from holdfast.kernel.journal.journal import CompactionPoint, put_compaction_point, sign
from holdfast.kernel.journal.kinds import Kind, R, body_text, columns_of, content_hash, search_columns, searchable_texts
from holdfast.kernel.journal.redact import redact_record
from holdfast.kernel.journal.title_groups import change_group, release_members
from holdfast.kernel.msgspec_lock import register_type
from holdfast.kernel.records import field_versions
from holdfast.kernel.records.change import MAX_NUMBER
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.validate import Lifetimes, lives_until
from holdfast.kernel.storage.index_terms import memory_hashes, update_hashes
from holdfast.kernel.storage.port import Session, Store
from holdfast.kernel.timestamps import Stamp, max_stamp_time, tick

T = TypeVar("T")

CHUNK_SIZE = 256
"""Values per compressed chunk. Common transactions have fewer and are never compressed."""
COMPRESSION_LEVEL = 1


class CompressedList(Collection[T]):
    """Values in insertion order; all but the last chunk are compressed."""

    def __init__(self, type: type[T], values: Iterable[T] = ()) -> None:
        self._type = list[type]  # type: ignore[valid-type]
        self._chunks: list[bytes] = []
        self._tail: list[T] = []
        for value in values:
            self.append(value)

    def append(self, value: T) -> None:
        self._tail.append(value)
        if len(self._tail) == CHUNK_SIZE:
            self._chunks.append(zlib.compress(msgspec.msgpack.encode(self._tail), COMPRESSION_LEVEL))
            self._tail = []

    def __len__(self) -> int:
        return CHUNK_SIZE * len(self._chunks) + len(self._tail)

    def __contains__(self, value: object) -> bool:
        return any(one == value for one in self)

    def __getitem__(self, index: int) -> T:
        portion, within = divmod(index, CHUNK_SIZE)
        return (self._tail if portion == len(self._chunks) else self._unpack(portion))[within]

    def __iter__(self) -> Iterator[T]:
        for portion in range(len(self._chunks)):
            yield from self._unpack(portion)
        yield from self._tail

    def drain(self) -> Iterator[T]:
        """Yield each value once and free it."""
        self._chunks.reverse()
        while self._chunks:
            yield from self._decode(self._chunks.pop())
        last, self._tail = self._tail, []
        yield from last

    def _unpack(self, chunk: int) -> list[T]:
        return self._decode(self._chunks[chunk])

    def _decode(self, packed: bytes) -> list[T]:
        register_type(self._type)
        return msgspec.msgpack.decode(zlib.decompress(packed), type=self._type)


class WrittenMemories(MutableMapping[str, Memory]):
    """Memories written in a transaction by id, compressed: there may be very many."""

    def __init__(self) -> None:
        self._memories = CompressedList(Memory)
        self._indexes: dict[str, int] = {}

    def __setitem__(self, id: str, memory: Memory) -> None:
        self._indexes[id] = len(self._memories)
        self._memories.append(memory)

    def __getitem__(self, id: str) -> Memory:
        return self._memories[self._indexes[id]]

    def __delitem__(self, id: str) -> None:
        del self._indexes[id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._indexes)

    def __len__(self) -> int:
        return len(self._indexes)


class TypedLocals(dict[type, Any]):
    """Holds one instance per type, created on first use: `locals[AccessLog]`. All threads get the same one."""

    if TYPE_CHECKING:

        def __getitem__(self, kind: type[T]) -> T: ...

    def __missing__(self, kind: type[T]) -> T:
        made: T = self.setdefault(kind, kind())
        return made


class TransactionListener:
    """Reacts to the changes of every transaction. Features override the methods they need."""

    needs: type | None = None
    """State in `Transaction.local` without which `on_appended` is not called: most transactions do not have it."""

    def on_write(self, tx: Transaction, before: Any, record: Any, *, is_expired: bool) -> None:
        """Called after a record was written; `is_expired`: the memory had already expired."""

    def adjust(self, before: Any, after: Any) -> Any:
        """Return the record to write instead of `after`."""
        return after

    def on_expire(self, tx: Transaction, ids: Collection[str]) -> None:
        """Called when expired memories were collected."""

    def on_flush(self, tx: Transaction) -> None:
        """Called before the journal entries are appended: the last chance to write records."""

    def on_appended(self, tx: Transaction) -> None:
        """Called after the journal entries were appended. No record may be written any more."""


LISTENERS: list[TransactionListener] = []


def add_listener(listener: TransactionListener) -> None:
    """Register a listener for every transaction, after the existing ones."""
    LISTENERS.append(listener)


class Transaction:
    """One transaction. Members of a title group are changed and released together."""

    def __init__(self, session: Session, store: Store, *, actor: str, now: int, lifetimes: Lifetimes) -> None:
        self.session = session
        self.now = now
        self._actor = actor
        self._lifetimes = lifetimes
        self._head, self._key = journal.open_chain(session, store)
        self._last_time = 0
        self._entries = CompressedList(journal.PendingEntry)
        self._redacted: dict[tuple[str, str], tuple[int, Mapping[str, int]]] = {}
        """Records purged in this transaction: content of their pending entries is dropped."""
        self.written_memories = WrittenMemories()
        """Own state of the memories written in it. In a title group, the columns show the merged state instead."""
        self.local = TypedLocals()
        """State that listeners collect until the end of the transaction."""
        self.flagged: list[str] = []
        """Ids of memories that listeners flagged stale; complete once everything is written."""
        self.positions: list[journal.Position] = []
        """Positions of its first and last entry."""

    @property
    def actor(self) -> str:
        return self._actor

    @property
    def origin(self) -> str:
        return self._head.origin

    @property
    def change_count(self) -> int:
        """Number of changes so far."""
        return len(self._entries)

    @property
    def key(self) -> bytes:
        return self._key

    def sign(self, message: bytes) -> str:
        """Sign a message with this node's key; return the signature as hex."""
        return sign(self._key, message).hex()

    def put_compaction_point(self, floor: CompactionPoint) -> None:
        """Sign and store a compaction point."""
        put_compaction_point(self.session, floor, self._key)

    def get(self, kind: Kind[R], id: str) -> R | None:
        """Read a record as this transaction sees it, in any state."""
        if kind.name == "memory":
            rows = self.session.select(("memory_select", "memory.one"), {"id": id})
            return kind.load(rows[0]) if rows else None
        row = self.session.row(f"{kind.name}_get", id=id)
        return kind.load(row) if row else None

    def add(self, kind: Kind[R], record: R, op: str) -> R:
        """Store a new record: row, full-text index and journal entry."""
        stamp = self.stamp(())
        self._put(kind, None, record, field_versions.pack(field_versions.FieldVersions(stamp, {}), {}))
        self.journal_change(kind, record, op, stamp, None)
        return record

    def add_all(self, kind: Kind[R], records: Sequence[R], op: str) -> None:
        """Store many new records at once. The caller ensures that none exists yet and that the kind is not memory."""
        rows = []
        for record in records:
            stamp = self.stamp(())
            packed = field_versions.pack(field_versions.FieldVersions(stamp, {}), {})
            rows.append({**columns_of(record), "field_versions": packed, "expected": 0})
            self.journal_change(kind, record, op, stamp, None)
        self.session.many(f"{kind.name}_put", rows)

    def change(self, kind: Kind[R], before: R, after: R, op: str, *, tidying: bool = False) -> R:
        """Store a changed record under the next version; return an unchanged one as is.

        `tidying` does not make a record newer: its stamp is just above those it replaces, so that every deliberate
        edit, local or remote, wins over it.
        """
        for listener in LISTENERS:
            after = listener.adjust(before, after)
        if isinstance(before, Memory) and (others := self.session.rows("title_group_of", id=before.id)):
            assert isinstance(after, Memory)
            ids = [row[0] for row in others]
            return change_group(self, before, after, ids, op, tidying=tidying)  # type: ignore[return-value]
        return self._change_one(kind, before, after, op, tidying=tidying)

    def _change_one(self, kind: Kind[R], before: R, after: R, op: str, *, tidying: bool) -> R:
        edits = field_versions.diff_fields(kind.merge_schema, before, after)
        if not edits:
            return before
        old = self.get_field_versions(kind, before)
        stamp = self.stamp(old.seen_times({name: edit[0] for name, edit in edits.items()}), tidying=tidying)
        new, delta = field_versions.apply_edits(kind.merge_schema, old, edits, stamp)
        after = replace(after, **self.next_version(before, tidying=tidying))
        self._put(kind, before, after, field_versions.pack(new, field_versions.flatten(kind.merge_schema, after)))
        self.journal_change(kind, after, op, stamp, delta.decode())
        if any(len(cell.values) > 1 for cell in old.own.values()):
            conflicts.put_record_conflicts(self.session, self.now, kind, after, new)
        return after

    def purge(self, kind: Kind[R], record: R, left: R | None = None, taken: Mapping[str, int] | None = None) -> R:
        """Erase the content of a record here and on every peer that receives the change; a tombstone or `left` remains.

        This covers its journal entries and its changes applied in this transaction (`taken`, by origin).
        """
        old, shows = self.get_field_versions(kind, record), field_versions.flatten(kind.merge_schema, record)
        after: Any = replace(kind.tombstone(record) if left is None else left, **self.next_version(record))
        now_shows = field_versions.flatten(kind.merge_schema, after)
        stamp = self.stamp([time for cell in old.all_states(shows).values() for time in cell.seen.values()])
        known = self._last_times(kind, after.id, max_stamp_time(self.now // 1000))
        delta = field_versions.build_purge(kind.merge_schema, old, shows, after, stamp, known | Counter(taken or {}))
        written = field_versions.decode_states(delta)
        self.redact(
            kind, after.id, self._last_times(kind, after.id, MAX_NUMBER) | Counter(written[field_versions.PURGED].seen)
        )
        new = field_versions.FieldVersions(
            old.base, field_versions.drop_purged(kind.merge_schema, {**old.all_states(shows), **written})
        )
        self._put(kind, record, after, field_versions.pack(new, now_shows))
        self.session.do("conflict_clear", record=after.id, kind=kind.name)
        self.journal_change(kind, after, "purge", stamp, delta.decode())
        return after  # type: ignore[no-any-return]

    def _last_times(self, kind: Kind[Any], id: str, max_time: int) -> Counter[str]:
        """Return the time of each origin's last change of a record, up to a time.

        Times that peers would reject as too far ahead are left out: they would quarantine the purge.
        """
        return Counter(dict(self.session.rows("record_last_changes", id=id, kind=kind.name, most=max_time)))

    def redact(self, kind: Kind[Any], id: str, seen: Mapping[str, int]) -> None:
        """Erase the content of every change that the purge had seen, pending entries of this transaction included."""
        redact_record(self.session, kind.name, id, seen)
        self._redacted[kind.name, id] = len(self._entries), seen

    def get_field_versions(self, kind: Kind[R], record: R) -> field_versions.FieldVersions:
        """Return the field versions of a record that was just read."""
        raw = self.session.row(f"{kind.name}_field_versions", id=record.id)  # type: ignore[attr-defined]
        if raw is None:
            raise VersionConflict
        return field_versions.unpack(raw[0], field_versions.flatten(kind.merge_schema, record))

    def next_version(self, before: Any, *, tidying: bool = False) -> dict[str, int]:
        """Return the next version and time. The time never decreases, even if the clock does."""
        return {
            "version": before.version + 1,
            "updated_at": before.updated_at if tidying else max(self.now, before.updated_at),
        }

    @property
    def last_seq(self) -> int:
        """Sequence of the journal's last entry; includes this transaction after `append_entries`."""
        return self.positions[-1].seq if self.positions else self._head.seq

    def expire(self, ids: Iterable[str]) -> None:
        """Hide expired memories and call the listeners."""
        gone = list(ids)
        if gone and (mates := self.session.rows("title_expired_mates", ids=gone)):
            release_members(self, gone, [row[0] for row in mates])
        for listener in LISTENERS:
            listener.on_expire(self, gone)

    def flush(self) -> None:
        """Let listeners write follow-up records, then append the journal entries."""
        for listener in LISTENERS:
            listener.on_flush(self)
        self.append_entries()
        for listener in LISTENERS:
            if listener.needs is None or listener.needs in self.local:
                listener.on_appended(self)

    def append_entries(self) -> None:
        """Append the journal entries. No record may be written afterwards."""
        entries = CompressedList(journal.PendingEntry, self._redacted_entries()) if self._redacted else self._entries
        self.positions = journal.append(self.session, self._head, self._key, entries, self._actor, self.now)

    def _redacted_entries(self) -> Iterator[journal.PendingEntry]:
        """Yield the pending entries without purged content."""
        for place, entry in enumerate(self._entries):
            before, seen = self._redacted.get((entry.kind, entry.record), (0, {}))
            origin = entry.author.origin if entry.author else self.origin
            if place >= before or entry.at > seen.get(origin, -1):
                yield entry
            else:
                if entry.author:
                    self.session.do("remote_change_redact", origin=origin, n=entry.author.n)
                yield entry._replace(body=None, delta=None)

    def stamp(self, floors: Iterable[int], *, tidying: bool = False) -> Stamp:
        """Create a stamp of this node that is later than all seen ones."""
        if tidying:
            return Stamp(tick(0, *floors), self.origin)
        self._last_time = tick(self.now // 1000, self._last_time, *floors)
        return Stamp(self._last_time, self.origin)

    def journal_change(self, kind: Kind[R], record: R, op: str, stamp: Stamp, delta: str | None) -> None:
        """Add a local change to the journal."""
        id = record.id  # type: ignore[attr-defined]
        if isinstance(record, Memory):
            self.written_memories[id] = record
        self.add_entry(
            journal.PendingEntry(stamp.time, op, kind.name, id, kind.about(record), body_text(record), delta)
        )

    def add_entry(self, entry: journal.PendingEntry) -> None:
        """Add a pending journal entry."""
        self._entries.append(entry)

    def _put(self, kind: Kind[R], before: R | None, record: R, packed: bytes) -> None:
        params = self.put(kind, before, record, packed)
        self._notify_listeners(before, record, is_expired=params.get("collected_at") is not None)

    def put_hidden(self, kind: Kind[R], before: R | None, record: R, packed: bytes) -> None:
        """Write a row as hidden; its title group decides later whether it is visible."""
        params = self.put(kind, before, record, packed, visible_as=None)
        self._notify_listeners(before, record, is_expired=params.get("collected_at") is not None)

    def put(self, kind: Kind[R], before: R | None, record: R, packed: bytes, **local: Any) -> dict[str, Any]:
        """Write a row and its search data, without a journal entry."""
        params = columns_of(record)
        if isinstance(record, Memory):
            params |= self._memory_columns(record) | local
        expected = 0 if before is None else before.version  # type: ignore[attr-defined]
        if self.session.row(f"{kind.name}_put", field_versions=packed, expected=expected, **params) is None:
            raise VersionConflict
        if isinstance(record, Memory):
            self._put_search_data(before if isinstance(before, Memory) else None, record, params["index_terms"])
        return params

    def _notify_listeners(self, before: Struct | None, record: Struct, *, is_expired: bool) -> None:
        for listener in LISTENERS:
            listener.on_write(self, before, record, is_expired=is_expired)

    def is_expired(self, memory: Memory) -> bool:
        """Whether a memory has expired."""
        return self._lifetime_end(memory) <= self.now

    def _lifetime_end(self, memory: Memory) -> int:
        used_at = None
        if memory.version > 1 and memory.expires_at is not None:
            used_at = (self.session.row("memory_used_until", id=memory.id) or (None,))[0]
        return lives_until(memory, self._lifetimes.extend(memory.tier, used_at) if used_at else 0)

    def _memory_columns(self, memory: Memory) -> dict[str, Any]:
        ends = self._lifetime_end(memory)
        over = memory.state == "live" and ends <= self.now
        return {
            "visible_as": memory.id if memory.state == "live" and not over else None,
            "lives_until": ends,
            "collected_at": self.now if over else None,
            "content_hash": content_hash(memory.title, memory.content),
            **search_columns(memory),
        }

    def _put_search_data(self, before: Memory | None, memory: Memory, index_terms: str) -> None:
        """Write the search data of a memory: tags, full-text index and MinHash bands."""
        if before is None or before.tags != memory.tags:
            if before is not None and before.tags:
                self.session.do("memory_tags_clear", memory=memory.id)
            if memory.tags:
                self.session.many("memory_tag_add", [{"memory": memory.id, "tag": tag} for tag in memory.tags])
        texts = searchable_texts(memory)
        if before is None or texts != searchable_texts(before):
            self.session.index_memory(memory.id, texts)
        if before is None or _minhash_inputs(before) != _minhash_inputs(memory):
            had = () if before is None else memory_hashes(before, search_columns(before)["index_terms"])
            update_hashes(self.session, memory.id, had, memory_hashes(memory, index_terms))


def _minhash_inputs(memory: Memory) -> tuple[Any, ...]:
    return memory.content, memory.namespace, memory.state, memory.kind
