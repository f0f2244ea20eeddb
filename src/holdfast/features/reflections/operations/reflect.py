"""Operations: create, trace, export, import and propose reflections."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.curation.operations.derive import MethodInfo, method_fields
from holdfast.features.memories.operations.core import OnConflictField
from holdfast.features.reflections import files as reflection_files
from holdfast.features.reflections import proposals, provenance
from holdfast.features.reflections import service as reflection_service
from holdfast.features.reflections.draft import Conclusion
from holdfast.features.reflections.markdown import file_path, render_file
from holdfast.features.reflections.proposals import Proposal
from holdfast.features.transfer import importer
from holdfast.features.transfer.model import Options
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.records.memory import Scope
from holdfast.kernel.registry.fields import (
    Actor,
    Confidence,
    Content,
    Id,
    Metadata,
    Namespace,
    NewTier,
    Priority,
    Tags,
    Timestamp,
    Title,
)
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.timestamps import parse_time

MemoryId = Annotated[
    str,
    Meta(min_length=1, max_length=128, description="Id, or an unambiguous prefix of one.", extra={"argument": True}),
]
Folder = Annotated[str, Meta(min_length=1, max_length=4096, description="Path of a folder.", extra={"argument": True})]


class Reflect(Request, frozen=True):
    source_ids: Annotated[
        list[Id],
        Meta(
            min_length=1,
            max_length=reflection_service.MAX_SOURCES,
            description="Memories that it is derived from.",
            extra={"argument": True},
        ),
    ]
    title: Title
    content: Annotated[Content, Meta(description="The conclusion.")]
    namespace: Annotated[Namespace, Meta(description="Namespace; default: that of the first source.")] | None = None
    tier: NewTier | None = None
    tags: Tags = []
    priority: Priority = 5
    confidence: Confidence = 1.0
    scope: Annotated[Scope, Meta(description="Who may see it; default: narrowest scope of the sources.")] | None = None
    metadata: Metadata = {}
    depth: Annotated[int, Meta(ge=1, le=1000, description="Fail unless the depth is this.")] | None = None
    agent_id: Actor | None = None


class ReflectResult(Struct, frozen=True, kw_only=True):
    """The reflection, or the pending request if the policy requires approval."""

    id: str | UnsetType = UNSET
    reflection_depth: int | UnsetType = UNSET
    reflects_on: list[str] | UnsetType = UNSET
    namespace: str
    status: Literal["pending"] | UnsetType = UNSET
    pending_id: str | UnsetType = UNSET
    proposed_depth: int | UnsetType = UNSET
    require_approval_above_depth: int | UnsetType = UNSET


@operation(
    Effect.WRITE,
    "POST /api/v1/reflect",
    stage="reflect",
    waits=True,
    human="holdfast.features.reflections.render:render_reflection",
    examples=(
        Example({"source_ids": ["no-such-memory"], "title": "So", "content": "It follows."}, error="NOT_FOUND"),
        Example({"source_ids": [], "title": "So", "content": "It follows."}, error="VALIDATION_FAILED"),
        Example({"source_ids": ["one"], "title": "So"}, error="VALIDATION_FAILED"),
        Example(
            {
                "source_ids": ["1f3a9c20", "8b2e41d7"],
                "title": "Release routine",
                "content": "Deploys are routine and reversible.",
            },
            prepared=True,
        ),
    ),
)
def reflect(ctx: Context, request: Reflect) -> ReflectResult:
    """Store a conclusion with its sources.

    Its depth is one more than the deepest source, up to the limit of the namespace's policy. The title must be free.
    """
    reflection_request = reflection_service.ReflectionRequest(
        source_ids=tuple(request.source_ids),
        title=request.title,
        content=request.content,
        namespace=request.namespace,
        tier=request.tier or ctx.default_tier,
        tags=tuple(request.tags),
        priority=request.priority,
        confidence=request.confidence,
        scope=request.scope,
        metadata=request.metadata,
        depth=request.depth,
        source=ctx.caller.source,
    )
    result = reflection_service.reflect(ctx, reflection_request)
    if not isinstance(result, reflection_service.Reflection):
        pending, planned = result
        return ReflectResult(
            namespace=pending.namespace,
            status="pending",
            pending_id=pending.id,
            proposed_depth=planned.memory.reflection_depth,
            require_approval_above_depth=planned.rules.require_approval_above_depth or 0,
        )
    memory, sources = result
    return ReflectResult(
        id=memory.id, reflection_depth=memory.reflection_depth, reflects_on=sources, namespace=memory.namespace
    )


class ReflectionOrigin(Request, frozen=True):
    memory_id: MemoryId


class ReflectionOriginResult(Struct, frozen=True, kw_only=True):
    memory_id: str
    peer_origin: str | None
    """The node that created it; null if this one."""
    signing_agent: str
    original_depth: int
    local_depth_at_arrival: int | None
    is_reflection: bool
    reflection_depth: int


@operation(
    Effect.READ,
    "GET /api/v1/reflections/{memory_id}/origin",
    cli=("reflect", "origin"),
    aliases=("reflection-origin",),
    examples=(
        Example({"memory_id": "no-such-memory"}, error="NOT_FOUND"),
        Example({"memory_id": "5e9d07fa"}, prepared=True),
    ),
)
def reflection_origin(ctx: Context, request: ReflectionOrigin) -> ReflectionOriginResult:
    """Show who created a reflection, on which node, and its depths."""
    with ctx.reading() as session:
        found = provenance.trace_provenance(ctx, session, request.memory_id)
    return ReflectionOriginResult(
        memory_id=found.memory.id,
        peer_origin=found.peer_origin,
        signing_agent=found.agent,
        original_depth=found.original_depth,
        local_depth_at_arrival=found.depth_at_arrival,
        is_reflection=found.memory.kind == "reflection",
        reflection_depth=found.memory.reflection_depth,
    )


class ExportReflection(Request, frozen=True):
    memory_id: MemoryId
    format: Annotated[Literal["md", "json"], Meta(description="md (Markdown) or json.")] = "md"


class ReflectionText(Struct, frozen=True, kw_only=True):
    content: str
    suggested_filename: str


@operation(
    Effect.READ,
    "GET /api/v1/reflections/{memory_id}/export",
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


class ReflectSuggest(Request, frozen=True):
    namespace: Annotated[Namespace, Meta(description="Only this namespace and below.")] | None = None
    days: Annotated[int, Meta(ge=1, le=3650, description="Age limit of the observations, in days.")] = 30
    min_size: Annotated[int, Meta(ge=2, le=64, description="Minimum number of sources.")] = 3
    max_size: Annotated[int, Meta(ge=2, le=64, description="Maximum number of sources.")] = 12
    limit: Annotated[int, Meta(ge=1, le=100, description="Maximum number of proposals.")] = 10
    again: Annotated[bool, Meta(description="Include earlier proposals that were not dismissed.")] = False
    draft: Annotated[bool, Meta(description="Draft a conclusion for each (with a model if set).")] = True
    dry_run: Annotated[bool, Meta(description="Do not record these as proposed.")] = False


class ObservationRef(Struct, frozen=True, kw_only=True):
    id: str
    title: str


class ConclusionDraft(MethodInfo, frozen=True, kw_only=True):
    """A draft for `reflect`; not stored."""

    title: str
    content: str


class Suggestion(Struct, frozen=True, kw_only=True):
    offer_id: str
    namespace: str
    source_ids: list[str]
    sources: list[ObservationRef]
    likeness: float
    shared: list[str]
    """Words that most of them share."""
    reason: str
    method: Literal["heuristic"]
    """How they were grouped."""
    draft: ConclusionDraft | UnsetType = UNSET


class Suggestions(Struct, frozen=True, kw_only=True):
    count: int
    suggestions: list[Suggestion]
    dry_run: bool


@operation(
    Effect.WRITE,
    "POST /api/v1/reflections/suggest",
    cli=("reflect", "suggest"),
    aliases=("reflect-suggest",),
    asks=True,
    human="holdfast.features.reflections.render:render_suggestions",
    examples=(
        Example({"namespace": "team"}),
        Example({"dry_run": True, "again": True, "draft": False}),
        Example({"min_size": 5, "max_size": 4}, error="VALIDATION_FAILED"),
        Example({"namespace": "shop"}, prepared=True),
        Example({"days": 7, "dry_run": True}, prepared=True),
    ),
)
def reflect_suggest(ctx: Context, request: ReflectSuggest) -> Suggestions:
    """Propose reflections on groups of similar recent observations.

    The same observations give the same proposals, and each proposal is made once. Nothing is stored as a memory. Each
    comes with a draft, from the sources' sentences or from the configured model; a dry run calls no model.
    """
    which = proposals.ProposalFilter(request.namespace, request.days, request.min_size, request.max_size, request.again)
    found = proposals.propose_reflections(ctx, which, limit=request.limit, draft=request.draft, dry_run=request.dry_run)
    views = [_suggestion_view(offer) for offer in found]
    return Suggestions(count=len(views), suggestions=views, dry_run=request.dry_run)


def _suggestion_view(offer: "Proposal") -> Suggestion:
    about = f"share: {', '.join(offer.shared)}" if offer.shared else "are similar"
    return Suggestion(
        offer_id=offer.id,
        namespace=offer.namespace,
        source_ids=list(offer.group.ids),
        sources=[ObservationRef(id=source.id, title=source.title) for source in offer.sources],
        likeness=round(offer.group.similarity, 3),
        shared=offer.shared,
        reason=f"{len(offer.sources)} recent observations {about}.",
        method="heuristic",
        draft=UNSET if offer.draft is None else _draft_view(offer.draft),
    )


def _draft_view(made: "Conclusion") -> ConclusionDraft:
    return ConclusionDraft(title=made.title, content=made.content, **method_fields(made.method))


class ReflectDismiss(Request, frozen=True):
    offer_id: Annotated[
        str, Meta(min_length=1, max_length=128, description="Id of the proposal.", extra={"argument": True})
    ]


class DismissResult(Struct, frozen=True, kw_only=True):
    dismissed: bool
    offer_id: str
    namespace: str


@operation(
    Effect.WRITE,
    "POST /api/v1/reflections/dismiss",
    cli=("reflect", "dismiss"),
    aliases=("reflect-dismiss",),
    examples=(
        Example({"offer_id": "no-such-offer"}, error="NOT_FOUND"),
        Example({"offer_id": "d9023e7f"}, prepared=True),
    ),
)
def reflect_dismiss(ctx: Context, request: ReflectDismiss) -> DismissResult:
    """Never propose these sources together again."""
    return DismissResult(
        dismissed=True, offer_id=request.offer_id, namespace=proposals.dismiss_proposal(ctx, request.offer_id)
    )
