"""Import a kernex store."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.features.importers.model import Problem
from holdfast.features.importers.operations import DryRun, LocalPath, must_be_local
from holdfast.integrations.kernex import service as kernex
from holdfast.integrations.kernex.import_report import Report
from holdfast.integrations.kernex.import_state import Options
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.errors import NotFound
from holdfast.kernel.local_files import local_path
from holdfast.kernel.registry.fields import Actor, Namespace
from holdfast.kernel.registry.operation import Effect, Example, Request, operation


class ImportKernex(Request, frozen=True):
    path: Annotated[LocalPath, Meta(description="The kernex database, such as ~/.kernex/memory.db.")]
    namespace: Annotated[Namespace, Meta(description="Target namespace; projects go below it.")] = "kernex"
    dry_run: DryRun = False
    agent_id: Actor | None = None


class TableResult(Struct, frozen=True, kw_only=True):
    """Results for the rows of a table."""

    table: str
    rows: int
    stored: int
    unchanged: int
    """Already imported."""
    left: int
    """Changed since an earlier import, here or there; not changed here."""
    left_out: int
    rejected: int
    reasons: dict[str, int]
    """Number of rows not imported, or only in part, by reason."""


class KernexImportResult(Struct, frozen=True, kw_only=True):
    namespace: str
    tables: list[TableResult]
    stored: int
    rejected: int
    noted: int
    problems: list[Problem]
    dry_run: bool


@operation(
    Effect.WRITE,
    "POST /api/v1/import/kernex",
    cli=("import", "kernex"),
    aliases=("import-kernex",),
    stage="store",
    surfaces=("library", "cli"),
    admin=True,
    human="holdfast.integrations.kernex.render:render_kernex_import",
    examples=(
        Example({"path": "no-such-memory.db"}, error="NOT_FOUND"),
        Example({"path": "kernex.db", "dry_run": True}, prepared=True),
        Example({"path": "kernex.db", "namespace": "kernex"}, prepared=True),
    ),
)
def import_kernex(ctx: Context, request: ImportKernex, progress: Progress) -> KernexImportResult:
    """Import a kernex store: conversations, facts, lessons, tasks, usage and more.

    The file is only read. A repeated import adds what is new. A row that cannot be imported is reported; the others
    are imported.
    """
    must_be_local(ctx, "path")
    path = local_path(request.path)
    if not path.is_file():
        raise NotFound(f"There is no file {path}.", fields=["path"])
    report = kernex.import_file(ctx, path, Options(request.namespace, request.dry_run))
    tables = [_table_result(name, report) for name in report.tables]
    return KernexImportResult(
        namespace=request.namespace,
        tables=tables,
        stored=sum(one.stored for one in tables),
        rejected=report.rejected,
        noted=report.noted,
        problems=report.problems,
        dry_run=request.dry_run,
    )


def _table_result(name: str, report: "Report") -> TableResult:
    counts = report.tables[name]
    return TableResult(
        table=name,
        rows=counts.total(),
        stored=counts["stored"],
        unchanged=counts["unchanged"],
        left=counts["left"],
        left_out=counts["left_out"],
        rejected=counts["rejected"],
        reasons=dict(report.reasons.get(name, {})),
    )
