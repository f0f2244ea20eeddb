"""Record history, the change feed, undo and journal verification."""

from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from holdfast.features.graph.depth import check_depth, check_link, keep_depth
from holdfast.features.history.event import EventFilter, find_event_name
from holdfast.features.history.snapshot import find_true_from
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.grant import Grant
from holdfast.features.memories.read_memories import check_scope_change, find_namespaces, require_owner
from holdfast.features.memories.store_memory import require_free_title
from holdfast.features.memories.views import notified_or_unset
from holdfast.features.namespaces.model import Policy
from holdfast.features.namespaces.service import require_policy_admin
from holdfast.features.people import interactions
from holdfast.features.reflections.invalidation import INVALIDATION
from holdfast.kernel.context import Context
from holdfast.kernel.errors import ChangedSince, Conflict, HistoryCompacted, NotFound
from holdfast.kernel.journal import journal, verify_chain
from holdfast.kernel.journal import verify as journal_verify
from holdfast.kernel.journal.journal import get_compacted_record, is_compacted
from holdfast.kernel.journal.kinds import KINDS, LINK, MEMORY, Kind, body_of, kind_of
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import field_versions
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.merge import canonical_json
from holdfast.kernel.registry.stages import StageEffects
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import NO_END, TimeText, format_timestamp

BATCH_PAGE = 256
MAX_FEED_PAGES = 20
"""Feed pages scanned per call for entries that match a filter."""
EVERY_EVENT = EventFilter()


class Change(Struct, frozen=True, kw_only=True):
    """One committed change."""

    seq: int
    op: str
    kind: str
    record: str
    actor: str
    at: TimeText
    """When this store committed it."""
    origin: str
    number: int
    batch: int
    hash: str
    event: str
    """Event name: memory_store, memory_link_created, ..."""
    version: int | UnsetType = UNSET
    memory: dict[str, Any] | UnsetType = UNSET
    """The record after the change. Omitted if it was purged, or if the caller could not see it at that time."""


def build_change(entry: journal.Entry) -> Change:
    body: Any = body_of(KINDS[entry.kind], entry) if entry.body is not None else None
    return Change(
        seq=entry.seq,
        event=find_event_name(entry),
        op=entry.op,
        kind=entry.kind,
        record=entry.record,
        actor=entry.actor,
        at=format_timestamp(entry.recorded_at),
        origin=entry.origin,
        number=entry.n,
        batch=entry.batch,
        hash=entry.hash.hex(),
        version=body.version if body else UNSET,
        memory=_render_record(body) if body else UNSET,
    )


_TIMESTAMP_FIELDS = ("created_at", "updated_at", "expires_at", "valid_from", "valid_until", "occurred_at")


def _render_record(record: Any) -> dict[str, Any]:
    plain = msgspec.to_builtins(record)
    for name in _TIMESTAMP_FIELDS:
        if plain.get(name) is not None:
            plain[name] = format_timestamp(plain[name])
    return {name: value for name, value in plain.items() if value is not None}


def get_past_state(ctx: Context, session: Session, id: str, *, as_of: int | None, known_at: int | None) -> Memory:
    """Read a memory as this store knew it at `known_at` and as it was valid at `as_of`, even if deleted since."""
    id = memories.resolve(session, ctx.caller, id, ctx.now(), view="any").id
    _check_not_compacted(session, id, as_of, known_at)
    rows = session.rows("journal_known", record=id, known_at=NO_END if known_at is None else known_at)
    entries = [_redact_entry(ctx, session, journal.Entry(*row)) for row in rows]
    bodies = [body_of(MEMORY, entry) for entry in entries if entry.kind == "memory" and entry.body is not None]
    if as_of is not None:
        bodies = [body for body in bodies if find_true_from(body) <= as_of]
    if not bodies or bodies[-1].state == "deleted":
        raise NotFound(f"The memory {id} did not exist at that time.", id=id)
    if as_of is not None and bodies[-1].valid_until is not None and bodies[-1].valid_until <= as_of:
        raise NotFound(f"The memory {id} was no longer valid at that time.", id=id)
    return bodies[-1]


def _check_not_compacted(session: Session, id: str, as_of: int | None, known_at: int | None) -> None:
    """Raise if the history of a memory at that time was compacted."""
    first = session.row("journal_of", record=id, kind=MEMORY.name, after=0, limit=1)
    if first is None or find_compaction_time(session, entry := journal.Entry(*first)) is None:
        return
    too_early = known_at is not None and known_at < entry.recorded_at
    if as_of is not None and entry.body is not None:
        too_early = too_early or as_of < find_true_from(body_of(MEMORY, entry))
    if too_early:
        raise HistoryCompacted(
            f"History of the memory {id} before {format_timestamp(entry.recorded_at)} was compacted: "
            "only its final state is kept.",
            id=id,
            since=format_timestamp(entry.recorded_at),
        )


def list_entries(ctx: Context, session: Session, id: str, *, after: int, limit: int) -> list[journal.Entry]:
    """List every change of a memory, oldest first, including its deletion."""
    memory = memories.resolve(session, ctx.caller, id, ctx.now(), view="any")
    rows = session.rows("journal_of", record=memory.id, kind="memory", after=after, limit=limit)
    return [_redact_entry(ctx, session, journal.Entry(*row)) for row in rows]


def find_compaction_time(session: Session, entry: journal.Entry) -> int | None:
    """Return the commit time of an entry that replaces all earlier ones (compaction), else None."""
    checkpoint_entry = get_compacted_record(session, entry.kind, entry.record)
    return entry.recorded_at if checkpoint_entry is not None and checkpoint_entry.seq == entry.seq else None


def _redact_entry(ctx: Context, session: Session, entry: journal.Entry) -> journal.Entry:
    """Remove the body of an entry whose memory the caller could not see, or whose invalidated memories it cannot."""
    if entry.kind == "invalidation" and entry.body is not None:
        notice = body_of(INVALIDATION, entry)
        invalidated = {notice.invalidated, notice.invalidating}
        is_visible = memories.find_visible(session, ctx.caller, invalidated) == invalidated
        return entry if is_visible else entry._replace(body=None, delta=None)
    if entry.kind != "memory" or entry.body is None:
        return entry
    is_visible = memories.was_visible(session, ctx.caller, body_of(MEMORY, entry))
    return entry if is_visible else entry._replace(body=None, delta=None)


def find_namespace(ctx: Context, session: Session, entry: journal.Entry) -> str | None:
    """Find the namespace of a change: that of its record, or of the memory it is about."""
    if entry.kind == "policy":
        return entry.record
    if entry.body is not None and hasattr(body := body_of(KINDS[entry.kind], entry), "namespace"):
        return str(body.namespace)
    if entry.about is None:
        return None
    found = memories.by_ids(session, ctx.caller, [entry.about], ctx.now(), view="any")
    return found[entry.about].namespace if entry.about in found else None


def matches_filter(ctx: Context, session: Session, entry: journal.Entry, filter: EventFilter) -> bool:
    if filter == EventFilter():
        return True
    if not (filter.matches_actor(entry.actor) and filter.matches_event(find_event_name(entry))):
        return False
    return filter.namespace is None or filter.matches_namespace(find_namespace(ctx, session, entry))


def read_feed(ctx: Context, session: Session, *, after: int, limit: int) -> tuple[list[journal.Entry], int]:
    """Read the changes that the caller may follow, by sequence, and the cursor of the next page.

    A cursor beyond the end (a backup was restored) moves back to the current end.
    """
    head = journal.get_head(session).seq
    parts, params = memories.visibility_clauses(ctx.caller)
    rows = session.select(("journal_feed", *parts, "journal_feed.end"), params | {"after": after, "limit": limit})
    entries = [journal.Entry(*row) for row in rows]
    reached = entries[-1].seq if len(entries) == limit else head
    return [_redact_entry(ctx, session, entry) for entry in entries if _can_follow(ctx, session, entry)], reached


def read_filtered_feed(
    ctx: Context, session: Session, filter: EventFilter, *, after: int, limit: int
) -> tuple[list[journal.Entry], int]:
    """Read the changes that match a filter. An empty page does not mean the end: the next may have some."""
    found: list[journal.Entry] = []
    for _ in range(1 if filter == EVERY_EVENT else MAX_FEED_PAGES):
        entries, reached = read_feed(ctx, session, after=after, limit=limit)
        for entry in entries:
            if matches_filter(ctx, session, entry, filter):
                found.append(entry)
                if len(found) == limit:
                    return found, entry.seq
        if reached <= after or len(found) == limit:
            return found, reached
        after = reached
    return found, after


def _can_follow(ctx: Context, session: Session, entry: journal.Entry) -> bool:
    """Check that the caller may see the other side of a change.

    Links require access to the target, policies and skills to their namespace, interactions to their content.
    """
    if entry.kind == "policy":
        return ctx.caller.can_access(entry.record)
    if entry.kind in ("skill", "skill_version") and entry.body is not None:
        return ctx.caller.can_access(body_of(KINDS[entry.kind], entry).namespace)
    if entry.kind == "interaction":
        return interactions.get_visible(session, ctx.caller, entry.record) is not None
    if entry.kind != "link" or entry.body is None:
        return True
    target = body_of(LINK, entry).target
    parts, params = memories.visibility_clauses(ctx.caller)
    return bool(session.select(("memory_ids", *parts, "memory.one"), params | {"id": target}))


class UndoResult(Struct, frozen=True, kw_only=True):
    undone: int
    change: int
    """The change that recorded the undo; undo this one to redo."""
    kind: str
    record: str
    version: int
    count: int
    """Number of changes undone."""
    invalidation_notified: list[str] | UnsetType = UNSET
    """Dependents flagged as stale, as far as the caller may see them."""


def undo(ctx: Context, seq: int, *, together: bool = False) -> UndoResult:
    """Undo one change, or its whole transaction, by a new change that can be undone too."""
    after: Any
    with ctx.transaction() as write:
        if together:
            entries = undo_batch(ctx, write, seq)
            entry = next((one for one in entries if one.seq == seq), entries[0])
            after, count = write.get(KINDS[entry.kind], entry.record), len(entries)
        else:
            (entry, after), count = undo_change(ctx, write, seq), 1
    return UndoResult(
        undone=entry.seq,
        change=write.positions[0].seq,
        kind=entry.kind,
        record=entry.record,
        version=after.version,
        count=count,
        invalidation_notified=notified_or_unset(ctx),
    )


def list_undo_parts(ctx: Context, seq: int, *, together: bool = False) -> StageEffects:
    """List the stages of an undo, for hooks. Raises if the caller may not undo the change."""
    parts = StageEffects()
    with ctx.reading() as session:
        batch = _read_batch(session, seq) if together else [_get_entry(ctx, session, seq)]
        for entry in (_get_entry(ctx, session, one.seq) for one in batch if one.kind != "invalidation"):
            if entry.body is None:
                raise _content_gone_error(entry.seq)
            if entry.kind in (MEMORY.name, LINK.name):
                _add_part(ctx, session, entry, parts)
    return parts


def _add_part(ctx: Context, session: Session, entry: journal.Entry, parts: StageEffects) -> None:
    """Add the stage: undoing a creation deletes the memory, undoing any other change stores it again."""
    if entry.kind == LINK.name:
        link = body_of(LINK, entry)
        parts.add("link", find_namespaces(ctx, session, [link.source, link.target]))
        return
    after, before = body_of(MEMORY, entry), _get_previous(ctx, session, entry)
    places = [*find_namespaces(ctx, session, [entry.record]), after.namespace]
    if before is None or before.state == "deleted" != after.state:
        parts.add("delete", places if before is None else [*places, before.namespace])
    else:
        parts.add("store", [*places, before.namespace], describe_memory(before))


def describe_memory(memory: Memory) -> dict[str, Any]:
    """Return the content of a memory, for hooks."""
    return {"id": memory.id, "title": memory.title, "content": memory.content, "tags": list(memory.tags)}


def undo_batch(ctx: Context, write: Transaction, seq: int) -> list[journal.Entry]:
    """Undo a whole transaction, last entry first. Its invalidation notices resolve automatically."""
    entries = [entry for entry in _read_batch(write.session, seq) if entry.kind != "invalidation"]
    if not entries:
        raise NotFound(f"Change {seq} does not exist.", change=seq)
    for entry in reversed(entries):
        undo_change(ctx, write, entry.seq)
    return entries


def _read_batch(session: Session, seq: int) -> list[journal.Entry]:
    """Read every entry of the transaction that contains an entry."""
    row = session.row("journal_one", seq=seq)
    if row is None:
        raise _no_change_error(session, seq)
    batch, found = journal.Entry(*row).batch, list[journal.Entry]()
    while page := session.rows("journal_page", after=found[-1].seq if found else batch - 1, limit=BATCH_PAGE):
        entries = [journal.Entry(*row) for row in page]
        found += [entry for entry in entries if entry.batch == batch]
        if entries[-1].batch != batch or len(page) < BATCH_PAGE:
            break
    return found


def undo_change(ctx: Context, write: Transaction, seq: int) -> tuple[journal.Entry, Any]:
    """Undo one change inside a transaction. Raises before anything is written."""
    entry = _get_entry(ctx, write.session, seq)
    kind = KINDS[entry.kind]
    record: Any = write.get(kind, entry.record)
    if entry.body is None or record is None:
        raise _content_gone_error(seq)
    after, before = body_of(kind, entry), _get_previous(ctx, write.session, entry)
    touched = _find_touched_fields(kind, before, after)
    _check_untouched(
        entry,
        touched,
        field_versions.flatten(kind.merge_schema, after),
        field_versions.flatten(kind.merge_schema, record),
    )
    undone = replace(record, state="deleted") if before is None else _restore_fields(kind, record, before, touched)
    undone = _keep_depth(seq, record, undone)
    if field_versions.diff_fields(kind.merge_schema, record, undone) == {}:
        raise ChangedSince(f"Change {seq} was already undone.", change=seq)
    _check_allowed(ctx, write, record, undone)
    return entry, write.change(kind, record, undone, "undo")


def _keep_depth(seq: int, record: Any, undone: Any) -> Any:
    """Keep the reflection depth: it only rises, even on undo."""
    if not isinstance(record, Memory):
        return undone
    deepened = keep_depth(record, undone)
    if deepened is not undone and field_versions.diff_fields(MEMORY.merge_schema, record, deepened) == {}:
        raise ChangedSince(f"Change {seq} raised a reflection depth, which cannot be undone.", change=seq)
    return deepened


def _find_touched_fields(kind: Kind[Any], before: Any, made: Any) -> list[str]:
    """Find the fields that a change set. A creation set all of them, except the unmerged ones."""
    if before is None:
        return [
            name for name in field_versions.flatten(kind.merge_schema, made) if name not in kind.merge_schema.lww_fields
        ]
    edits = field_versions.diff_fields(kind.merge_schema, before, made)
    return [name for name, (old, new) in edits.items() if canonical_json(old) != canonical_json(new)]


def _check_allowed(ctx: Context, write: Transaction, record: Any, undone: Any) -> None:
    """Raise if the caller could not make the same change directly."""
    if (refusal := kind_of(record).undo_refusal) is not None:
        raise Conflict(refusal)
    if isinstance(record, Grant):
        memory = write.get(MEMORY, record.memory)
        assert memory is not None
        require_owner(ctx, write, memory)
    if isinstance(record, Policy):
        require_policy_admin(ctx, record.id)
    if isinstance(undone, Link):
        check_link(write, record, undone, "put back")
    if isinstance(undone, Memory):
        ctx.caller.require_access(undone.namespace)
        if undone.namespace != record.namespace:
            check_depth(write.session, undone)
        check_scope_change(ctx, write, record, undone)
        if undone.state == "live":
            require_free_title(ctx, write, undone)


def _content_gone_error(seq: int) -> NotFound:
    return NotFound(f"Change {seq} cannot be undone: its content was purged.", change=seq)


def _no_change_error(session: Session, seq: int) -> NotFound:
    if seq > 0 and is_compacted(session, seq):
        return HistoryCompacted(f"Change {seq} was compacted: only the final state is kept.", change=seq)
    return NotFound(f"Change {seq} does not exist.", change=seq)


def _get_entry(ctx: Context, session: Session, seq: int) -> journal.Entry:
    row = session.row("journal_one", seq=seq)
    missing = NotFound(f"Change {seq} does not exist.", change=seq)
    if row is None:
        raise _no_change_error(session, seq)
    entry = journal.Entry(*row)
    if entry.about is None and "*" not in ctx.caller.namespaces:
        raise missing
    if not _can_follow(ctx, session, entry):
        raise missing
    if entry.about is not None:
        parts, params = memories.visibility_clauses(ctx.caller, "writable")
        if not session.select(("memory_ids", *parts, "memory.one"), params | {"id": entry.about}):
            raise missing
    return entry


def _get_previous(ctx: Context, session: Session, entry: journal.Entry) -> Any:
    row = session.row("journal_last", record=entry.record, kind=entry.kind, before=entry.seq)
    if row is None and find_compaction_time(session, entry) is not None:
        raise HistoryCompacted(
            f"Change {entry.seq} cannot be undone: the state before it was compacted.", change=entry.seq
        )
    if row is None:
        return None
    earlier = _redact_entry(ctx, session, journal.Entry(*row))
    if earlier.body is None:
        raise NotFound("The change cannot be undone: the state before it is no longer readable.")
    return body_of(KINDS[entry.kind], earlier)


def _check_untouched(entry: journal.Entry, touched: list[str], then: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise if a later change set one of the same fields."""
    differing = [name for name in touched if canonical_json(now.get(name)) != canonical_json(then.get(name))]
    if differing:
        raise ChangedSince(
            f"Since change {entry.seq}, {', '.join(differing)} changed again: undo the later change first.",
            change=entry.seq,
            fields=differing,
        )


def _restore_fields(kind: Kind[Any], record: Any, before: Any, touched: list[str]) -> Any:
    """Return the record with the touched fields restored to their earlier values."""
    values = {field: getattr(before, field) for field in {name.split(":", 1)[0] for name in touched}}
    for field in values.keys() & {*kind.merge_schema.set_fields, *kind.merge_schema.map_fields}:
        elements = {name.split(":", 1)[1] for name in touched if name.startswith(field + ":")}
        values[field] = _restore_elements(getattr(record, field), getattr(before, field), elements)
    return replace(record, **values)


def _restore_elements(now: Any, before: Any, touched: set[str]) -> Any:
    """Restore the touched elements of a set or map, keep the others; the earlier order wins."""
    there = {item for item in before if item in touched} | {item for item in now if item not in touched}
    order = [item for item in dict.fromkeys((*before, *now)) if item in there]
    if isinstance(now, dict):
        return {key: before[key] if key in touched else now[key] for key in order}
    return tuple(order)


def verify(ctx: Context, session: Session, witness: str | None = None) -> list[verify_chain.JournalFault]:
    """List journal breaks, and rows that differ from their journal entry."""
    found = list(verify_chain.verify_chain(session, ctx.store.public_key(session)))
    if witness is not None:
        seq, hash = witness.split(":")
        row = session.row("journal_one", seq=int(seq))
        if row is None and is_compacted(session, int(seq)):
            found.append(
                verify_chain.JournalFault(int(seq), "the entry was compacted: an earlier witness cannot be checked")
            )
        elif row is None or journal.Entry(*row).hash.hex() != hash:
            found.append(verify_chain.JournalFault(int(seq), "the journal does not match the witness"))
    return [*found, *journal_verify.find_altered_records(session), *journal_verify.find_damage(session)]
