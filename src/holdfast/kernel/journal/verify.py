"""Check every row against the journal: tables must match the last entries."""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice
from typing import Any, NamedTuple

import msgspec

from holdfast.kernel.journal import title_groups
from holdfast.kernel.journal.journal import (
    Entry,
    digest_field_versions,
    get_compacted_record,
    iter_compacted_records,
    iter_entries,
)
from holdfast.kernel.journal.kinds import KINDS, Kind, body_of, content_hash, search_columns
from holdfast.kernel.journal.replay import list_changes, replay
from holdfast.kernel.journal.verify_chain import JournalFault
from holdfast.kernel.records import field_versions
from holdfast.kernel.records.memory import Memory, audience
from holdfast.kernel.records.merge import drop_empty, join
from holdfast.kernel.storage.port import Row, Session
from holdfast.kernel.timestamps import NO_END, Stamp

PAGE_SIZE = 500
MAX_ORPHANS = 100


class StoredRecord(NamedTuple):
    """The stored rows of one record. They are parsed later, because they may have been edited."""

    row: Row
    field_versions: bytes
    local: Row = ()
    tags: tuple[str, ...] = ()


CONTENT_CHECKS: list[Callable[[Session], Iterable[JournalFault]]] = []


def on_verify(check: Callable[[Session], Iterable[JournalFault]]) -> None:
    """Register a check of content that the journal names by its digest only."""
    CONTENT_CHECKS.append(check)


def find_damage(session: Session) -> Iterator[JournalFault]:
    """Yield what the registered checks find."""
    for check in CONTENT_CHECKS:
        yield from check(session)


def find_altered_records(session: Session) -> Iterator[JournalFault]:
    """Yield every record whose columns differ from its journal."""
    entries = (
        entry
        for entry in iter_entries(session, "journal_latest")
        if entry.kind in KINDS and isinstance(entry.record, str) and isinstance(entry.body, str)
    )
    for name, page in _group_pages(entries):
        kept = _load_memories(session, page) if name == "memory" else _load_records(session, KINDS[name], page)
        for entry in page:
            if entry.record not in kept:
                yield JournalFault(entry.seq, f"the {name} {entry.record} is missing from its table")
            elif not _matches_journal(session, KINDS[name], entry, kept[entry.record]):
                yield JournalFault(entry.seq, f"the {name} {entry.record} was edited in its table")
    for one in iter_compacted_records(session):
        if one.field_versions is not None and digest_field_versions(one.field_versions) != one.digest:
            yield JournalFault(0, f"the compacted state of the {one.kind} {one.record} was edited")
    for name, id in session.rows("journal_orphans", limit=MAX_ORPHANS):
        yield JournalFault(0, f"the {name} {id} was added to its table without a journal entry")


def _group_pages(entries: Iterator[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    """Group consecutive entries of one kind, at most one page each."""
    for name, run in groupby(entries, key=lambda entry: entry.kind):
        while page := list(islice(run, PAGE_SIZE)):
            yield name, page


def _load_memories(session: Session, page: list[Entry]) -> dict[str, StoredRecord]:
    ids = [entry.record for entry in page]
    rows = {row[0]: row for row in session.select(("memory_select", "memory.some"), {"ids": ids})}
    tags: dict[str, list[str]] = {}
    for id, tag in session.rows("memory_tags", ids=ids):
        tags.setdefault(id, []).append(tag)
    columns = session.rows("memory_local_columns", ids=ids)
    return {id: StoredRecord(rows[id], packed, tuple(local), tuple(tags.get(id, ()))) for id, packed, *local in columns}


def _load_records(session: Session, kind: Kind[Any], page: list[Entry]) -> dict[str, StoredRecord]:
    found = {}
    for entry in page:
        row = session.row(f"{kind.name}_get", id=entry.record)
        packed = session.row(f"{kind.name}_field_versions", id=entry.record)
        if row is not None and packed is not None:
            found[entry.record] = StoredRecord(row, packed[0])
    return found


def _matches_journal(session: Session, kind: Kind[Any], entry: Entry, stored: StoredRecord) -> bool:
    try:
        record, own = kind.load(stored.row), body_of(kind, entry)
        return (
            (record == own or (isinstance(own, Memory) and _is_representative(session, own, record)))
            and (not isinstance(record, Memory) or _derived_columns_match(session, record, stored))
            and _field_versions_match(session, kind, entry, record, own, stored)
        )
    except (msgspec.MsgspecError, ValueError, TypeError, LookupError, AttributeError):
        return False  # a row that cannot be parsed was not written by us


def _is_representative(session: Session, own: Memory, record: Memory) -> bool:
    """Whether the columns of a memory are the merged state of its title group."""
    held = title_groups.read_members(
        session, [own.id, *(row[0] for row in session.rows("title_group_others", id=own.id))]
    )
    return len(held) > 1 and title_groups.build_representative(held) == record


def _is_visible_as(session: Session, memory: Memory, representative: str | None) -> bool:
    """Whether the representative of a memory is the smallest id under its title."""
    live = session.rows("title_at", namespace=memory.namespace, title=memory.title)
    under: list[str] = [row[0] for row in live if row[3] == audience(memory)]
    return representative is not None and representative == min(under, default=None)


def _derived_columns_match(session: Session, memory: Memory, stored: StoredRecord) -> bool:
    """Whether the local columns of a memory follow from the others."""
    visible_as, lives_until, collected_at, hash, used, *found_by = stored.local
    end = NO_END if memory.expires_at is None else memory.expires_at
    return (
        hash == content_hash(memory.title, memory.content)
        and found_by == list(search_columns(memory).values())
        and sorted(stored.tags) == sorted(memory.tags)
        and (lives_until == end or (bool(used) and memory.expires_at is not None and lives_until > end))
        and (collected_at is None or collected_at >= lives_until)
        and (
            _is_visible_as(session, memory, visible_as)
            if memory.state == "live" and collected_at is None
            else visible_as is None
        )
    )


def _field_versions_match(
    session: Session, kind: Kind[Any], entry: Entry, record: Any, own: Any, stored: StoredRecord
) -> bool:
    """Whether the stored field versions are those that the journal's changes produce."""
    if record.version == 1 and stored.field_versions == field_versions.pack(
        field_versions.FieldVersions(Stamp(entry.at, entry.origin), {}), {}
    ):
        return True
    changes = list_changes(session, kind.name, entry.record)
    made, whole = replay(session, kind, changes)
    found = drop_empty(
        field_versions.unpack(stored.field_versions, field_versions.flatten(kind.merge_schema, record)).all_states(
            field_versions.flatten(kind.merge_schema, own)
        )
    )
    if whole:
        return found == made
    if get_compacted_record(session, kind.name, entry.record) is None:  # a purge erased some of the changes
        return all(found.get(name) == cell for name, cell in made.items())
    # it erased the compacted state too; only states that the purge had not seen remain
    return all(name in found and found[name] == join(found[name], cell) for name, cell in made.items())
