"""Operations that ingest documents and list pipelines."""

from hashlib import sha256
from typing import Annotated, Any, Literal, cast

from msgspec import UNSET, Meta, Struct, UnsetType, to_builtins

from holdfast.features.ingest import files, service
from holdfast.features.ingest.helpers import HelperOutput
from holdfast.features.ingest.ingest_report import MissingSegment, Report, Source
from holdfast.features.ingest.pipeline import Pipeline, list_builtin_pipelines, parse_pipeline, stage_name
from holdfast.features.ingest.store import Outcome
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.errors import Invalid
from holdfast.kernel.local_files import require_local
from holdfast.kernel.records.memory import Scope, Span
from holdfast.kernel.registry.fields import Actor, Namespace, SourceUri, Tags
from holdfast.kernel.registry.operation import Effect, Example, Request, operation, value_or_unset

MAX_INLINE = 16 * 1024 * 1024
DECISIONS = ("new", "duplicate", "near-duplicate", "update", "conflict", "rejected")
DOCUMENT = "# Deploying\n\nWe deploy on Tuesdays.\n\n## Rollback\n\nFirst, call Ann. Then run `make rollback`.\n"
Text = Annotated[
    str, Meta(min_length=1, max_length=MAX_INLINE, description="The text of the document.", extra={"stdin": True})
]
Override = Annotated[dict[str, Any], Meta(description="Inline pipeline: `stages`, and `name` or `variant`.")]


class Ingest(Request, frozen=True):
    file: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=4096,
                description="Text or Markdown file; - reads standard input.",
                extra={"argument": True, "not_on": ("http", "mcp")},
            ),
        ]
        | None
    ) = None
    content: Text | None = None
    namespace: Namespace | None = None
    source_uri: (
        Annotated[SourceUri, Meta(description="Source URI; identifies the document when it is ingested again.")] | None
    ) = None
    pipeline: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=4096,
                description="plain (default), two_phase, four_step, or a TOML or JSON file.",
            ),
        ]
        | None
    ) = None
    pipeline_override: Override | None = None
    tags: Tags = []
    scope: Annotated[Scope, Meta(description="private: visible to you and agents you share it with.")] | None = None
    dry_run: Annotated[bool, Meta(description="Report what would be stored without storing it.")] = False
    again: Annotated[bool, Meta(description="Ingest again: store segments deleted since the last time.")] = False
    agent_id: Actor | None = None


class SegmentOutcome(Struct, frozen=True, kw_only=True):
    """Decision about a segment."""

    index: int
    decision: Literal["new", "duplicate", "near-duplicate", "update", "conflict", "rejected"]
    reason: str
    kind: str
    line: int
    span: Span
    """Byte range in the document (UTF-8)."""
    method: Literal["heuristic", "llm"]
    memory_id: str | UnsetType = UNSET
    """The memory that holds its text."""
    title: str | UnsetType = UNSET
    other_id: str | UnsetType = UNSET
    """The similar memory."""
    proposed: Literal["supersedes"] | UnsetType = UNSET
    """A link to the other memory that needs a person's decision."""
    model: str | UnsetType = UNSET
    helpers: list[HelperOutput] | UnsetType = UNSET
    """Helper results for the first 20 segments. Returned once and not stored, because they quote other memories.
    Comparing helpers are omitted for exact duplicates."""


class StageOutcome(Struct, frozen=True, kw_only=True):
    index: int
    type: str
    name: str
    summary: str
    method: Literal["heuristic", "llm"]
    payload: dict[str, Any]
    model: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    """Why no model answer was used."""


class IngestResult(Struct, frozen=True, kw_only=True):
    source_uri: str
    namespace: str
    content_hash: str
    pipeline: str
    pipeline_version: str
    outcome: Literal["ingested", "unchanged", "planned"]
    """`unchanged`: the same document was ingested before; nothing was stored."""
    dry_run: bool
    document_id: str | UnsetType = UNSET
    """The memory that represents the whole document."""
    total: int
    decisions: dict[str, int]
    rejected: int
    segments: list[SegmentOutcome]
    vanished: list[MissingSegment]
    """Memories from an earlier version of this source whose text it no longer contains. They are kept."""
    gone: list[MissingSegment]
    """Memories from this document that were deleted or archived since."""
    stages: list[StageOutcome]
    ingested_memory_ids: list[str]
    notes: list[str]


@operation(
    Effect.WRITE,
    "POST /api/v1/ingest",
    stage="store",
    asks=True,
    human="holdfast.features.ingest.render:render_ingestion",
    examples=(
        Example({"content": DOCUMENT, "namespace": "team/ops", "source_uri": "doc:deploying"}),
        Example({"content": DOCUMENT, "namespace": "team/ops", "source_uri": "doc:deploying", "dry_run": True}),
        Example({"content": DOCUMENT, "namespace": "other", "pipeline": "two_phase", "tags": ["ops"]}),
        Example({"content": "x", "pipeline": "no-such-pipeline"}, error="VALIDATION_FAILED"),
        Example({"content": "x", "pipeline_override": {"stages": [{"type": "magic"}]}}, error="VALIDATION_FAILED"),
        Example({}, error="VALIDATION_FAILED"),
        Example({"file": "guide.md", "namespace": "shop/docs"}, prepared=True),
        Example({"file": "guide.md", "namespace": "shop/docs", "dry_run": True}, prepared=True),
    ),
)
def ingest(ctx: Context, request: Ingest, progress: Progress) -> IngestResult:
    """Ingest a document: chunk, deduplicate, store with source positions.

    Ingesting the same document again does nothing. In an edited one, changed segments supersede earlier versions.
    """
    return _build_result(run_ingest(ctx, request))


def run_ingest(ctx: Context, request: Ingest) -> Report:
    pipeline = _load_pipeline(ctx, request.pipeline, request.pipeline_override)
    return service.ingest(ctx, _build_source(ctx, request), pipeline, dry_run=request.dry_run, again=request.again)


def _build_source(ctx: Context, request: Ingest) -> Source:
    if (request.file is None) == (request.content is None):
        raise Invalid("Give either file or content.", fields=["content"])
    if request.file is not None:
        require_local(ctx, "file")
        read = files.read_document(request.file)
        text, uri, name = read.text, read.uri, read.name
    else:
        text, uri, name = files.check_text(request.content or ""), None, None
    return Source(
        text,
        request.namespace or ctx.namespace,
        request.source_uri or uri or f"doc:sha256/{sha256(text.encode()).hexdigest()[:32]}",
        name,
        tuple(request.tags),
        request.scope,
    )


def _load_pipeline(ctx: Context, name: str | None, override: dict[str, Any] | None) -> Pipeline:
    if override is not None:
        if name is not None and name not in list_builtin_pipelines():
            raise Invalid("pipeline: must be a built-in name when pipeline_override is given", fields=["pipeline"])
        return parse_pipeline(override, name)
    if name is None:
        return next(iter(list_builtin_pipelines().values()))
    if name in list_builtin_pipelines():
        return list_builtin_pipelines()[name]
    if ctx.caller.source not in ("library", "cli"):
        raise Invalid(
            f"pipeline: must be one of {', '.join(list_builtin_pipelines())}; or give pipeline_override",
            fields=["pipeline"],
        )
    return files.read_pipeline(name)


def _build_result(report: Report) -> IngestResult:
    counts = report.counts
    return IngestResult(
        source_uri=report.source.uri,
        namespace=report.source.namespace,
        content_hash=report.content_hash,
        pipeline=report.pipeline.name,
        pipeline_version=report.pipeline.version,
        outcome="unchanged" if report.is_known else "planned" if report.dry_run else "ingested",
        dry_run=report.dry_run,
        document_id=value_or_unset(report.document),
        total=len(report.outcomes),
        decisions={name: counts[name] for name in DECISIONS},
        rejected=counts["rejected"],
        segments=[_build_segment_view(one, report) for one in report.current_outcomes],
        vanished=report.vanished,
        gone=report.gone,
        stages=[StageOutcome(**stage) for stage in report.stages],
        ingested_memory_ids=report.stored_ids,
        notes=report.notes,
    )


def _build_segment_view(one: Outcome, report: Report) -> SegmentOutcome:
    found = report.helper_results.get(one.place)
    return SegmentOutcome(
        index=one.place,
        decision=cast(Any, one.decision),
        reason=one.reason,
        kind=one.kind,
        line=one.line,
        span=Span(one.begins, one.ends),
        method=cast(Any, one.method),
        memory_id=value_or_unset(one.memory),
        title=value_or_unset(report.titles.get(one.place)),
        other_id=value_or_unset(one.other),
        proposed="supersedes" if one.decision == "update" and not one.replaces else UNSET,
        model=value_or_unset(one.model),
        helpers=list(found) if found else UNSET,
    )


class Pipelines(Request, frozen=True):
    name: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=4096,
                description="Show only this pipeline: a name or a file.",
                extra={"argument": True},
            ),
        ]
        | None
    ) = None


class PipelineView(Struct, frozen=True, kw_only=True):
    name: str
    version: str
    """Digest of the definition. A document is ingested once per version."""
    description: str
    asks_model: bool
    stages: list[str]
    definition: dict[str, Any]
    """The definition, as in a pipeline file."""


class PipelineList(Struct, frozen=True, kw_only=True):
    pipelines: list[PipelineView]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/pipelines",
    cli=("ingest", "pipelines"),
    aliases=("pipelines",),
    opens_nothing=True,
    human="holdfast.features.ingest.render:render_pipelines",
    examples=(Example({}), Example({"name": "two_phase"}), Example({"name": "none-such"}, error="VALIDATION_FAILED")),
)
def pipelines(ctx: Context, request: Pipelines) -> PipelineList:
    """List ingest pipelines, or validate a pipeline file."""
    found = list_builtin_pipelines().values() if request.name is None else [_load_pipeline(ctx, request.name, None)]
    views = [_build_pipeline_view(one) for one in found]
    return PipelineList(pipelines=views, count=len(views))


def _build_pipeline_view(pipeline: Pipeline) -> PipelineView:
    return PipelineView(
        name=pipeline.name,
        version=pipeline.version,
        description=pipeline.description,
        asks_model=pipeline.asks_model,
        stages=[stage_name(stage) for stage in pipeline.stages],
        definition=to_builtins(pipeline),
    )
