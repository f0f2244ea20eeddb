"""Import records of local tables. Each is written completely, never over a live lease."""

from typing import Any

from msgspec.structs import replace

from holdfast.features.transfer.import_state import ImportState
from holdfast.features.transfer.local_table_rows import LocalRecord, RowFormat
from holdfast.features.transfer.model import Outcome
from holdfast.kernel.context import RESERVED_AGENTS, validate_agent_id
from holdfast.kernel.errors import Conflict, Forbidden, NotFound
from holdfast.kernel.records import validate
from holdfast.kernel.records.fields import Mark


def import_local_row(state: ImportState, raw: Any, format: RowFormat) -> Outcome:
    """Add a record, or replace an older state of it. Raises before anything is written. These are not journalled."""
    row, rest = state.read_row(format.row_type, raw)
    local = format.from_row(row)
    record = _set_author(state, format, _map_memories(state, format, _check_namespace(state, format, local.record)))
    outcome = _import_record(state, format, local._replace(record=record))
    return state.keep_extras(format.export.array, format.row_id(record), rest, outcome)


def _import_record(state: ImportState, format: RowFormat, local: LocalRecord) -> Outcome:
    stored = format.get(state.write.session, local.record)
    if stored is None:
        _put(state, format, local)
        return "imported"
    author = format.author_column
    if not state.options.trust_source and author is not None:
        local = local._replace(record=replace(local.record, **{author: getattr(stored.record, author)}))
    return _replace_older(state, format, stored, local)


def _replace_older(state: ImportState, format: RowFormat, stored: LocalRecord, local: LocalRecord) -> Outcome:
    """Keep the later of two states of a record."""
    free, table, export = format.release(stored), format.table, format.export
    if free == local:
        return "unchanged"
    fixed = (name for name in table.columns if name not in table.mutable)
    if any(getattr(free.record, name) != getattr(local.record, name) for name in fixed):
        raise _make_conflict(format, "but it is a different record")
    if export.latest(local.record) <= export.latest(free.record):
        return "older"
    if export.is_leased(stored.record, state.write.now):
        raise Conflict(f"A record of {export.array} has a live lease here: import it again later.", retryable=True)
    if state.options.on_conflict == "error":
        raise _make_conflict(format, "with other contents")
    _put(state, format, local)
    return "merged"


def _put(state: ImportState, format: RowFormat, local: LocalRecord) -> None:
    session = state.write.session
    record = format.export.admit(session, local.record, state.options.trust_source)
    format.put(session, local._replace(record=record))


def _make_conflict(format: RowFormat, why: str) -> Conflict:
    return Conflict(f"A record of {format.export.array} with this key exists, {why}. Nothing was changed.")


def _check_namespace(state: ImportState, format: RowFormat, record: Any) -> Any:
    """Check that the importer can write here: by the namespace of the record, or of the one it belongs to."""
    caller, table = state.ctx.caller, format.table
    if format.has_namespace:
        record = replace(record, namespace=validate.namespace(record.namespace))
        caller.require_access(record.namespace)
    elif table.parent is not None:
        parent, column = table.parent
        owner = parent.get(state.write.session, id := getattr(record, column))
        if owner is None or not caller.can_access(owner.namespace):
            raise NotFound(f"{column}: there is no {parent.name} {id!r}.", id=id, fields=[column])
    elif "*" not in caller.namespaces and not table.memories:
        raise Forbidden(f"{format.export.array}: importing requires a key for all namespaces.")
    return record


def _map_memories(state: ImportState, format: RowFormat, record: Any) -> Any:
    """Map memory ids of the file to those of this store. A memory that the record belongs to must exist."""
    for column in format.table.has_mark(Mark.MEMORY):
        if id := getattr(record, column):
            is_owner = column in format.table.memories
            here = state.resolve_memory(id, column) if is_owner else state.merged_ids.get(id, id)
            record = replace(record, **{column: here})
    return record


def _set_author(state: ImportState, format: RowFormat, record: Any) -> Any:
    """Set the author: from the file if it is trusted, else the importer."""
    column = format.author_column
    if column is None:
        return record
    author = getattr(record, column)
    trusted_author = author if author in RESERVED_AGENTS else validate_agent_id(author, column)
    return replace(record, **{column: trusted_author if state.options.trust_source else state.ctx.caller.agent})
