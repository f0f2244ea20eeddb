"""Import a kernex store: each table becomes the matching records here; rows that cannot are reported."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.features.importers import store as import_records
from holdfast.features.importers.store import IMPORT_RECORDS, ImportRecord
from holdfast.integrations.kernex import import_activity, import_conversations, import_knowledge, import_tasks
from holdfast.integrations.kernex.import_report import Report, RowSkipped
from holdfast.integrations.kernex.import_state import ImportState, Options
from holdfast.integrations.kernex.rows import Row, check_is_kernex, is_internal_table
from holdfast.kernel.context import Context
from holdfast.kernel.errors import HoldfastError, StoreError, TitleTaken
from holdfast.kernel.journal.dry_run import open_dry_run
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.storage.read_only_sqlite import SqliteReader, open_read_only

BATCH = 200
"""Rows per transaction."""
RowImporter = Callable[[ImportState, Transaction, Row], str | None]
"""Store a row and return its new id; None if it already exists here."""


def import_file(ctx: Context, path: Path, options: Options) -> Report:
    """Import a file; a repeated import adds only what is new. A dry run is rolled back."""
    ctx.caller.require_access(options.namespace)
    with open_read_only(path) as file:
        check_is_kernex(file, path.name)
        if not options.dry_run:
            return KernexImporter(ctx, file, options).import_tables()
        with open_dry_run(ctx) as tried:
            return KernexImporter(tried, file, options).import_tables()


class KernexImporter:
    """The import of one file."""

    def __init__(self, ctx: Context, file: SqliteReader, options: Options) -> None:
        self._state = ImportState(ctx, file, options)

    def import_tables(self) -> Report:
        import_conversations.order_messages(self._state)
        import_tasks.order_phases(self._state)
        each: dict[str, RowImporter] = {
            "user_aliases": import_activity.import_alias,
            "conversations": import_conversations.import_conversation,
            "messages": import_conversations.import_message,
            "facts": import_knowledge.import_fact,
            "observations": import_knowledge.import_observation,
            "outcomes": import_knowledge.import_outcome,
            "lessons": import_knowledge.import_lesson,
            "limitations": import_knowledge.import_limitation,
            "scheduled_tasks": import_tasks.import_task,
            "task_runs": import_tasks.import_task_run,
            "project_sessions": import_activity.import_session,
            "token_usage": import_activity.import_usage,
            "phase_checkpoints": import_tasks.import_checkpoint,
            "audit_log": import_activity.import_interaction,
        }
        for table, keep in each.items():
            if table in self._state.file.tables:
                self._import_table(table, keep)
        self._report_unknown_tables(set(each))
        return self._state.report

    def _report_unknown_tables(self, known: set[str]) -> None:
        for table in sorted(set(self._state.file.tables) - known):
            number = (
                0 if is_internal_table(table, self._state.file.tables) else sum(1 for _ in self._state.file.rows(table))
            )
            if number:
                self._state.report.count_rows(table, "left_out", number)
                self._state.report.add_reason(table, "not a kernex table", number)

    def _import_table(self, table: str, keep: RowImporter) -> None:
        rows = self._state.read_rows(table)
        while batch := list(islice(rows, BATCH)):
            self._import_batch(table, batch, keep)

    def _import_batch(self, table: str, batch: list[tuple[int, dict[str, Any] | None]], keep: RowImporter) -> None:
        """Import some rows in one transaction; an invalid row does not affect the others."""
        given = [Row(table, number, values) for number, values in batch if values is not None]
        for number, values in batch:
            if values is None:
                self._reject(table, f"{table} row {number}", "not UTF-8")
        with self._state.ctx.transaction() as write:
            known = import_records.find_records(write.session, [self._state.row_key(row) for row in given])
            noted: list[ImportRecord] = []
            for row in given:
                self._import_row(write, row, known.get(self._state.row_key(row)), noted, keep)
            IMPORT_RECORDS.put_many(write.session, noted)

    def _import_row(
        self, write: Transaction, row: Row, known: ImportRecord | None, noted: list[ImportRecord], keep: RowImporter
    ) -> None:
        try:
            if known is not None and (known.digest == row.digest or row.table != "conversations"):
                self._count_known(row, known)
                return
            became = keep(self._state, write, row)
        except StoreError:
            raise
        except RowSkipped as left:
            self._state.report.count_rows(row.table, left.result)
            self._state.report.add_reason(row.table, left.why)
            if left.result == "left":
                noted.append(self._build_record(row, ""))
        except TitleTaken as error:
            self._state.report.count_rows(row.table, "left")
            self._state.report.add_problem(row.where, error.message, rejected=False)
        except HoldfastError as error:
            self._reject(row.table, row.where, error.message)
        else:
            new = became is not None and known is None
            self._state.report.count_rows(row.table, "stored" if new else "unchanged")
            noted.append(self._build_record(row, became or ""))

    def _build_record(self, row: Row, memory: str) -> ImportRecord:
        key = self._state.row_key(row)
        return ImportRecord(key=key, memory=memory, route="mine", digest=row.digest, text_digest="")

    def _count_known(self, row: Row, known: ImportRecord) -> None:
        """Count a row that was imported before; later changes in kernex are not applied."""
        if row.table == "scheduled_tasks":
            self._state.tasks.add(known.memory)
        if row.table == "conversations":
            self._state.conversations[row.text("id")] = row
        if known.digest == row.digest:
            self._state.report.count_rows(row.table, "unchanged")
        else:
            self._state.report.count_rows(row.table, "left")
            self._state.report.add_reason(row.table, "changed in kernex since its import; not changed here")

    def _reject(self, table: str, where: str, why: str) -> None:
        self._state.report.count_rows(table, "rejected")
        self._state.report.add_reason(table, why)
        self._state.report.add_problem(where, why, rejected=True)
