"""Read and write complete records of local tables, for exports and imports."""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import asdict

from holdfast.features.runs import store as runs
from holdfast.features.runs.phases import Phase
from holdfast.features.transfer.local_table_rows import Kept, Ledger
from holdfast.kernel.storage.copy_tables import Table
from holdfast.kernel.storage.port import Row, Session

OBJECTS = frozenset({"payload", "inputs", "counts"})
"""Columns that contain JSON."""
FLAGS = frozenset({"final", "pruned", "cancel_asked"})


def every(session: Session, ledger: Ledger) -> Iterator[Kept]:
    """All records by key, read a page at a time."""
    table = _table(ledger)
    return (_loaded(session, table, row) for page in table.pages(session) for row in page)


def get(session: Session, ledger: Ledger, key: Row) -> Kept | None:
    table = _table(ledger)
    row = table.row(session, key)
    return None if row is None else _loaded(session, table, row)


def put(session: Session, ledger: Ledger, kept: Kept) -> None:
    """Insert or replace a complete record."""
    table = _table(ledger)
    table.put(session, [tuple(_stored(name, kept[name]) for name in table.columns)])
    if table.name == "run":
        session.do("run_phases_drop", run=kept["id"])
        for phase in kept["phases"]:
            runs.put_phase(session, kept["id"], Phase(**phase))


def final_run(session: Session, task: str, due_at: int) -> str | None:
    """The run that ended an occurrence of a task."""
    row = session.row("task_run_final", task=task, due_at=due_at)
    return row[0] if row else None


def _table(ledger: Ledger) -> Table:
    return Table(ledger.table, ledger.columns, ledger.key)


def _loaded(session: Session, table: Table, row: Row) -> Kept:
    record = {name: _read(name, value) for name, value in zip(table.columns, row, strict=True)}
    if table.name == "run":
        record["phases"] = [asdict(phase) for phase in runs.phases(session, record["id"])]
    return record


def _read(name: str, value: Any) -> Any:
    if name in OBJECTS:
        return msgspec.json.decode(value)
    return bool(value) if name in FLAGS else value


def _stored(name: str, value: Any) -> Any:
    if name in OBJECTS:
        return msgspec.json.encode(value).decode()
    return int(value) if name in FLAGS else value
