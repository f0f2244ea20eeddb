"""Read and write complete records of local tables, for exports and imports."""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import asdict

from holdfast.features.runs import store as runs
from holdfast.features.runs.phases import Phase
from holdfast.features.tasks.store import TASK_RUNS
from holdfast.features.transfer.local_table_schema import LocalRecord, LocalTable
from holdfast.kernel.storage.copy_tables import Table
from holdfast.kernel.storage.port import Row, Session

JSON_COLUMNS = frozenset({"payload", "inputs", "counts"})
"""Columns that contain JSON."""
BOOLEAN_COLUMNS = frozenset({"final", "pruned", "cancel_asked"})


def list_records(session: Session, local_table: LocalTable) -> Iterator[LocalRecord]:
    """All records by key, read a page at a time."""
    table = _make_table(local_table)
    return (_load_record(session, table, row) for page in table.pages(session) for row in page)


def get_record(session: Session, local_table: LocalTable, key: Row) -> LocalRecord | None:
    table = _make_table(local_table)
    row = table.row(session, key)
    return None if row is None else _load_record(session, table, row)


def put_record(session: Session, local_table: LocalTable, record: LocalRecord) -> None:
    """Insert or replace a complete record."""
    table = _make_table(local_table)
    table.put_rows(session, [tuple(_encode_value(name, record[name]) for name in table.columns)])
    if table.name == "run":
        for phase in runs.list_phases(session, record["id"]):
            runs.PHASES.delete(session, phase.run, phase.name)
        runs.PHASES.put_many(session, (Phase(run=record["id"], **phase) for phase in record["phases"]))


def find_final_run(session: Session, task: str, due_at: int) -> str | None:
    """The run that ended an occurrence of a task."""
    found = TASK_RUNS.select(session, ("task_run.ending",), {"task": task, "due_at": due_at})
    return found[0].id if found else None


def _make_table(local_table: LocalTable) -> Table:
    return Table(local_table.table, local_table.columns, local_table.key)


def _load_record(session: Session, table: Table, row: Row) -> LocalRecord:
    record = {name: _decode_value(name, value) for name, value in zip(table.columns, row, strict=True)}
    if table.name == "run":
        record["phases"] = [_without_run(asdict(phase)) for phase in runs.list_phases(session, record["id"])]
    return record


def _decode_value(name: str, value: Any) -> Any:
    if name in JSON_COLUMNS:
        return msgspec.json.decode(value)
    return bool(value) if name in BOOLEAN_COLUMNS else value


def _encode_value(name: str, value: Any) -> Any:
    if name in JSON_COLUMNS:
        return msgspec.json.encode(value).decode()
    return int(value) if name in BOOLEAN_COLUMNS else value


def _without_run(phase: LocalRecord) -> LocalRecord:
    return {name: value for name, value in phase.items() if name != "run"}
