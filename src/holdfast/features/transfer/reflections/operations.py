"""Operations: export and import reflections as Markdown."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from holdfast.features.memories.operations.core import OnConflictField
from holdfast.features.reflections.operations.reflect import MemoryId
from holdfast.features.transfer import importer
from holdfast.features.transfer.import_state import Options
from holdfast.features.transfer.reflections import files as reflection_files
from holdfast.features.transfer.reflections.files import file_path, render_file
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.registry.fields import Namespace, Timestamp
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.timestamps import parse_time

Folder = Annotated[str, Meta(min_length=1, max_length=4096, description="Path of a folder.", extra={"argument": True})]


class ExportReflection(Request, frozen=True):
    memory_id: MemoryId
    format: Annotated[Literal["md", "json"], Meta(description="md (Markdown) or json.")] = "md"


class ReflectionText(Struct, frozen=True, kw_only=True):
    content: str
    suggested_filename: str


@operation(
    Effect.READ,
    "GET /api/v1/reflections/{memory_id}/export",
    topic="reflections",
    cli=("reflect", "export"),
    aliases=("export-reflection",),
    human="holdfast.features.reflections.render:render_reflection_text",
    examples=(
        Example({"memory_id": "no-such-memory"}, error="NOT_FOUND"),
        Example({"memory_id": "one", "format": "pdf"}, error="VALIDATION_FAILED"),
        Example({"memory_id": "5e9d07fa"}, prepared=True),
        Example({"memory_id": "5e9d07fa", "format": "json"}, prepared=True),
    ),
)
def export_reflection(ctx: Context, request: ExportReflection) -> ReflectionText:
    """Export one reflection with its sources, as Markdown or JSON."""
    with ctx.reading() as session:
        memory, fields = reflection_files.read_reflection(ctx, session, request.memory_id)
    name = file_path(memory.namespace, memory.id)
    if request.format == "md":
        return ReflectionText(content=render_file(fields, memory.content), suggested_filename=name)
    whole = msgspec.json.format(msgspec.json.encode({**fields, "content": memory.content}), indent=2)
    return ReflectionText(content=whole.decode(), suggested_filename=f"{name.removesuffix('.md')}.json")


class ExportReflections(Request, frozen=True):
    out_dir: Annotated[Folder, Meta(description="Output folder; created if missing.")]
    namespace: Annotated[Namespace, Meta(description="Only this namespace and below.")] | None = None
    since: Annotated[Timestamp, Meta(description="Only those created since; removes no files.")] | None = None


class ExportReflectionsResult(Struct, frozen=True, kw_only=True):
    out_dir: str
    count: int
    written: list[str]
    unchanged: list[str]
    removed: list[str]
    """Files of reflections that are no longer live."""
    left: list[str]
    """Files that this store did not write: unchanged."""


@operation(
    Effect.READ,
    "POST /api/v1/reflections/export",
    topic="reflections",
    cli=("reflect", "export-all"),
    aliases=("export-reflections",),
    surfaces=("library", "cli"),
    examples=(
        Example({"out_dir": "reflections", "namespace": "no blanks"}, error="VALIDATION_FAILED"),
        Example({"out_dir": "reflections"}, prepared=True),
        Example({"out_dir": "reflections", "namespace": "shop"}, prepared=True),
    ),
)
def export_reflections(ctx: Context, request: ExportReflections, progress: Progress) -> ExportReflectionsResult:
    """Export all visible reflections to a folder of Markdown files.

    Files are replaced atomically. Files of reflections that are no longer live are removed; files that Holdfast did not
    write are reported and left unchanged.
    """
    result = reflection_files.write_files(ctx, request.out_dir, request.namespace, parse_time(request.since, "since"))
    return ExportReflectionsResult(
        out_dir=request.out_dir, count=len(result.written) + len(result.unchanged), **result._asdict()
    )


class ImportReflections(Request, frozen=True):
    path: Annotated[Folder, Meta(description="Folder written by export_reflections.")]
    trust_source: Annotated[bool, Meta(description="Keep their owners; otherwise you become the owner.")] = True
    on_conflict: OnConflictField = "merge"
    dry_run: Annotated[bool, Meta(description="Only report what would change.")] = False


class FileFault(Struct, frozen=True, kw_only=True):
    file: str
    error: str
    code: str


class ImportReflectionsResult(Struct, frozen=True, kw_only=True):
    files: int
    imported: int
    merged: int
    unchanged: int
    older: int
    links: int
    """Links created or changed."""
    missing_sources: list[str]
    """Sources missing from this store; importing again once they exist links them."""
    rejected: int
    errors: list[FileFault]
    dry_run: bool


@operation(
    Effect.WRITE,
    "POST /api/v1/reflections/import",
    topic="reflections",
    cli=("reflect", "import"),
    aliases=("import-reflections",),
    stage="store",
    admin=True,
    surfaces=("library", "cli"),
    examples=(
        Example({"path": "no/such/folder"}, error="VALIDATION_FAILED"),
        Example({"path": "exported"}, prepared=True),
        Example({"path": "exported", "dry_run": True}, prepared=True),
    ),
)
def import_reflections(ctx: Context, request: ImportReflections, progress: Progress) -> ImportReflectionsResult:
    """Import reflections from a folder of files, in one transaction.

    Rejected files are reported; all others are imported. Importing the same files again changes nothing.
    """
    options = Options(trust_source=request.trust_source, on_conflict=request.on_conflict)
    result = reflection_files.import_files(ctx, request.path, options, dry_run=request.dry_run)
    counts = result.imported.counts
    linked = counts["links"]
    return ImportReflectionsResult(
        files=result.files,
        **{name: counts["memories"][name] for name in importer.OUTCOMES},
        links=linked["imported"] + linked["merged"],
        missing_sources=result.missing,
        rejected=len(result.rejected),
        errors=[FileFault(file=name, error=error.message, code=error.code) for name, error in result.rejected],
        dry_run=request.dry_run,
    )
