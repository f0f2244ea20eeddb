"""What happened to a record: its past, and taking a change back."""

from typing import Any

from msgspec.structs import replace

from ..domain import cells
from ..domain.errors import ChangedSince, NotFound
from ..domain.memory import Memory
from ..domain.merge import canonical
from ..storage import audit, journal, memories, records, signer
from ..storage.port import Session
from ..storage.records import KINDS, MEMORY
from .hold import Hold
from .remember import must_be_free


def as_it_was(session: Session, id: str, *, as_of: int | None, known_at: int | None) -> Memory:
    """A memory as this store knew it at one moment, as it was true at another."""
    now = known_at if known_at is not None else 1 << 62
    entries = [journal.Entry(*row) for row in session.rows("journal_known", record=id, known_at=now)]
    bodies = [records.body_of(MEMORY, entry) for entry in entries if entry.kind == "memory" and entry.body is not None]
    if as_of is not None:
        bodies = [body for body in bodies if _true_from(body) <= as_of]
    if not bodies or bodies[-1].state == "deleted":
        raise NotFound(f"The memory {id} was not there then.", id=id)
    if as_of is not None and bodies[-1].valid_until is not None and bodies[-1].valid_until <= as_of:
        raise NotFound(f"The memory {id} did not hold any more then.", id=id)
    return bodies[-1]


def _true_from(memory: Memory) -> int:
    """From when a state of a memory is true: as it says itself, else since it was written."""
    return memory.valid_from if memory.valid_from is not None else memory.updated_at


def entries_of(hold: Hold, session: Session, id: str, *, after: int, limit: int) -> list[journal.Entry]:
    """Every change of one memory, oldest first, deletion included."""
    memory = _of_any_state(hold, session, id)
    rows = session.rows("journal_of", record=memory, kind="memory", after=after, limit=limit)
    return [journal.Entry(*row) for row in rows]


def _of_any_state(hold: Hold, session: Session, id: str) -> str:
    parts, params = memories.visible(hold.caller)
    rows = session.assembled(("memory_ids", *parts, "memory.one"), params | {"id": id})
    return str(rows[0][0]) if rows else memories.resolve(session, hold.caller, id, hold.now(), view="kept").id


def feed(hold: Hold, session: Session, *, after: int, limit: int) -> tuple[list[journal.Entry], int]:
    """The changes that the caller may follow, by sequence, and where to go on."""
    head = journal.head_of(session).seq
    parts, params = memories.visible(hold.caller)
    rows = session.assembled(("journal_feed", *parts, "journal_feed.end"), params | {"after": after, "limit": limit})
    entries = [journal.Entry(*row) for row in rows]
    reached = entries[-1].seq if len(entries) == limit else max(head, after)
    return [entry for entry in entries if _both_ends(hold, session, entry)], reached


def _both_ends(hold: Hold, session: Session, entry: journal.Entry) -> bool:
    """A link is told of only to those who may see what it points to."""
    if entry.kind != "link" or entry.body is None:
        return True
    target = records.body_of(records.LINK, entry).target
    parts, params = memories.visible(hold.caller)
    return bool(session.assembled(("memory_ids", *parts, "memory.one"), params | {"id": target}))


def undo(hold: Hold, seq: int) -> tuple[journal.Entry, Any, int]:
    """Take one change back by a new change, which can itself be undone."""
    with hold.writing() as write:
        entry = _entry(hold, write.session, seq)
        kind = KINDS[entry.kind]
        record: Any = write.get(kind, entry.record)
        if entry.body is None or record is None:
            raise NotFound(f"What change {seq} said was purged: it cannot be taken back.")
        made, before = records.body_of(kind, entry), _before(write.session, entry)
        if before is None:
            restored = replace(record, state="deleted")
            _must_be_untouched(entry, {"state": (None, made.state)}, kind, record)
        else:
            edits = cells.changed(kind.shape, before, made)
            _must_be_untouched(entry, edits, kind, record)
            restored = _put_back(kind, record, before, edits)
        if isinstance(restored, Memory) and restored.state == "live":
            must_be_free(write, restored)
        if cells.changed(kind.shape, record, restored) == {}:
            raise ChangedSince(f"Change {seq} has been taken back already.")
        after = write.change(kind, record, restored, "undo")
    return entry, after, write.places[-1]


def _entry(hold: Hold, session: Session, seq: int) -> journal.Entry:
    row = session.row("journal_one", seq=seq)
    missing = NotFound(f"There is no change {seq}.", change=seq)
    if row is None:
        raise missing
    entry = journal.Entry(*row)
    if entry.about is not None:
        parts, params = memories.visible(hold.caller, "writable")
        if not session.assembled(("memory_ids", *parts, "memory.one"), params | {"id": entry.about}):
            raise missing
    return entry


def _before(session: Session, entry: journal.Entry) -> Any:
    row = session.row("journal_last", record=entry.record, kind=entry.kind, before=entry.seq)
    if row is None:
        return None
    earlier = journal.Entry(*row)
    if earlier.body is None:
        raise NotFound("What was there before was purged: the change cannot be taken back.")
    return records.body_of(KINDS[entry.kind], earlier)


def _must_be_untouched(
    entry: journal.Entry, edits: dict[str, tuple[Any, Any]], kind: records.Kind[Any], record: Any
) -> None:
    """An undo never takes back more than its one change."""
    now = cells.flatten(kind.shape, record)
    differing = [
        name
        for name, (_, made) in edits.items()
        if canonical(now.get(name)) != canonical(None if made is False else made)
    ]
    if differing:
        raise ChangedSince(
            f"Since change {entry.seq}, {', '.join(differing)} changed again: undo the later change first.",
            change=entry.seq,
            fields=differing,
        )


def _put_back(kind: records.Kind[Any], record: Any, before: Any, edits: dict[str, tuple[Any, Any]]) -> Any:
    """The record with the edited cells as they were before."""
    values: dict[str, Any] = {}
    for field in {name.split(":", 1)[0] for name in edits}:
        values[field] = getattr(before, field)
    for field in (*kind.shape.sets, *kind.shape.maps):
        if field in values:
            values[field] = _elements_back(getattr(record, field), getattr(before, field), field, edits)
    return replace(record, **values)


def _elements_back(now: Any, before: Any, field: str, edits: dict[str, tuple[Any, Any]]) -> Any:
    touched = {name.split(":", 1)[1] for name in edits if name.startswith(field + ":")}
    if isinstance(now, dict):
        others = {key: value for key, value in now.items() if key not in touched}
        return others | {key: before[key] for key in touched if key in before}
    return (*(item for item in now if item not in touched), *(item for item in before if item in touched))


def verify(hold: Hold, session: Session, witness: str | None = None) -> list[journal.Break]:
    """Everything that is wrong with the journal, and every row that is not what its journal says."""
    key = hold.store.signing_key()
    found = list(journal.verify(session, signer.public_of(key) if key else None))
    if witness is not None:
        seq, hash = witness.split(":")
        row = session.row("journal_one", seq=int(seq))
        if row is None or journal.Entry(*row).hash.hex() != hash:
            found.append(journal.Break(int(seq), "the chain is not the one whose head was noted"))
    return found + list(audit.differing(session))
