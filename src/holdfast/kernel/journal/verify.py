"""Check every row against the journal: tables must match the last entries."""

from collections.abc import Iterator
from itertools import groupby, islice
from typing import Any, NamedTuple

import msgspec

from holdfast.kernel.clock import Stamp
from holdfast.kernel.journal import title_groups as titles
from holdfast.kernel.journal.checkpoint import digest_of, folded, folding_of
from holdfast.kernel.journal.columns import content_hash, order_columns
from holdfast.kernel.journal.journal import Break, Entry, pages
from holdfast.kernel.journal.kinds import KINDS, Kind
from holdfast.kernel.journal.replay import changes_of, replayed
from holdfast.kernel.journal.transaction import body_of
from holdfast.kernel.records import field_versions as cells
from holdfast.kernel.records.memory import Memory, audience
from holdfast.kernel.records.merge import filled, join
from holdfast.kernel.storage.port import Row, Session
from holdfast.kernel.timestamps import OPEN_END

PAGE = 500
MOST_STRAYS = 100


class Kept(NamedTuple):
    """The stored rows of one record. They are parsed later, because they may have been edited."""

    row: Row
    cells: bytes
    local: Row = ()
    tags: tuple[str, ...] = ()


def differing(session: Session) -> Iterator[Break]:
    """Yield every record whose columns differ from its journal."""
    entries = (
        entry
        for entry in pages(session, "journal_latest")
        if entry.kind in KINDS and isinstance(entry.record, str) and isinstance(entry.body, str)
    )
    for name, page in _paged(entries):
        kept = _memories(session, page) if name == "memory" else _others(session, KINDS[name], page)
        for entry in page:
            if entry.record not in kept:
                yield Break(entry.seq, f"the {name} {entry.record} is missing from its table")
            elif not _agrees(session, KINDS[name], entry, kept[entry.record]):
                yield Break(entry.seq, f"the {name} {entry.record} was edited in its table")
    for one in folded(session):
        if one.cells is not None and digest_of(one.cells) != one.digest:
            yield Break(0, f"the compacted state of the {one.kind} {one.record} was edited")
    for name, id in session.rows("journal_strays", limit=MOST_STRAYS):
        yield Break(0, f"the {name} {id} was added to its table without a journal entry")


def _paged(entries: Iterator[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    """Group consecutive entries of one kind, at most one page each."""
    for name, run in groupby(entries, key=lambda entry: entry.kind):
        while page := list(islice(run, PAGE)):
            yield name, page


def _memories(session: Session, page: list[Entry]) -> dict[str, Kept]:
    ids = [entry.record for entry in page]
    rows = {row[0]: row for row in session.assembled(("memory_select", "memory.some"), {"ids": ids})}
    tags: dict[str, list[str]] = {}
    for id, tag in session.rows("memory_tags", ids=ids):
        tags.setdefault(id, []).append(tag)
    beside = session.rows("memory_beside", ids=ids)
    return {id: Kept(rows[id], packed, tuple(local), tuple(tags.get(id, ()))) for id, packed, *local in beside}


def _others(session: Session, kind: Kind[Any], page: list[Entry]) -> dict[str, Kept]:
    found = {}
    for entry in page:
        row = session.row(f"{kind.name}_get", id=entry.record)
        packed = session.row(f"{kind.name}_cells", id=entry.record)
        if row is not None and packed is not None:
            found[entry.record] = Kept(row, packed[0])
    return found


def _agrees(session: Session, kind: Kind[Any], entry: Entry, kept: Kept) -> bool:
    try:
        record, own = kind.load(kept.row), body_of(kind, entry)
        return (
            (record == own or (isinstance(own, Memory) and _stands_for_others(session, own, record)))
            and (not isinstance(record, Memory) or _memory_holds(session, record, kept))
            and _cells_hold(session, kind, entry, record, own, kept)
        )
    except (msgspec.MsgspecError, ValueError, TypeError, LookupError, AttributeError):
        return False  # a row that cannot be parsed was not written by us


def _stands_for_others(session: Session, own: Memory, record: Memory) -> bool:
    """Whether the columns of a memory are the merged state of its title group."""
    held = titles.read(session, [own.id, *(row[0] for row in session.rows("title_others", id=own.id))])
    return len(held) > 1 and titles.together(held) == record


def _is_shown(session: Session, memory: Memory, shown: str | None) -> bool:
    """Whether the representative of a memory is the smallest id under its title."""
    live = session.rows("title_at", namespace=memory.namespace, title=memory.title)
    under: list[str] = [row[0] for row in live if row[3] == audience(memory)]
    return shown is not None and shown == min(under, default=None)


def _memory_holds(session: Session, memory: Memory, kept: Kept) -> bool:
    """Whether the local columns of a memory follow from the others."""
    shown, lives_until, collected_at, hash, used, *found_by = kept.local
    end = OPEN_END if memory.expires_at is None else memory.expires_at
    return (
        hash == content_hash(memory.title, memory.content)
        and found_by == list(order_columns(memory).values())
        and sorted(kept.tags) == sorted(memory.tags)
        and (lives_until == end or (bool(used) and memory.expires_at is not None and lives_until > end))
        and (collected_at is None or collected_at >= lives_until)
        and (_is_shown(session, memory, shown) if memory.state == "live" and collected_at is None else shown is None)
    )


def _cells_hold(session: Session, kind: Kind[Any], entry: Entry, record: Any, own: Any, kept: Kept) -> bool:
    """Whether the stored field versions are those that the journal's changes produce."""
    if record.version == 1 and kept.cells == cells.pack(cells.Cells(Stamp(entry.at, entry.origin), {}), {}):
        return True
    changes = changes_of(session, kind.name, entry.record)
    made, whole = replayed(session, kind, changes)
    found = filled(cells.unpack(kept.cells, cells.flatten(kind.shape, record)).all(cells.flatten(kind.shape, own)))
    if whole:
        return found == made
    if folding_of(session, kind.name, entry.record) is None:  # a purge erased some of the changes
        return all(found.get(name) == cell for name, cell in made.items())
    # it erased the compacted state too; only states that the purge had not seen remain
    return all(name in found and found[name] == join(found[name], cell) for name, cell in made.items())
