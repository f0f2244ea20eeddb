"""Record history, the change feed, undo and journal verification."""

from typing import Any, NamedTuple

from msgspec.structs import replace

from holdfast.features.access import interaction_store as interactions
from holdfast.features.access.interaction import Interaction
from holdfast.features.access.model import Grant
from holdfast.features.history.event import Wanted
from holdfast.features.history.list_changes import is_wanted
from holdfast.features.history.snapshot import true_from
from holdfast.features.memories import store as memories
from holdfast.features.memories.store_memory import must_agree, must_be_free, must_decide
from holdfast.features.namespaces.model import Policy
from holdfast.features.namespaces.policy import must_govern
from holdfast.features.people.erasure_order import Erasure
from holdfast.features.reflections import invalidation_store as invalidations
from holdfast.features.reflections.depth import must_fit, stand
from holdfast.features.reflections.invalidation import INVALIDATION
from holdfast.features.reflections.model import never_lower
from holdfast.features.skills import store as skills
from holdfast.features.skills.model import SkillVersion
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import ChangedSince, Conflict, Folded, NotFound
from holdfast.kernel.journal import checkpoint as floors
from holdfast.kernel.journal import journal
from holdfast.kernel.journal import transaction as records
from holdfast.kernel.journal import verify as audit
from holdfast.kernel.journal.kinds import KINDS, LINK, MEMORY, Kind
from holdfast.kernel.records import field_versions as cells
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.merge import canonical
from holdfast.kernel.registry.stages import Parts
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import OPEN_END, to_text

BATCH_PAGE = 256
MOST_PAGES = 20
"""Feed pages scanned per call for entries that match a filter."""
EVERY_EVENT = Wanted()


def as_it_was(hold: Hold, session: Session, id: str, *, as_of: int | None, known_at: int | None) -> Memory:
    """Read a memory as this store knew it at `known_at` and as it was valid at `as_of`, even if deleted since."""
    id = memories.resolve(session, hold.caller, id, hold.now(), view="any").id
    _must_be_told(session, id, as_of, known_at)
    rows = session.rows("journal_known", record=id, known_at=OPEN_END if known_at is None else known_at)
    entries = [_readable(hold, session, journal.Entry(*row)) for row in rows]
    bodies = [records.body_of(MEMORY, entry) for entry in entries if entry.kind == "memory" and entry.body is not None]
    if as_of is not None:
        bodies = [body for body in bodies if true_from(body) <= as_of]
    if not bodies or bodies[-1].state == "deleted":
        raise NotFound(f"The memory {id} did not exist at that time.", id=id)
    if as_of is not None and bodies[-1].valid_until is not None and bodies[-1].valid_until <= as_of:
        raise NotFound(f"The memory {id} was no longer valid at that time.", id=id)
    return bodies[-1]


def _must_be_told(session: Session, id: str, as_of: int | None, known_at: int | None) -> None:
    """Raise if the history of a memory at that time was compacted."""
    first = session.row("journal_of", record=id, kind=MEMORY.name, after=0, limit=1)
    if first is None or folded_before(session, entry := journal.Entry(*first)) is None:
        return
    too_early = known_at is not None and known_at < entry.kept_at
    if as_of is not None and entry.body is not None:
        too_early = too_early or as_of < true_from(records.body_of(MEMORY, entry))
    if too_early:
        raise Folded(
            f"History of the memory {id} before {to_text(entry.kept_at)} was compacted: only its final state is kept.",
            id=id,
            since=to_text(entry.kept_at),
        )


def entries_of(hold: Hold, session: Session, id: str, *, after: int, limit: int) -> list[journal.Entry]:
    """List every change of a memory, oldest first, including its deletion."""
    memory = memories.resolve(session, hold.caller, id, hold.now(), view="any")
    rows = session.rows("journal_of", record=memory.id, kind="memory", after=after, limit=limit)
    return [_readable(hold, session, journal.Entry(*row)) for row in rows]


def folded_before(session: Session, entry: journal.Entry) -> int | None:
    """Return the commit time of an entry that replaces all earlier ones (compaction), else None."""
    checkpoint_entry = floors.folding_of(session, entry.kind, entry.record)
    return entry.kept_at if checkpoint_entry is not None and checkpoint_entry.seq == entry.seq else None


def _readable(hold: Hold, session: Session, entry: journal.Entry) -> journal.Entry:
    """Remove the body of an entry whose memory the caller could not see, or whose invalidated memories it cannot."""
    if entry.kind == "invalidation" and entry.body is not None:
        notice = records.body_of(INVALIDATION, entry)
        invalidated = {notice.invalidated, notice.invalidating}
        is_visible = invalidations.seen(session, hold.caller, invalidated) == invalidated
        return entry if is_visible else entry._replace(body=None, delta=None)
    if entry.kind != "memory" or entry.body is None:
        return entry
    is_visible = memories.was_visible(session, hold.caller, records.body_of(MEMORY, entry))
    return entry if is_visible else entry._replace(body=None, delta=None)


def feed(hold: Hold, session: Session, *, after: int, limit: int) -> tuple[list[journal.Entry], int]:
    """Read the changes that the caller may follow, by sequence, and the cursor of the next page.

    A cursor beyond the end (a backup was restored) moves back to the current end.
    """
    head = journal.head_of(session).seq
    parts, params = memories.visible(hold.caller)
    rows = session.assembled(("journal_feed", *parts, "journal_feed.end"), params | {"after": after, "limit": limit})
    entries = [journal.Entry(*row) for row in rows]
    reached = entries[-1].seq if len(entries) == limit else head
    return [_readable(hold, session, entry) for entry in entries if _both_ends(hold, session, entry)], reached


def wanted_feed(
    hold: Hold, session: Session, wanted: Wanted, *, after: int, limit: int
) -> tuple[list[journal.Entry], int]:
    """Read the changes that match a filter. An empty page does not mean the end: the next may have some."""
    found: list[journal.Entry] = []
    for _ in range(1 if wanted == EVERY_EVENT else MOST_PAGES):
        entries, reached = feed(hold, session, after=after, limit=limit)
        for entry in entries:
            if is_wanted(hold, session, entry, wanted):
                found.append(entry)
                if len(found) == limit:
                    return found, entry.seq
        if reached <= after or len(found) == limit:
            return found, reached
        after = reached
    return found, after


def _both_ends(hold: Hold, session: Session, entry: journal.Entry) -> bool:
    """Check that the caller may see the other side of a change.

    Links require access to the target, policies and skills to their namespace, interactions to their content.
    """
    if entry.kind == "policy":
        return hold.caller.reaches(entry.record)
    if entry.kind in ("skill", "skill_version") and entry.body is not None:
        return hold.caller.reaches(records.body_of(KINDS[entry.kind], entry).namespace)
    if entry.kind == "interaction":
        return interactions.seen(session, hold.caller, entry.record) is not None
    if entry.kind != "link" or entry.body is None:
        return True
    target = records.body_of(LINK, entry).target
    parts, params = memories.visible(hold.caller)
    return bool(session.assembled(("memory_ids", *parts, "memory.one"), params | {"id": target}))


class Undone(NamedTuple):
    entry: journal.Entry
    record: Any
    """The record after the undo."""
    place: int
    """Sequence number of the first change that recorded the undo."""
    changes: int
    """Number of changes undone."""


def undo(hold: Hold, seq: int, *, together: bool = False) -> Undone:
    """Undo one change, or its whole transaction, by a new change that can be undone too."""
    with hold.writing() as write:
        if together:
            entries = undo_together(hold, write, seq)
            entry = next((one for one in entries if one.seq == seq), entries[0])
            after, changes = write.get(KINDS[entry.kind], entry.record), len(entries)
        else:
            (entry, after), changes = take_back(hold, write, seq), 1
    return Undone(entry, after, write.places[0].seq, changes)


def parts_of_undo(hold: Hold, seq: int, *, together: bool = False) -> Parts:
    """List the stages of an undo, for hooks. Raises if the caller may not undo the change."""
    parts = Parts()
    with hold.reading() as session:
        batch = _together(session, seq) if together else [_entry(hold, session, seq)]
        for entry in (_entry(hold, session, one.seq) for one in batch if one.kind != "invalidation"):
            if entry.body is None:
                raise _gone(entry.seq)
            if entry.kind in (MEMORY.name, LINK.name):
                _add_part(hold, session, entry, parts)
    return parts


def _add_part(hold: Hold, session: Session, entry: journal.Entry, parts: Parts) -> None:
    """Add the stage: undoing a creation deletes the memory, undoing any other change stores it again."""
    if entry.kind == LINK.name:
        link = records.body_of(LINK, entry)
        parts.add("link", places_of(hold, session, [link.source, link.target]))
        return
    after, before = records.body_of(MEMORY, entry), _before(hold, session, entry)
    places = [*places_of(hold, session, [entry.record]), after.namespace]
    if before is None or before.state == "deleted" != after.state:
        parts.add("delete", places if before is None else [*places, before.namespace])
    else:
        parts.add("store", [*places, before.namespace], said_by(before))


def said_by(memory: Memory) -> dict[str, Any]:
    """Return the content of a memory, for hooks."""
    return {"id": memory.id, "title": memory.title, "content": memory.content, "tags": list(memory.tags)}


def places_of(hold: Hold, session: Session, ids: list[str]) -> list[str]:
    """Find the namespaces of those memories that the caller may see."""
    return [one.namespace for one in memories.by_ids(session, hold.caller, ids, hold.now(), view="any").values()]


def undo_together(hold: Hold, write: records.Transaction, seq: int) -> list[journal.Entry]:
    """Undo a whole transaction, last entry first. Its invalidation notices resolve automatically."""
    entries = [entry for entry in _together(write.session, seq) if entry.kind != "invalidation"]
    if not entries:
        raise NotFound(f"Change {seq} does not exist.", change=seq)
    for entry in reversed(entries):
        take_back(hold, write, entry.seq)
    return entries


def _together(session: Session, seq: int) -> list[journal.Entry]:
    """Read every entry of the transaction that contains an entry."""
    row = session.row("journal_one", seq=seq)
    if row is None:
        raise _no_change(session, seq)
    batch, found = journal.Entry(*row).batch, list[journal.Entry]()
    while page := session.rows("journal_page", after=found[-1].seq if found else batch - 1, limit=BATCH_PAGE):
        entries = [journal.Entry(*row) for row in page]
        found += [entry for entry in entries if entry.batch == batch]
        if entries[-1].batch != batch or len(page) < BATCH_PAGE:
            break
    return found


def take_back(hold: Hold, write: records.Transaction, seq: int) -> tuple[journal.Entry, Any]:
    """Undo one change inside a transaction. Raises before anything is written."""
    entry = _entry(hold, write.session, seq)
    kind = KINDS[entry.kind]
    record: Any = write.get(kind, entry.record)
    if entry.body is None or record is None:
        raise _gone(seq)
    after, before = records.body_of(kind, entry), _before(hold, write.session, entry)
    touched = _touched(kind, before, after)
    _must_be_untouched(entry, touched, cells.flatten(kind.shape, after), cells.flatten(kind.shape, record))
    undone = replace(record, state="deleted") if before is None else _put_back(kind, record, before, touched)
    undone = _as_high(seq, record, undone)
    if cells.changed(kind.shape, record, undone) == {}:
        raise ChangedSince(f"Change {seq} was already undone.", change=seq)
    _must_be_allowed(hold, write, record, undone)
    return entry, write.change(kind, record, undone, "undo")


def _as_high(seq: int, record: Any, undone: Any) -> Any:
    """Keep the reflection depth: it only rises, even on undo."""
    if not isinstance(record, Memory):
        return undone
    deepened = never_lower(record, undone)
    if deepened is not undone and cells.changed(MEMORY.shape, record, deepened) == {}:
        raise ChangedSince(f"Change {seq} raised a reflection depth, which cannot be undone.", change=seq)
    return deepened


def _touched(kind: Kind[Any], before: Any, made: Any) -> list[str]:
    """Find the fields that a change set. A creation set all of them, except the unmerged ones."""
    if before is None:
        return [name for name in cells.flatten(kind.shape, made) if name not in kind.shape.quiet]
    edits = cells.changed(kind.shape, before, made)
    return [name for name, (old, new) in edits.items() if canonical(old) != canonical(new)]


def _must_be_allowed(hold: Hold, write: records.Transaction, record: Any, undone: Any) -> None:
    """Raise if the caller could not make the same change directly."""
    if isinstance(record, SkillVersion):
        raise Conflict("A skill version cannot be undone: undo the change that made it current, or delete the skill.")
    if isinstance(record, Interaction):
        raise Conflict("A recorded decision cannot be undone.")
    if isinstance(record, Erasure):
        raise Conflict("An erasure cannot be undone.")
    if isinstance(record, Grant):
        memory = write.get(MEMORY, record.memory)
        assert memory is not None
        must_decide(hold, write, memory)
    if isinstance(record, Policy):
        must_govern(hold, record.id)
    if isinstance(undone, Link):
        stand(write, record, undone, "put back")
    if isinstance(undone, Memory):
        hold.caller.must_reach(undone.namespace)
        if undone.namespace != record.namespace:
            must_fit(write.session, undone)
        must_agree(hold, write, record, undone)
        if undone.state == "live":
            must_be_free(hold, write, undone)


def _gone(seq: int) -> NotFound:
    return NotFound(f"Change {seq} cannot be undone: its content was purged.", change=seq)


def _no_change(session: Session, seq: int) -> NotFound:
    if seq > 0 and floors.gone(session, seq):
        return Folded(f"Change {seq} was compacted: only the final state is kept.", change=seq)
    return NotFound(f"Change {seq} does not exist.", change=seq)


def _entry(hold: Hold, session: Session, seq: int) -> journal.Entry:
    row = session.row("journal_one", seq=seq)
    missing = NotFound(f"Change {seq} does not exist.", change=seq)
    if row is None:
        raise _no_change(session, seq)
    entry = journal.Entry(*row)
    if entry.about is None and "*" not in hold.caller.namespaces:
        raise missing
    if not _both_ends(hold, session, entry):
        raise missing
    if entry.about is not None:
        parts, params = memories.visible(hold.caller, "writable")
        if not session.assembled(("memory_ids", *parts, "memory.one"), params | {"id": entry.about}):
            raise missing
    return entry


def _before(hold: Hold, session: Session, entry: journal.Entry) -> Any:
    row = session.row("journal_last", record=entry.record, kind=entry.kind, before=entry.seq)
    if row is None and folded_before(session, entry) is not None:
        raise Folded(f"Change {entry.seq} cannot be undone: the state before it was compacted.", change=entry.seq)
    if row is None:
        return None
    earlier = _readable(hold, session, journal.Entry(*row))
    if earlier.body is None:
        raise NotFound("The change cannot be undone: the state before it is no longer readable.")
    return records.body_of(KINDS[entry.kind], earlier)


def _must_be_untouched(entry: journal.Entry, touched: list[str], then: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise if a later change set one of the same fields."""
    differing = [name for name in touched if canonical(now.get(name)) != canonical(then.get(name))]
    if differing:
        raise ChangedSince(
            f"Since change {entry.seq}, {', '.join(differing)} changed again: undo the later change first.",
            change=entry.seq,
            fields=differing,
        )


def _put_back(kind: Kind[Any], record: Any, before: Any, touched: list[str]) -> Any:
    """Return the record with the touched fields restored to their earlier values."""
    values = {field: getattr(before, field) for field in {name.split(":", 1)[0] for name in touched}}
    for field in values.keys() & {*kind.shape.sets, *kind.shape.maps}:
        elements = {name.split(":", 1)[1] for name in touched if name.startswith(field + ":")}
        values[field] = _elements_back(getattr(record, field), getattr(before, field), elements)
    return replace(record, **values)


def _elements_back(now: Any, before: Any, touched: set[str]) -> Any:
    """Restore the touched elements of a set or map, keep the others; the earlier order wins."""
    there = {item for item in before if item in touched} | {item for item in now if item not in touched}
    order = [item for item in dict.fromkeys((*before, *now)) if item in there]
    if isinstance(now, dict):
        return {key: before[key] if key in touched else now[key] for key in order}
    return tuple(order)


def verify(hold: Hold, session: Session, witness: str | None = None) -> list[journal.Break]:
    """List journal breaks, and rows that differ from their journal entry."""
    found = list(journal.verify(session, hold.store.public_key(session)))
    if witness is not None:
        seq, hash = witness.split(":")
        row = session.row("journal_one", seq=int(seq))
        if row is None and floors.gone(session, int(seq)):
            found.append(journal.Break(int(seq), "the entry was compacted: an earlier witness cannot be checked"))
        elif row is None or journal.Entry(*row).hash.hex() != hash:
            found.append(journal.Break(int(seq), "the journal does not match the witness"))
    return [*found, *audit.differing(session), *skills.differing(session)]
