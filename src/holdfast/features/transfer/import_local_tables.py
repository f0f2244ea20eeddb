"""Import records of local tables. Each is written completely, never over a live lease."""

from collections.abc import Callable
from typing import NamedTuple

from holdfast.features.conversations.store import CONVERSATIONS
from holdfast.features.tasks.store import TASKS
from holdfast.features.transfer import local_tables
from holdfast.features.transfer.local_table_schema import LOCAL_TABLES, LocalRecord, LocalTable
from holdfast.features.transfer.model import Options, Outcome
from holdfast.features.usage import store as usage
from holdfast.kernel.context import RESERVED_AGENTS, Context, validate_agent_id
from holdfast.kernel.errors import Conflict, Forbidden, NotFound
from holdfast.kernel.records import validate
from holdfast.kernel.storage.port import Session


class LocalImport(NamedTuple):
    """State of one import, as far as local tables need it."""

    ctx: Context
    session: Session
    now: int
    options: Options
    map_memory: Callable[[str], str]
    """Maps a memory id of the file to the id here."""
    require_memory: Callable[[str, str], str]
    """The same for a memory that must exist; takes the field name for the error."""


def prepare_record(local_import: LocalImport, table: LocalTable, record: LocalRecord) -> LocalRecord:
    """Check the namespace of a record and set its author."""
    return _set_author(local_import, table, _check_namespace(local_import, table, record))


def import_record(local_import: LocalImport, table: LocalTable, record: LocalRecord) -> Outcome:
    """Add a record, or replace an older state of it. Raises before anything is written."""
    stored = local_tables.get_record(local_import.session, table, table.get_key(record))
    if stored is None:
        _must_be_trusted(local_import, record)
        local_tables.put_record(local_import.session, table, _avoid_clash(local_import, table, record))
        return "imported"
    if not local_import.options.trust_source and table.author_column is not None:
        record = {**record, table.author_column: stored[table.author_column]}
    return _replace_older(local_import, table, table.unclaim(stored), stored, record)


def _must_be_trusted(local_import: LocalImport, record: LocalRecord) -> None:
    if not local_import.options.trust_source and record.get("handler", "none") != "none":
        raise Forbidden("handler: tasks with a handler are imported from a trusted source only.")


def _replace_older(
    local_import: LocalImport, table: LocalTable, unclaimed: LocalRecord, stored: LocalRecord, record: LocalRecord
) -> Outcome:
    """Keep the later of two states of a record."""
    if unclaimed == record:
        return "unchanged"
    if any(unclaimed[name] != record[name] for name in record if name not in table.mutable):
        raise _make_conflict(table, "but it is a different record")
    if table.rank(record) <= table.rank(unclaimed):
        return "older"
    if _has_lease(stored, local_import.now):
        raise Conflict(f"A record of {table.array} has a live lease here: import it again later.", retryable=True)
    if local_import.options.on_conflict == "error":
        raise _make_conflict(table, "with other contents")
    _must_be_trusted(local_import, record)
    local_tables.put_record(local_import.session, table, _avoid_clash(local_import, table, record))
    return "merged"


def _make_conflict(table: LocalTable, why: str) -> Conflict:
    return Conflict(f"A record of {table.array} with this key exists, {why}. Nothing was changed.")


def _has_lease(stored: LocalRecord, now: int) -> bool:
    return stored.get("state") == "running" and ("lease_until" not in stored or (stored["lease_until"] or 0) > now)


def _check_namespace(local_import: LocalImport, table: LocalTable, record: LocalRecord) -> LocalRecord:
    """Check that the importer can write here; map memory ids to those of this store."""
    caller = local_import.ctx.caller
    if table.has_namespace:
        record = {**record, "namespace": validate.namespace(record["namespace"])}
        caller.require_access(record["namespace"])
    elif table is LOCAL_TABLES["task_runs"]:
        task = local_tables.get_record(local_import.session, LOCAL_TABLES["tasks"], (record["task"],))
        if task is None or not caller.can_access(task["namespace"]):
            raise NotFound(f"task: there is no task {record['task']!r}.", id=record["task"], fields=["task"])
    elif "*" not in caller.namespaces and not table.requires_memory:
        raise Forbidden(f"{table.array}: importing requires a key for all namespaces.")
    if table.memory_column is not None and record[table.memory_column]:
        id = record[table.memory_column]
        record = {
            **record,
            table.memory_column: local_import.require_memory(id, table.memory_column)
            if table.requires_memory
            else local_import.map_memory(id),
        }
    return record


def _set_author(local_import: LocalImport, table: LocalTable, record: LocalRecord) -> LocalRecord:
    """Set the author: from the file if it is trusted, else the importer."""
    if table.author_column is None:
        return record
    author = record[table.author_column]
    trusted_author = author if author in RESERVED_AGENTS else validate_agent_id(author, table.author_column)
    return {
        **record,
        table.author_column: trusted_author if local_import.options.trust_source else local_import.ctx.caller.agent,
    }


def _avoid_clash(local_import: LocalImport, table: LocalTable, record: LocalRecord) -> LocalRecord:
    """Avoid clashes with other records: close a second active conversation, reject a taken unique key."""
    session = local_import.session
    match table.array:
        case "conversations" if record["state"] == "active":
            scope = {
                "channel": record["channel"],
                "namespace": record["namespace"],
                "principals": [record["principal"]],
            }
            parts = ("conversation.of_principal", "conversation.channel", "conversation.in", "conversation.active")
            others = [one for one in CONVERSATIONS.select(session, parts, scope) if one.id != record["id"]]
            return {**record, "state": "closing"} if others else record
        case "tasks" if record["unique_key"] is not None:
            params = {"principals": [record["principal"]], "unique_key": record["unique_key"]}
            found = TASKS.select(session, ("task.of_principal", "task.by_unique_key"), params)
            _must_be_free("unique_key", found[0].id if found else None, record["id"])
        case "usage" if record["unique_key"] is not None:
            known = usage.find_by_key(session, record["agent"], record["unique_key"])
            _must_be_free("unique_key", known.id if known else None, record["id"])
        case "task_runs" if record["final"]:
            _must_be_free("final", local_tables.find_final_run(session, record["task"], record["due_at"]), record["id"])
    return record


def _must_be_free(field: str, holder: str | None, id: str) -> None:
    if holder not in (None, id):
        raise Conflict(f"{field}: already used by {holder}", id=holder, fields=[field])
