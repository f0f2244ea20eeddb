"""Rebuild the field versions of a record from its journal."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.kernel.journal.journal import CompactedRecord, Entry, get_compacted_record
from holdfast.kernel.journal.kinds import Kind, body_of
from holdfast.kernel.records import field_versions
from holdfast.kernel.records.merge import FieldState, drop_empty, join
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import RECORD_SNAPSHOT, Stamp


class ReplayChange(NamedTuple):
    """A journal entry, and its author's original body if the entry does not contain it verbatim."""

    entry: Entry
    original_body: str | None


class ReplayResult(NamedTuple):
    states: dict[str, FieldState]
    is_complete: bool
    """Whether no input was purged."""


def list_changes(session: Session, kind: str, record: str) -> list[ReplayChange]:
    return [
        ReplayChange(Entry(*row[:-1]), row[-1]) for row in session.rows("journal_changes", record=record, kind=kind)
    ]


def replay(session: Session, kind: Kind[Any], changes: Sequence[ReplayChange]) -> ReplayResult:
    """Merge the changes of a record, on top of its compacted state."""
    first = changes[0].entry
    folded = get_compacted_record(session, kind.name, first.record)
    own, above = split_compacted(folded, kind, changes)
    shows: dict[str, Any] = {}
    if folded is None and first.body is not None and first.origin != RECORD_SNAPSHOT:
        shows = field_versions.flatten(kind.merge_schema, body_of(kind, first))
    made = field_versions.FieldVersions(Stamp(first.at, first.origin), own)
    for change in above:
        for name, cell in decode_change(kind, change).items():
            made.own[name] = join(made.state_of(name, shows.get(name)), cell)
    whole = first.body is not None if folded is None else folded.field_versions is not None
    return ReplayResult(drop_empty(field_versions.drop_purged(kind.merge_schema, made.all_states(shows))), whole)


def split_compacted(
    compacted: CompactedRecord | None, kind: Kind[Any], changes: Sequence[ReplayChange]
) -> tuple[dict[str, FieldState], Sequence[ReplayChange]]:
    """Return the compacted states of a record, and the changes after them."""
    if compacted is None:
        return {}, changes
    above = [change for change in changes if change.entry.seq > compacted.seq]
    stayed = next((change.entry for change in changes if change.entry.seq == compacted.seq), None)
    if stayed is None:
        raise LookupError(f"The journal has no entry {compacted.seq} of {compacted.record}.")
    if compacted.field_versions is None or stayed.body is None:
        return {}, above
    shows = field_versions.flatten(kind.merge_schema, body_of(kind, stayed))
    return drop_empty(field_versions.unpack(compacted.field_versions.encode(), shows).all_states(shows)), above


def pack_compacted(kind: Kind[Any], stayed: Entry, states: Mapping[str, FieldState]) -> str:
    """Encode states relative to an entry: the most common stamp once, the others in full."""
    shows = field_versions.flatten(kind.merge_schema, body_of(kind, stayed))
    stamps = Counter(stamp for cell in states.values() for stamp in cell.values)
    base = max(stamps, key=lambda stamp: (stamps[stamp], stamp), default=Stamp(stayed.at, stayed.origin))
    return field_versions.pack(
        field_versions.minimize(field_versions.FieldVersions(base, dict(states)), shows), shows
    ).decode()


def decode_change(kind: Kind[Any], change: ReplayChange) -> dict[str, FieldState]:
    """Return the field states that a change wrote."""
    entry = change.entry
    if entry.delta is not None:
        return field_versions.decode_states(entry.delta.encode())
    words = change.original_body or entry.body
    if words is None:
        return {}
    raw = msgspec.json.decode(words)
    record = msgspec.convert(raw, kind.type)
    unknown = {name: value for name, value in raw.items() if name not in record.__struct_fields__}
    return field_versions.create_states(kind.merge_schema, record, Stamp(entry.at, entry.origin), unknown)
