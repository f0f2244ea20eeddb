"""Operations that export and import a store."""

from typing import Annotated, Any, NotRequired, TypedDict, cast

from msgspec import Meta, Struct

from holdfast.features.memories.operations.core import OnConflictField
from holdfast.features.sync.operations.sync import BundlePath
from holdfast.features.transfer import exporter, importer
from holdfast.features.transfer.files import ExportFileResult, read_export, write_export
from holdfast.features.transfer.import_state import Options
from holdfast.features.transfer.importer import OUTCOMES, ImportReport
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.registry.fields import Namespace
from holdfast.kernel.registry.operation import Effect, Example, Request, operation


class Export(Request, frozen=True):
    namespace: Annotated[Namespace, Meta(description="Only this namespace and those below it.")] | None = None
    simple: Annotated[bool, Meta(description="Only live memories and the links between them.")] = False


class Envelope(TypedDict):
    """v1 envelope. Fields of other programs are included under their own names."""

    memories: list[dict[str, Any]]
    links: list[dict[str, Any]]
    exported_at: str
    schema_version: NotRequired[str]
    source: NotRequired[str]
    db_schema_version: NotRequired[int]
    archived: NotRequired[list[dict[str, Any]]]
    agents: NotRequired[list[dict[str, Any]]]
    entities: NotRequired[list[dict[str, Any]]]
    namespaces: NotRequired[list[dict[str, Any]]]
    grants: NotRequired[list[dict[str, Any]]]
    notices: NotRequired[list[dict[str, Any]]]
    policies: NotRequired[list[dict[str, Any]]]
    invalidations: NotRequired[list[dict[str, Any]]]
    skill_versions: NotRequired[list[dict[str, Any]]]
    skills: NotRequired[list[dict[str, Any]]]
    principals: NotRequired[list[dict[str, Any]]]
    interactions: NotRequired[list[dict[str, Any]]]
    conversations: NotRequired[list[dict[str, Any]]]
    outcomes: NotRequired[list[dict[str, Any]]]
    tasks: NotRequired[list[dict[str, Any]]]
    task_runs: NotRequired[list[dict[str, Any]]]
    usage: NotRequired[list[dict[str, Any]]]
    prices: NotRequired[list[dict[str, Any]]]
    budgets: NotRequired[list[dict[str, Any]]]
    runs: NotRequired[list[dict[str, Any]]]
    provider_sessions: NotRequired[list[dict[str, Any]]]
    onboarding: NotRequired[list[dict[str, Any]]]
    forgotten: NotRequired[list[dict[str, Any]]]
    mined: NotRequired[list[dict[str, Any]]]
    feedback: NotRequired[list[dict[str, Any]]]
    count: NotRequired[int]


@operation(
    Effect.READ,
    "GET /api/v1/export",
    admin=True,
    human="holdfast.kernel.terminal:render_json",
    examples=(
        Example({}),
        Example({"simple": True}),
        Example({"namespace": "not/a//namespace"}, error="VALIDATION_FAILED"),
        Example({"namespace": "shop"}, prepared=True),
    ),
)
def export(ctx: Context, request: Export, progress: Progress) -> Envelope:
    """Export the store as JSON (ai-memory v1 format), private memories included."""
    with ctx.reading() as session:
        envelope = exporter.export_envelope(ctx, session, request.namespace)
    return cast(Envelope, exporter.simplify(envelope) if request.simple else envelope)


KeepTimes = Annotated[bool, Meta(description="Keep times and versions of the file.")]
TrustSource = Annotated[
    bool, Meta(description="Keep owners, grants and messages of the file; otherwise memories become yours.")
]
DryRun = Annotated[bool, Meta(description="Report what would happen, write nothing.")]


class Import(Request, frozen=True):
    envelope: Annotated[dict[str, Any], Meta(description="Output of export: a v1 envelope, or {memories, links}.")]
    preserve_timestamps: KeepTimes = True
    trust_source: TrustSource = True
    on_conflict: OnConflictField = "merge"
    dry_run: DryRun = False


class ImportCounts(Struct, frozen=True, kw_only=True):
    imported: int
    merged: int
    unchanged: int
    older: int
    """Skipped: a later state exists here."""


class RowError(Struct, frozen=True, kw_only=True):
    array: str
    index: int
    error: str
    code: str


class ImportResult(ImportCounts, frozen=True, kw_only=True):
    """Counts of memories, and of each array by name."""

    rejected: int
    errors: list[RowError]
    restamped: int
    """Memories whose owner became the importer."""
    trusted_source: bool
    kept: list[str]
    """Unknown fields: stored, and written again by an export."""
    arrays: dict[str, ImportCounts]
    dry_run: bool


_SMALL_ENVELOPE = {"memories": [{"id": "m-1", "title": "Deploy day", "content": "We deploy on Tuesdays."}]}


@operation(
    Effect.WRITE,
    "POST /api/v1/import",
    name="import",
    stage="store",
    admin=True,
    whole="envelope",
    human="holdfast.features.transfer.render:render_import",
    examples=(
        Example(
            {
                "envelope": {
                    "memories": [
                        {"id": "m-1", "title": "From elsewhere", "content": "It came by file.", "tier": "long"},
                        {"id": "m-2", "title": "Empty", "content": " "},
                    ],
                    "links": [{"source_id": "m-1", "target_id": "m-1", "relation": "related_to"}],
                }
            }
        ),
        Example({"envelope": {"schema_version": "v2", "memories": []}}, error="VALIDATION_FAILED"),
        Example({"envelope": {"links": []}}, error="VALIDATION_FAILED"),
        Example({"envelope": _SMALL_ENVELOPE}, prepared=True),
        Example({"envelope": _SMALL_ENVELOPE, "dry_run": True}, prepared=True),
    ),
)
def import_(ctx: Context, request: Import, progress: Progress) -> ImportResult:
    """Import an export in one transaction; rejected rows are reported.

    Importing the same export again changes nothing. Of two states of a record the later one is kept.
    """
    report = importer.import_envelope(ctx, request.envelope, _options(request), dry_run=request.dry_run)
    return _build_result(request, report, len(report.rejected))


def _options(request: "Import | ImportFile") -> Options:
    return Options(
        preserve_timestamps=request.preserve_timestamps,
        trust_source=request.trust_source,
        on_conflict=request.on_conflict,
    )


def _build_result(request: "Import | ImportFile", report: ImportReport, rejected_count: int) -> ImportResult:
    memories = [report.counts[name] for name in ("memories", "archived") if name in report.counts]
    return ImportResult(
        **{name: sum(counts[name] for counts in memories) for name in OUTCOMES},
        rejected=rejected_count,
        errors=[
            RowError(array=one.array, index=one.index, error=one.error.message, code=one.error.code)
            for one in report.rejected
        ],
        restamped=report.restamped,
        trusted_source=request.trust_source,
        kept=report.kept_fields,
        arrays={
            name: ImportCounts(**{outcome: counts[outcome] for outcome in OUTCOMES})
            for name, counts in report.counts.items()
        },
        dry_run=request.dry_run,
    )


class ExportFile(Request, frozen=True):
    file: BundlePath
    namespace: Annotated[Namespace, Meta(description="Only this namespace and those below it.")] | None = None


@operation(
    Effect.READ,
    "POST /api/v1/export/file",
    cli=("export", "file"),
    aliases=("export-file",),
    admin=True,
    surfaces=("library", "cli"),
    human="holdfast.features.transfer.render:render_export",
    examples=(
        Example({"file": "no/such/folder/all.json"}, error="STORE_UNREACHABLE"),
        Example({"file": "all.json", "namespace": "not/a//namespace"}, error="VALIDATION_FAILED"),
        Example({}, error="VALIDATION_FAILED"),
        Example({"file": "store.json"}, prepared=True),
        Example({"file": "shop.json", "namespace": "shop"}, prepared=True),
    ),
)
def export_file(ctx: Context, request: ExportFile, progress: Progress) -> ExportFileResult:
    """Export a store of any size to a JSON file, row by row.

    The file is readable by its owner only and appears when it is complete.
    """
    return write_export(ctx, request.file, request.namespace)


class ImportFile(Request, frozen=True):
    file: BundlePath
    preserve_timestamps: KeepTimes = True
    trust_source: TrustSource = True
    on_conflict: OnConflictField = "merge"
    dry_run: DryRun = False


@operation(
    Effect.WRITE,
    "POST /api/v1/import/file",
    cli=("import", "file"),
    aliases=("import-file",),
    stage="store",
    admin=True,
    surfaces=("library", "cli"),
    human="holdfast.features.transfer.render:render_import",
    examples=(
        Example({"file": "no/such.json"}, error="VALIDATION_FAILED"),
        Example({}, error="VALIDATION_FAILED"),
        Example({"file": "store.json", "dry_run": True}, prepared=True),
        Example({"file": "store.json"}, prepared=True),
    ),
)
def import_file(ctx: Context, request: ImportFile, progress: Progress) -> ImportResult:
    """Import an export file of any size, in batches.

    The file is read completely first. Each batch is durable before the next: repeat an interrupted import to continue.
    """
    result = read_export(ctx, request.file, _options(request), dry_run=request.dry_run)
    return _build_result(request, result.report, result.rejected_count)
