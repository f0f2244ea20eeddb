"""Rebuild the field versions of a record from its journal."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.kernel.clock import STATE, Stamp
from holdfast.kernel.journal import checkpoint as floors
from holdfast.kernel.journal.journal import Entry
from holdfast.kernel.journal.kinds import Kind
from holdfast.kernel.journal.transaction import body_of
from holdfast.kernel.records import field_versions as cells
from holdfast.kernel.records.merge import Cell, filled, join
from holdfast.kernel.storage.port import Session


class Said(NamedTuple):
    """A journal entry, and its author's original body if the entry does not contain it verbatim."""

    entry: Entry
    said: str | None


class Replayed(NamedTuple):
    cells: dict[str, Cell]
    whole: bool
    """Whether no input was purged."""


def changes_of(session: Session, kind: str, record: str) -> list[Said]:
    return [Said(Entry(*row[:-1]), row[-1]) for row in session.rows("journal_said", record=record, kind=kind)]


def replayed(session: Session, kind: Kind[Any], changes: Sequence[Said]) -> Replayed:
    """Merge the changes of a record, on top of its compacted state."""
    first = changes[0].entry
    folded = floors.folding_of(session, kind.name, first.record)
    own, above = since_folded(folded, kind, changes)
    shows: dict[str, Any] = {}
    if folded is None and first.body is not None and first.origin != STATE:
        shows = cells.flatten(kind.shape, body_of(kind, first))
    made = cells.Cells(Stamp(first.at, first.origin), own)
    for change in above:
        for name, cell in written(kind, change).items():
            made.own[name] = join(made.cell(name, shows.get(name)), cell)
    whole = first.body is not None if folded is None else folded.cells is not None
    return Replayed(filled(cells.swept(kind.shape, made.all(shows))), whole)


def since_folded(
    folded: floors.Folding | None, kind: Kind[Any], changes: Sequence[Said]
) -> tuple[dict[str, Cell], Sequence[Said]]:
    """Return the compacted states of a record, and the changes after them."""
    if folded is None:
        return {}, changes
    above = [change for change in changes if change.entry.seq > folded.seq]
    stayed = next((change.entry for change in changes if change.entry.seq == folded.seq), None)
    if stayed is None:
        raise LookupError(f"The journal has no entry {folded.seq} of {folded.record}.")
    if folded.cells is None or stayed.body is None:
        return {}, above
    shows = cells.flatten(kind.shape, body_of(kind, stayed))
    return filled(cells.unpack(folded.cells.encode(), shows).all(shows)), above


def packed(kind: Kind[Any], stayed: Entry, made: Mapping[str, Cell]) -> str:
    """Encode states relative to an entry: the most common stamp once, the others in full."""
    shows = cells.flatten(kind.shape, body_of(kind, stayed))
    stamps = Counter(stamp for cell in made.values() for stamp in cell.values)
    base = max(stamps, key=lambda stamp: (stamps[stamp], stamp), default=Stamp(stayed.at, stayed.origin))
    return cells.pack(cells.least(cells.Cells(base, dict(made)), shows), shows).decode()


def written(kind: Kind[Any], change: Said) -> dict[str, Cell]:
    """Return the field states that a change wrote."""
    entry = change.entry
    if entry.delta is not None:
        return cells.decode(entry.delta.encode())
    words = change.said or entry.body
    if words is None:
        return {}
    raw = msgspec.json.decode(words)
    record = msgspec.convert(raw, kind.type)
    unknown = {name: value for name, value in raw.items() if name not in record.__struct_fields__}
    return cells.made(kind.shape, record, Stamp(entry.at, entry.origin), unknown)
