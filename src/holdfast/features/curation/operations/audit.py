"""The quality audit of a store or an export."""

from typing import Annotated

from msgspec import Meta

from holdfast.features.curation import quality_report
from holdfast.features.curation.quality_report import AuditResult
from holdfast.features.importers import sources
from holdfast.features.importers.operations import EXAMPLE, MAX_CONTENT_CHARS, FormatField, LocalPath, must_be_local
from holdfast.features.importers.readers import formats
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.errors import Invalid
from holdfast.kernel.local_files import local_path
from holdfast.kernel.registry.fields import Namespace
from holdfast.kernel.registry.operation import Effect, Example, Request, operation


class Audit(Request, frozen=True):
    path: Annotated[LocalPath, Meta(description="Export file to audit instead of the store.")] | None = None
    content: (
        Annotated[str, Meta(min_length=1, max_length=MAX_CONTENT_CHARS, description="Text of an export to audit.")]
        | None
    ) = None
    format: Annotated[FormatField, Meta(description="Format of the export; auto detects it.")] = "auto"
    namespace: Annotated[Namespace, Meta(description="Only memories of this namespace.")] | None = None


@operation(
    Effect.READ,
    "POST /api/v1/audit",
    cli=("curate", "audit"),
    aliases=("audit",),
    opens_nothing=True,
    human="holdfast.features.curation.render:render_audit",
    examples=(
        Example({}),
        Example({"namespace": "team"}),
        Example({"content": EXAMPLE}),
        Example({"content": "[1, 2, 3]"}, error="VALIDATION_FAILED"),
        Example({"content": EXAMPLE, "namespace": "team"}, error="VALIDATION_FAILED"),
        Example({"namespace": "no blanks"}, error="VALIDATION_FAILED"),
    ),
)
def audit(ctx: Context, request: Audit, progress: Progress) -> AuditResult:
    """Score a store: duplicates, contradictions, secrets, recall loops, stale and unread memories.

    Checks everything you may see, or an export of another program, and changes nothing.
    """
    if request.path is None and request.content is None:
        return quality_report.report_on_store(ctx, request.namespace)
    if request.namespace is not None:
        raise Invalid("namespace must be omitted when auditing an export", fields=["namespace"])
    return _audit_export(ctx, request)


def _audit_export(ctx: Context, request: Audit) -> AuditResult:
    def audit_place(place: sources.Source) -> AuditResult:
        form, pieces = (
            formats.detect_format(place)
            if request.format == "auto"
            else (request.format, formats.select_files(place, request.format))
        )
        records = formats.read(form, pieces, lambda _: None)
        found = quality_report.report_on_records(records, place.problems, ctx.progress.check)
        if request.format != "auto" and not found.total and not found.problems:
            formats.must_not_be_empty(form)
        return found

    if request.path is None:
        assert request.content is not None
        return audit_place(sources.source_from_text(request.content))
    if request.content is not None:
        raise Invalid("Give either path or content.", fields=["path", "content"])
    must_be_local(ctx, "path")
    with sources.open_source(local_path(request.path)) as place:
        return audit_place(place)
