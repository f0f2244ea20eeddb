"""Tools of ai-memory that Holdfast has under other names, for its clients."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from holdfast.features.graph import service as link_service
from holdfast.features.graph.operations.links import Source, TargetView, ValidAt, target_view
from holdfast.features.ingest.operations import DECISIONS, Ingest, Override, StageOutcome, Text, run_ingest
from holdfast.features.reflections import list_stale
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.errors import NotFound
from holdfast.kernel.registry.fields import Actor, Id, Limit, Namespace, Timestamp
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.timestamps import parse_time


class KgTimeline(Request, frozen=True):
    source_id: Source
    since: Annotated[Timestamp, Meta(description="Only links that started at this time or later.")] | None = None
    until: Annotated[Timestamp, Meta(description="Only links that started at this time or earlier.")] | None = None
    valid_at: ValidAt | None = None
    limit: Limit = 200


class Timeline(Struct, frozen=True, kw_only=True):
    source_id: str
    events: list[TargetView]
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/kg/timeline",
    cli=("graph", "timeline"),
    aliases=("kg-timeline",),
    examples=(
        Example({"source_id": "no-such-memory"}, error="NOT_FOUND"),
        Example({"source_id": "any", "since": "yesterday"}, error="VALIDATION_FAILED"),
        Example({"source_id": "5e9d07fa"}, prepared=True),
        Example({"source_id": "5e9d07fa", "since": "2026-01-01"}, prepared=True),
    ),
)
def kg_timeline(ctx: Context, request: KgTimeline) -> Timeline:
    """List the outgoing links of a memory by start date."""
    since, until = parse_time(request.since, "since"), parse_time(request.until, "until")
    valid_at = parse_time(request.valid_at, "valid_at")
    with ctx.reading() as session:
        source, edges = link_service.list_timeline(
            ctx, session, request.source_id, since=since, until=until, valid_at=valid_at, limit=request.limit
        )
    return Timeline(source_id=source.id, events=[target_view(edge, TargetView) for edge in edges], count=len(edges))


class DependentsOfInvalidated(Request, frozen=True):
    memory_id: Annotated[Id, Meta(extra={"argument": True})]


class DirectDependent(Struct, frozen=True, kw_only=True):
    id: str
    namespace: str


class DirectDependents(Struct, frozen=True, kw_only=True):
    memory_id: str
    count: int
    dependents: list[DirectDependent]


@operation(
    Effect.READ,
    "POST /api/v1/memory_dependents_of_invalidated",
    cli=("graph", "direct-dependents"),
    aliases=("dependents-of-invalidated",),
    examples=(
        Example({"memory_id": "no-such-memory"}),
        Example({"memory_id": ""}, error="VALIDATION_FAILED"),
        Example({"memory_id": "1f3a9c20"}, prepared=True),
    ),
)
def dependents_of_invalidated(ctx: Context, request: DependentsOfInvalidated) -> DirectDependents:
    """List direct dependents as ai-memory does; empty for an unknown memory."""
    with ctx.reading() as session:
        try:
            id, found = list_stale.list_dependents(ctx, session, request.memory_id, hops=1)
        except NotFound:
            id, found = request.memory_id, []
    views = [DirectDependent(id=one.memory.id, namespace=one.memory.namespace) for one in found]
    return DirectDependents(memory_id=id, count=len(views), dependents=views)


class IngestMultistep(Request, frozen=True):
    content: Text
    namespace: Namespace = "global"
    pipeline_variant: Annotated[Literal["two_phase", "four_step"], Meta(description="Built-in pipeline to run.")] = (
        "two_phase"
    )
    pipeline_override: Override | None = None
    agent_id: Actor | None = None


class IngestMultistepResult(Struct, frozen=True, kw_only=True):
    variant: str
    stages: list[StageOutcome]
    distinct_cache_keys: int
    """Number of document parts a model was asked about. Prompts about one part share a prefix."""
    prompt_cache_consistent: bool
    final_output: dict[str, Any]
    """Payload of the last model stage, else of the last helper."""
    ingested_memory_ids: list[str]
    decisions: dict[str, int]


@operation(
    Effect.WRITE,
    "POST /api/v1/ingest_multistep",
    cli=("ingest", "multistep"),
    aliases=("ingest-multistep",),
    stage="store",
    asks=True,
    human="holdfast.features.ingest.render:render_multistep",
    examples=(
        Example({"content": "The archive lies in the cellar.", "namespace": "team/cellar"}),
        Example({"content": "The archive moved.", "pipeline_variant": "one_shot"}, error="VALIDATION_FAILED"),
    ),
)
def ingest_multistep(ctx: Context, request: IngestMultistep, progress: Progress) -> IngestMultistepResult:
    """Ingest a text with the arguments of ai-memory's tool; prefer `ingest`."""
    variant, override = request.pipeline_variant, request.pipeline_override
    ask = Ingest(content=request.content, namespace=request.namespace, pipeline=variant, pipeline_override=override)
    report = run_ingest(ctx, ask)
    stages = [StageOutcome(**stage) for stage in report.stages]
    last = next((one for one in reversed(stages) if one.method == "llm"), stages[-1] if stages else None)
    return IngestMultistepResult(
        variant=report.pipeline.name,
        stages=stages,
        distinct_cache_keys=report.parts,
        prompt_cache_consistent=report.is_cache_consistent,
        final_output=last.payload if last else {},
        ingested_memory_ids=report.stored_ids,
        decisions={name: report.counts[name] for name in DECISIONS},
    )
