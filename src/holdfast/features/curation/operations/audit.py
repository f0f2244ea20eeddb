"""The quality audit of a store or an export."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.curation import quality_report
from holdfast.features.curation.quality_report import MAX_TEXTS, WEIGHTS, AuditExample, QualityReport, compute_score
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


class AuditFinding(Struct, frozen=True, kw_only=True):
    """One kind of quality problem."""

    trouble: str
    weight: float
    """Share of the 100 points lost if every memory has the problem."""
    count: int | UnsetType = UNSET
    """Number of memories with the problem; omitted if it cannot be determined."""
    share: float | UnsetType = UNSET
    points: float | UnsetType = UNSET
    """Points deducted from the score."""
    examples: list[AuditExample] = []


class AuditProblem(Struct, frozen=True, kw_only=True):
    where: str
    what: str


class AuditResult(Struct, frozen=True, kw_only=True):
    score: int
    """100 minus the points of every finding, at least 0."""
    total: int
    complete: bool
    """False if there were too many memories to check all of them."""
    findings: list[AuditFinding]
    problems: list[AuditProblem] = []
    """Parts of the export that could not be read, with their position."""
    rejected: int = 0
    """Number of unreadable parts left out of the score."""


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
        return _build_result(quality_report.report_on_store(ctx, request.namespace))
    if request.namespace is not None:
        raise Invalid("namespace must be omitted when auditing an export", fields=["namespace"])
    return _build_result(_audit_export(ctx, request))


def _audit_export(ctx: Context, request: Audit) -> QualityReport:
    def audit_place(place: sources.Source) -> QualityReport:
        form, pieces = (
            formats.detect_format(place)
            if request.format == "auto"
            else (request.format, formats.select_files(place, request.format))
        )
        found = quality_report.report_on_records(formats.read(form, pieces, lambda _: None), ctx.progress.check)
        found = found._replace(problems=[*place.problems, *found.problems])
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


def _build_result(report: QualityReport) -> AuditResult:
    findings = []
    for trouble, (count, examples) in report.findings.items():
        share = None if count is None else count / max(1, report.total)
        findings.append(
            AuditFinding(
                trouble=trouble,
                weight=WEIGHTS[trouble],
                count=UNSET if count is None else count,
                share=UNSET if share is None else round(share, 4),
                points=UNSET if share is None else round(100 * WEIGHTS[trouble] * share, 2),
                examples=list(examples),
            )
        )
    return AuditResult(
        score=compute_score(report.total, [(trouble, one.total) for trouble, one in report.findings.items()]),
        total=report.total,
        complete=report.total <= MAX_TEXTS,
        findings=findings,
        problems=[AuditProblem(where=one.where, what=one.what) for one in report.problems[:100]],
        rejected=sum(one.rejected for one in report.problems),
    )
