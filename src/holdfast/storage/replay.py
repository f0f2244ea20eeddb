"""A record's cells, made again from its journal."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from ..domain import cells
from ..domain.clock import STATE, Stamp
from ..domain.merge import Cell, filled, join
from . import floor as floors
from .journal import Entry
from .port import Session
from .records import Kind, body_of


class Said(NamedTuple):
    """An entry, and what its author said where the entry does not hold that word for word."""

    entry: Entry
    said: str | None


class Replayed(NamedTuple):
    cells: dict[str, Cell]
    whole: bool
    """Whether nothing of what it is made from was purged."""


def changes_of(session: Session, kind: str, record: str) -> list[Said]:
    return [Said(Entry(*row[:-1]), row[-1]) for row in session.rows("journal_said", record=record, kind=kind)]


def replayed(session: Session, kind: Kind[Any], changes: Sequence[Said]) -> Replayed:
    """What the changes of a record make together, on what was folded before."""
    record, first = changes[0].entry.record, changes[0].entry
    folded = session.row("folded_get", record=record, kind=kind.name)
    shows: dict[str, Any] = {}
    made = cells.Cells(Stamp(first.at, first.origin), {})
    if folded is not None:
        own, changes = since_folded(session, kind.name, record, changes)
        made.own.update(own)
    elif first.body is not None and first.origin != STATE:
        shows = cells.flatten(kind.shape, body_of(kind, first))
    for change in changes:
        for name, cell in written(kind, change).items():
            made.own[name] = join(made.cell(name, shows.get(name)), cell)
    whole = first.body is not None if folded is None else folded[0] is not None
    return Replayed(filled(cells.swept(kind.shape, made.all(shows))), whole)


def since_folded(
    session: Session, kind: str, record: str, changes: Sequence[Said]
) -> tuple[dict[str, Cell], Sequence[Said]]:
    """What was folded of a record, and the changes that are not in that."""
    folded = session.row("folded_get", record=record, kind=kind)
    if folded is None:
        return {}, changes
    above = [change for change in changes if not floors.gone(session, change.entry.seq)]
    return cells.decode(folded[0].encode()) if folded[0] is not None else {}, above


def written(kind: Kind[Any], change: Said) -> dict[str, Cell]:
    """The cells that a change wrote, as its author said it."""
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
