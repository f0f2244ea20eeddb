"""State of an import: ids, namespaces, stored memories, and what was imported so far."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from holdfast.features.importers.model import MAX_PART_BYTES, digest, split_text
from holdfast.features.memories.lifecycle import archive_memory
from holdfast.features.memories.store_memory import store_draft
from holdfast.integrations.kernex.import_report import Report
from holdfast.integrations.kernex.rows import Row, project_namespace
from holdfast.kernel.context import Context
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.validate import Draft
from holdfast.kernel.records.validate import namespace as admit_namespace
from holdfast.kernel.storage.read_only_sqlite import SqliteReader
from holdfast.kernel.timestamps import derive_id


class Options(NamedTuple):
    namespace: str
    dry_run: bool = False


class ImportState:
    """State of the import of one file."""

    def __init__(self, ctx: Context, file: SqliteReader, options: Options) -> None:
        self.report = Report()
        self.ctx = ctx
        self.file = file
        self.options = options
        self.first_places: dict[int, int] = {}
        """First place of each message in its conversation, by row number."""
        self.turn_counts: Counter[str] = Counter()
        """Number of turns per conversation."""
        self.conversations: dict[str, Row] = {}
        self.phases: dict[str, list[str]] = {}
        """Phases of each run, in start order."""
        self.tasks: set[str] = set()
        self.seen_runs: set[tuple[str, int]] = set()

    def read_rows(self, table: str) -> Iterator[tuple[int, dict[str, Any] | None]]:
        for number, values in self.file.rows(table):
            self.ctx.progress.check()
            yield number, values

    def row_key(self, row: Row) -> str:
        """Return the key that identifies a row; serial numbers are not unique across files, so the digest is used."""
        own = row.values.get("id") or row.values.get("alias_sender_id")
        named = row.digest if isinstance(own, int) else str(own)
        return digest("kernex", self.options.namespace, row.table, named)

    def row_id(self, row: Row) -> str:
        return derive_id("kernex", self.row_key(row))

    def namespace_of(self, row: Row) -> str:
        return admit_namespace(project_namespace(self.options.namespace, row.text("project", "")), "project")

    def store_memory(
        self,
        write: Transaction,
        title: str,
        content: str,
        namespace: str,
        *,
        on_conflict: Literal["error", "version"] = "version",
        **more: Any,
    ) -> Memory:
        draft = Draft(title=title, content=content, namespace=namespace, tier="long", source="import", **more)
        return store_draft(self.ctx, write, draft, on_conflict, force=True).memory

    def archive_if_deleted(self, write: Transaction, memory: Memory, gone: int | None, why: str) -> str:
        """Archive a memory that was deleted in kernex; it can be restored."""
        return memory.id if gone is None else archive_memory(write, memory, why, "archive").id

    def shorten(self, row: Row, name: str, most: int = MAX_PART_BYTES) -> str | None:
        """Return a text, cut to its first part if it is too long; a cut is reported."""
        text = row.optional_text(name)
        first = next(split_text(text, most), None) if text else None
        if text and first and first.text != text:
            self.report.add_problem(row.where, f"{name}: too long, only its first part is stored", rejected=False)
        return first.text if first else None
