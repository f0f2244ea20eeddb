"""Merge changes of other stores: each per field with the local record, journalled as its author wrote it."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.memories.grant import Grant
from holdfast.features.namespaces.model import STANDARD, Policy, Standard
from holdfast.features.people.model import ERASED_NAMESPACE, ErasureOrder, Interaction, Principal, validate_interaction
from holdfast.features.people.personal_records import PersonalRecords, ReceivedRecord
from holdfast.features.people.resolve_names import list_names
from holdfast.features.reflections.propagate import ChangeSet
from holdfast.features.skills import file_contents
from holdfast.features.skills.model import File, SkillVersion, compute_digest, version_id
from holdfast.features.sync.peers.filter import NamespaceFilter
from holdfast.features.sync.read_changes import list_required
from holdfast.features.sync.record_snapshots import RecordSnapshot, must_be_whole
from holdfast.features.sync.record_snapshots import is_ahead as is_snapshot_ahead
from holdfast.features.sync.validate_changes import (
    DECODE_ERRORS,
    WRONG_RECORD,
    Refusal,
    read_change,
    read_snapshot_record,
    require_storable,
)
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.journal import conflicts as merge_conflicts
from holdfast.kernel.journal import journal, title_groups
from holdfast.kernel.journal.kinds import KINDS, Kind, body_text, tombstone_of
from holdfast.kernel.journal.redact import clear_derived_text
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import field_versions, validate
from holdfast.kernel.records.change import Change, ChangeId, digest, is_ahead_of_clock, node_of
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import IMPORTED_FROM, Memory
from holdfast.kernel.records.merge import FieldState, join
from holdfast.kernel.records.namespace_patterns import EVERYTHING, FULL_SCOPE, PeerScope
from holdfast.kernel.timestamps import RECORD_SNAPSHOT, is_too_far_ahead

Outcome = Literal["new", "updated", "noop", "conflict"]
GOVERNANCE_RECORDS = (Policy, Grant, Standard, ErasureOrder)
"""Records that govern other users, or erase their data."""


class LocalRecord(NamedTuple):
    """A record of this store."""

    row: Any
    """The record as its columns show it (merged with its title group)."""
    own: Any
    """The record on its own, without its title group."""
    cells: field_versions.FieldVersions


class ChangeMerger:
    """Merge remote changes into one transaction. Title groups are recomputed at its end."""

    def __init__(
        self,
        write: Transaction,
        *,
        owner: str | None = None,
        files: Mapping[str, bytes] | None = None,
        scope: PeerScope = FULL_SCOPE,
    ) -> None:
        self._write = write
        self._files = files or {}
        self._owner = owner
        """The owner of new memories; None keeps the author."""
        self._scope = scope
        self._touched_titles: set[str] = set()
        self._left_titles: set[title_groups.TitleKey] = set()
        self._purged = False
        self._skills_changed = False
        self.links: set[str] = set()
        """Applied links."""
        self.raised_memories: set[str] = set()
        """Memories with a greater reflection depth than before."""
        self._received: list[ReceivedRecord | Change] = []
        """Received records, each followed by the change that wrote it, for the erasures that concern them."""
        self._awaiting_purge: dict[tuple[str, str], dict[ChangeId, Change]] = {}
        """Erased changes whose purge has not arrived, by record."""
        self._appended_erased: set[ChangeId] = set()
        """Erased changes that were journalled when their purge arrived."""
        self._was_deleted: dict[str, bool] = {}
        """Whether each written memory was deleted before this transaction."""
        self._is_deleted: dict[str, bool] = {}
        """Whether it is deleted after its last write."""

    def merge_change(self, change: Change) -> Outcome:
        """Apply one well-formed change. Raises Refusal before it writes anything."""
        kind = KINDS.get(change.kind)
        if kind is None:
            raise Refusal("unknown_kind", f"This release does not know the kind {change.kind}.")
        created, written = read_change(kind, change)
        local = self._load_record(kind, change.record)
        if is_ahead_of_clock(change, written, self._write.now // 1000):
            if isinstance(created, SkillVersion):
                self._validate_files(created)  # the file contents are not sent again later
            raise Refusal("future", "Its clock is more than seven days ahead.")
        if change.erased is not None:
            return self._merge_erased(kind, change, local)
        if local is None:
            if change.op == "purge":
                return self._add_tombstone(kind, change, written)
            if created is None:
                raise Refusal("waits", f"The {change.kind} that it edits is missing here.")
            return self._add_record(kind, change, created, written)
        if created is not None:
            require_storable(created)  # its values may lose and are kept as conflicts
        return self._join_change(kind, change, local, written)

    def _merge_erased(self, kind: Kind[Any], change: Change, local: LocalRecord | None) -> Outcome:
        """Journal an erased change without its text, if the purge that erased it is here; else it waits."""
        name, purge = ChangeId(change.origin, change.n), local.cells.own.get(field_versions.PURGED) if local else None
        if local is None or purge is None or not _has_seen(purge, change):
            self._awaiting_purge.setdefault((change.kind, change.record), {})[name] = change
            raise Refusal("waits", "The purge that erased it is missing here.")
        _must_be_about(kind, change, local.own)
        if name not in self._appended_erased:
            self._append_change(change, None, None)
        return "noop"

    def _append_erased(self, kind: Kind[Any], record: Any, purge: FieldState) -> None:
        """Journal the changes that waited for a purge before the purge, in their author's order."""
        for name, change in self._awaiting_purge.pop((kind.name, record.id), {}).items():
            if _has_seen(purge, change) and change.about == kind.about(record):
                self._append_change(change, None, None)
                self._appended_erased.add(name)

    def merge_snapshot(self, state: RecordSnapshot) -> Outcome:
        """Merge a full record snapshot. Raises Refusal before it writes anything."""
        try:
            must_be_whole(state)
        except HoldfastError as error:
            raise Refusal("invalid", error.message) from None
        kind = KINDS.get(state.kind)
        if kind is None:
            raise Refusal("unknown_kind", f"This release does not know the kind {state.kind}.")
        remote, written = read_snapshot_record(kind, state)
        if is_snapshot_ahead(state, written, self._write.now // 1000):
            raise Refusal("future", "Its clock is more than seven days ahead.")
        local = self._load_record(kind, state.record)
        if local is None:
            return self._add_snapshot(kind, state, remote, written)
        return self._join_snapshot(kind, state, remote, local, written)

    def _add_snapshot(
        self, kind: Kind[Any], state: RecordSnapshot, remote: Any, written: dict[str, FieldState]
    ) -> Outcome:
        record = self._assign_owner(replace(remote, version=1))
        self._validate(record)
        values = field_versions.flatten(kind.merge_schema, record)
        self._put_record(
            kind,
            None,
            None,
            record,
            field_versions.pack(
                field_versions.minimize(field_versions.FieldVersions(state.base, written), values), values
            ),
        )
        self._skills_changed |= isinstance(record, SkillVersion) and record.state != "live"
        self._append_snapshot(state, record, written, "purge" if field_versions.PURGED in written else None)
        versions = field_versions.FieldVersions(state.base, written)
        if _has_conflict(versions, versions):
            merge_conflicts.put_record_conflicts(self._write.session, self._write.now, kind, record, versions)
        return "new"

    def _join_snapshot(
        self, kind: Kind[Any], state: RecordSnapshot, remote: Any, local: LocalRecord, written: dict[str, FieldState]
    ) -> Outcome:
        before = local.cells.all_states(field_versions.flatten(kind.merge_schema, local.own))
        purged = field_versions.PURGED in written and field_versions.PURGED not in before
        after, joined = _join_fields(kind, local, written, remote if purged else local.own)
        if after.own == before:
            return "noop"
        newest = max(local.own.updated_at, remote.updated_at)
        record = replace(joined, version=local.own.version + 1, updated_at=newest)
        changed = self._update_record(kind, local, record, after, written[field_versions.PURGED] if purged else None)
        self._append_snapshot(state, record, written, "purge" if purged else None)
        return self._outcome(kind, local, record, after, changed=changed)

    def _append_snapshot(
        self, state: RecordSnapshot, record: Any, written: dict[str, FieldState], op: str | None = None
    ) -> None:
        """Journal a snapshot. It has no number of an author; its sequence here is its number."""
        author = journal.Author(RECORD_SNAPSHOT, 0, self._write.actor, 0)
        at = max((stamp.time for cell in written.values() for stamp in cell.values), default=state.at)
        op = op or (RECORD_SNAPSHOT if state.covered else "moved")
        contents = (body_text(record), state.cells, author)
        self._write.add_entry(journal.PendingEntry(at, op, state.kind, state.record, state.about, *contents))

    def finish(self) -> None:
        """Recompute the touched title groups and remove every trace of purged text from indexes and caches."""
        title_groups.regroup(self._write, self._touched_titles, self._left_titles)
        if self._skills_changed:
            file_contents.delete_unreferenced(self._write.session)
        if self._purged:
            clear_derived_text(self._write.session)

    def apply_erasures(self) -> None:
        """Apply the erasures that concern the received records: one is among them, or this store applied one before."""
        if not (self._write.session.row("erased_person_any") or any(map(_is_erasure, self._received))):
            return
        from holdfast.features.people.erasure import apply_remote_erasures  # rarely needed and slow to import

        apply_remote_erasures(self._write, PersonalRecords(self._received))
        self._is_deleted = {id: self._write.written_memories[id].state == "deleted" for id in self._was_deleted}

    def list_deleted_and_restored(self) -> tuple[list[str], list[str]]:
        """Return the memories that were deleted (or arrived deleted), and those that live again."""
        deleted = [id for id, was in self._was_deleted.items() if self._is_deleted[id] and not was]
        return deleted, [id for id, was in self._was_deleted.items() if was and not self._is_deleted[id]]

    def _load_record(self, kind: Kind[Any], id: str) -> LocalRecord | None:
        row = self._write.get(kind, id)
        if row is None:
            return None
        own = (
            title_groups.get_own_record(self._write, id) if isinstance(row, Memory) and self._shares_title(row) else row
        )
        self._must_be_within(own)
        return LocalRecord(row, own, self._write.get_field_versions(kind, row))

    def _shares_title(self, memory: Memory) -> bool:
        """Whether the columns of a memory may merge several; its group may have changed in this transaction."""
        return title_groups.title_key(memory) in self._left_titles or bool(
            self._write.session.row("title_group_of", id=memory.id)
        )

    def _add_record(self, kind: Kind[Any], change: Change, created: Any, written: dict[str, FieldState]) -> Outcome:
        record = self._assign_owner(replace(created, version=1))
        self._validate(record)
        values = field_versions.flatten(kind.merge_schema, record)
        versions = field_versions.minimize(field_versions.FieldVersions(change.stamp, written), values)
        self._put_record(kind, None, None, record, field_versions.pack(versions, values))
        self._append_change(change, record, body_text(record))
        return "new"

    def _add_tombstone(self, kind: Kind[Any], change: Change, written: dict[str, FieldState]) -> Outcome:
        """Store the tombstone of a record that was purged before it arrived; other records may point to it."""
        try:
            (remainder,) = written[field_versions.PURGED].values.values()
            values = field_versions.visible_values(kind.merge_schema, {name: [cell] for name, cell in written.items()})
            record = replace(
                field_versions.rebuild_record(kind.merge_schema, msgspec.convert(remainder, kind.type), values),
                version=1,
            )
        except DECODE_ERRORS as error:
            raise Refusal("invalid", f"It cannot be read: {error}") from None
        self._validate(record)
        shown_values = field_versions.flatten(kind.merge_schema, record)
        self._put_record(
            kind,
            None,
            None,
            record,
            field_versions.pack(field_versions.FieldVersions(change.stamp, written), shown_values),
        )
        self._write.redact(kind, record.id, written[field_versions.PURGED].seen)
        self._skills_changed |= isinstance(record, SkillVersion)
        self._append_erased(kind, record, written[field_versions.PURGED])
        self._append_change(change, record, body_text(record))
        return "new"

    def _assign_owner(self, record: Any) -> Any:
        """Assign a new memory to the configured owner; its first author is kept in `extra`."""
        if self._owner is None or not isinstance(record, Memory) or record.agent == self._owner:
            return record
        authors = (record.extra.get(IMPORTED_FROM), record.metadata.get(IMPORTED_FROM))
        first = next((name for name in authors if name and isinstance(name, str)), record.agent)
        return replace(record, agent=self._owner, extra={**record.extra, IMPORTED_FROM: first})

    def _join_change(
        self, kind: Kind[Any], change: Change, local: LocalRecord, written: dict[str, FieldState]
    ) -> Outcome:
        after, joined = _join_fields(kind, local, written, local.own)
        if change.op == "purge" and joined.state == "deleted":
            joined = tombstone_of(joined)
        newest = max(local.own.updated_at, (change.at >> 16) * 1000)
        record = replace(joined, version=local.own.version + 1, updated_at=newest)
        _must_be_about(kind, change, record)
        changed = self._update_record(kind, local, record, after, written.get(field_versions.PURGED))
        if field_versions.PURGED in written:
            self._append_erased(kind, record, written[field_versions.PURGED])
        self._append_change(change, record, body_text(record))
        return self._outcome(kind, local, record, after, changed=changed)

    def _update_record(
        self,
        kind: Kind[Any],
        local: LocalRecord,
        record: Any,
        after: field_versions.FieldVersions,
        purge: FieldState | None,
    ) -> bool:
        """Update an existing record and redact what a purge covers. Return whether its values changed."""
        self._validate(record)
        values = field_versions.flatten(kind.merge_schema, record)
        self._put_record(
            kind, local.row, local.own, record, field_versions.pack(field_versions.minimize(after, values), values)
        )
        if purge is not None:
            self._write.redact(kind, record.id, purge.seen)
            self._purged = True
        return values != field_versions.flatten(kind.merge_schema, local.own)

    def _outcome(
        self, kind: Kind[Any], local: LocalRecord, record: Any, after: field_versions.FieldVersions, *, changed: bool
    ) -> Outcome:
        if _has_conflict(local.cells, after) and merge_conflicts.put_record_conflicts(
            self._write.session, self._write.now, kind, record, after
        ):
            return "conflict"
        return "updated" if changed else "noop"

    def _validate(self, record: Struct) -> None:
        """Validate a record exactly as local writes are validated, then check its references and scope."""
        require_storable(record)
        try:
            if isinstance(record, Memory):
                validate.check_replicated(record)
            elif isinstance(record, Interaction):
                validate_interaction(record)
        except HoldfastError as error:
            raise Refusal("invalid", error.message) from None
        if isinstance(record, ErasureOrder) and self._is_ahead(record):
            raise Refusal("future", "Its clock is more than seven days ahead.")
        for kind, end in list_required(record):
            if self._write.get(kind, end) is None:
                raise Refusal("waits", f"The {kind.name} {end} is missing here.")
        self._must_be_within(record)
        if isinstance(record, SkillVersion) and record.state == "live":
            self._validate_files(record)

    def _is_ahead(self, order: ErasureOrder) -> bool:
        """Whether an erasure request, or an acknowledgement of it, has a timestamp from a wrong clock."""
        moments = [order.ordered_at, *order.heard.values()]
        return any(is_too_far_ahead(moment // 1000 << 16, self._write.now // 1000) for moment in moments)

    def _must_be_within(self, record: Struct) -> None:
        """Raise Refusal if the record is outside the peer's namespaces, or is governance from a non-admin peer."""
        if isinstance(record, GOVERNANCE_RECORDS) and not self._scope.admin:
            raise Refusal("governance", "It is a governance record, and the peer that sent it is not marked admin.")
        if EVERYTHING in self._scope.take:
            return
        if not NamespaceFilter(self._write.session, self._scope.can_receive).contains(record):
            raise Refusal("scope", "The peer that sent it may not write to its namespace.")

    def _validate_files(self, version: SkillVersion) -> None:
        """Verify the digest of a skill version and of each of its files."""
        digest = compute_digest(version.namespace, version.frontmatter, version.files)
        if (digest, version_id(digest)) != (version.digest, version.id):
            raise Refusal("invalid", "Its content does not match its digest.")
        contents = {}
        for file in version.files:
            if file.digest in self._files:
                contents[file.digest] = _unpack_file(self._files[file.digest], file)
            elif file_contents.read_stored(self._write.session, file.digest, file.size) is None:
                raise Refusal("waits", f"The content of {file.path} is missing here.")
        file_contents.store_contents(self._write.session, contents)

    def _put_record(self, kind: Kind[Any], row: Any, own: Any, record: Any, packed: bytes) -> None:
        is_name_erased = isinstance(record, Principal) and not record.name and own is not None and own.name
        former_names = list_names(self._write.session, own.name) if is_name_erased else ()
        self._received.append(ReceivedRecord(kind, own, record, packed, former_names))
        self._write.put_hidden(kind, row, record, packed)
        self._skills_changed |= row is not None and isinstance(record, SkillVersion)
        if isinstance(record, Link):
            self.links.add(record.id)
        if not isinstance(record, Memory):
            return
        self._was_deleted.setdefault(record.id, isinstance(own, Memory) and own.state == "deleted")
        self._is_deleted[record.id] = record.state == "deleted"
        if isinstance(own, Memory) and own.reflection_depth < record.reflection_depth:
            self.raised_memories.add(record.id)
        self._write.written_memories[record.id] = record
        if isinstance(own, Memory):
            self._left_titles.add(title_groups.title_key(own))
            if (own.title, own.content) != (record.title, record.content) and record.state != "deleted":
                self._write.local[ChangeSet].changed.add(record.id)
        self._touched_titles.add(record.id)

    def _append_change(self, change: Change, record: Any, body: str | None) -> None:
        self._received.append(change)
        author = journal.Author(change.origin, change.n, change.actor, change.group)
        self._write.add_entry(
            journal.PendingEntry(
                change.at, change.op, change.kind, change.record, change.about, body, change.delta, author
            )
        )
        exact_body = change.body if change.body != body else None
        self._write.session.do(
            "remote_change_add",
            origin=change.origin,
            n=change.n,
            signature=change.signature,
            digest=change.erased or digest(change.body, change.delta),
            exact_body=exact_body,
        )


def _is_erasure(received: ReceivedRecord | Change) -> bool:
    """Whether a received record orders to erase a person, or is one that an erasure left."""
    if isinstance(received, Change):
        return False
    match received.record:
        case ErasureOrder():
            return True
        case Principal():
            return not received.record.name
        case _:
            return ERASED_NAMESPACE.encode() in received.field_versions


def _unpack_file(packed: bytes, file: File) -> bytes:
    try:
        content = file_contents.decompress(packed, file.size)
    except HoldfastError as error:
        raise Refusal("invalid", error.message) from None
    if sha256(content).hexdigest() != file.digest:
        raise Refusal("forged", f"The content of {file.path} does not match its digest.")
    return content


def _must_be_about(kind: Kind[Any], change: Change, record: Any) -> None:
    """Raise Refusal if a change claims a different memory than its record belongs to: that decides its visibility."""
    about = kind.about(record)
    differs = (change.about is None) != (about is None) if kind is STANDARD else change.about != about
    if differs:
        raise Refusal("invalid", WRONG_RECORD)


def _has_seen(purge: FieldState, change: Change) -> bool:
    """Whether a purge covers a change. Compares nodes: a repaired store has a new replica id."""
    node = node_of(change.origin)
    return any(change.at <= time for origin, time in purge.seen.items() if node_of(origin) == node)


def _join_fields(
    kind: Kind[Any], local: LocalRecord, written: Mapping[str, FieldState], upon: Any
) -> tuple[field_versions.FieldVersions, Any]:
    """Merge written fields into a record; return its new field versions and the resulting record."""
    values = field_versions.flatten(kind.merge_schema, local.own)
    try:
        joined = {name: join(local.cells.state_of(name, values.get(name)), cell) for name, cell in written.items()}
        after = field_versions.FieldVersions(
            local.cells.base,
            field_versions.drop_purged(kind.merge_schema, {**local.cells.all_states(values), **joined}),
        )
        visible = field_versions.visible_values(kind.merge_schema, {name: [cell] for name, cell in after.own.items()})
        return after, field_versions.rebuild_record(kind.merge_schema, upon, visible)
    except DECODE_ERRORS as error:
        raise Refusal("invalid", f"It cannot be merged: {error}") from None


def _has_conflict(before: field_versions.FieldVersions, after: field_versions.FieldVersions) -> bool:
    return any(len(cell.values) > 1 for versions in (before, after) for cell in versions.own.values())
