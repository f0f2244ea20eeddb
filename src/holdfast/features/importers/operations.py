"""Operations that import chats, transcripts, mail and notes, and capture turns."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from holdfast.features.importers import capture, service
from holdfast.features.importers.capture import CaptureResult
from holdfast.features.importers.model import Problem
from holdfast.features.importers.plan import Options
from holdfast.features.importers.readers import Format
from holdfast.features.importers.report import Sample
from holdfast.features.importers.service import ImporterResult
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.errors import Invalid
from holdfast.kernel.local_files import local_path
from holdfast.kernel.records.memory import Scope
from holdfast.kernel.registry.fields import Actor, Metadata, Namespace, NewTier, Tags, TierField, Timestamp
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.timestamps import parse_time

MAX_CONTENT_CHARS = 8 << 20
MAX_TURN_CHARS = 1 << 20

FormatField = Literal["auto", Format]
Include = Annotated[
    list[Literal["tools", "system", "thinking", "sidechains"]],
    Meta(description="Also import: tools, system, thinking, sidechains."),
]
DryRun = Annotated[bool, Meta(description="Report what would happen, write nothing.")]
EXAMPLE = (
    '{"type":"entity","name":"Anna","entityType":"person","observations":["Plays the cello."]}\n'
    '{"type":"entity","name":"Quartet","entityType":"ensemble","observations":[]}\n'
    '{"type":"relation","from":"Anna","to":"Quartet","relationType":"plays in"}\n'
)


LocalPath = Annotated[str, Meta(min_length=1, max_length=4096, extra={"argument": True, "not_on": ("http", "mcp")})]
"""Path on this machine. Remote callers cannot set it."""


class MineRequest(Request, frozen=True):
    path: Annotated[LocalPath, Meta(description="File, folder or zip.")] | None = None
    content: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=MAX_CONTENT_CHARS,
                description="Text of a file, instead of a path.",
                extra={"stdin": True},
            ),
        ]
        | None
    ) = None
    format: Annotated[FormatField, Meta(description="Format of the source; auto detects it.", extra={"short": "f"})] = (
        "auto"
    )
    namespace: Annotated[Namespace, Meta(description="Namespace of the imported memories.")] | None = None
    tier: TierField = "long"
    scope: Annotated[Scope, Meta(description="private: visible to you and agents you share it with.")] = "collective"
    tags: Tags = []
    min_messages: Annotated[int, Meta(ge=1, le=1000, description="Skip conversations with fewer messages.")] = 1
    include: Include = []
    dry_run: DryRun = False
    agent_id: Actor | None = None


class MineResult(Struct, frozen=True, kw_only=True):
    """Result of an import, in numbers of memories."""

    format: str
    namespace: str
    tier: str
    imported: int
    updated: int
    """Changed at the source, or given a longer lifetime."""
    unchanged: int
    joined: int
    """Already captured from an agent host."""
    left: int
    """Archived, deleted or edited here since, and not changed."""
    links: int
    total_conversations: int
    skipped: int
    """Conversations with fewer messages than `min_messages`."""
    kinds: dict[str, int]
    left_out: dict[str, int]
    """Skipped records by reason: tools, system, thinking, sidechains, recalled, other branches, before."""
    files: int
    passed_over: int
    """Files of an unknown or another format."""
    rejected: int
    noted: int
    problems: list[Problem]
    samples: list[Sample]
    dry_run: bool


@operation(
    Effect.WRITE,
    "POST /api/v1/mine",
    cli=("import", "chats"),
    aliases=("mine", "import-chats"),
    stage="store",
    human="holdfast.features.importers.render:render_mining",
    examples=(
        Example({"content": EXAMPLE, "namespace": "mined/graph"}),
        Example({"content": EXAMPLE, "namespace": "mined/graph", "dry_run": True}),
        Example({"content": "Only a text.", "namespace": "mined/text"}),
        Example({"content": "[1, 2, 3]"}, error="VALIDATION_FAILED"),
        Example({}, error="VALIDATION_FAILED"),
        Example({"path": "conversations.json"}, prepared=True),
        Example({"path": "notes", "format": "markdown", "dry_run": True}, prepared=True),
    ),
)
def mine(ctx: Context, request: MineRequest, progress: Progress) -> MineResult:
    """Import chats, transcripts, mail and notes.

    Each message and note becomes a memory, word for word, with speaker, time and position. Importing again adds new
    messages and updates changed ones; memories that you deleted or edited are not changed.
    """
    options = Options(
        namespace=request.namespace or ctx.namespace,
        tier=request.tier,
        scope=request.scope,
        tags=tuple(request.tags),
        min_messages=request.min_messages,
        include=tuple(request.include),
        dry_run=request.dry_run,
    )
    form: Format | None = None if request.format == "auto" else request.format
    if (request.path is None) == (request.content is None):
        raise Invalid("path, content: set exactly one.", fields=["path", "content"])
    if request.path is not None:
        must_be_local(ctx, "path")
        result = service.import_path(ctx, local_path(request.path), form, options)
    else:
        assert request.content is not None
        result = service.import_text(ctx, request.content, form, options)
    return MineResult(**_build_result(result, options.namespace, request.tier, request.dry_run))


def must_be_local(ctx: Context, field: str) -> None:
    """Raise unless the caller is local: only local callers can use paths."""
    if not ctx.caller.is_local:
        raise Invalid(f"{field}: only available in the command line and the library; send content", fields=[field])


def _build_result(result: ImporterResult, namespace: str, tier: str, dry_run: bool) -> dict[str, Any]:
    report = result.report
    return {
        "format": result.format,
        "namespace": namespace,
        "tier": tier,
        "imported": report.outcomes["stored"],
        **{name: report.outcomes[name] for name in ("updated", "unchanged", "joined", "left")},
        "links": report.links,
        "total_conversations": report.conversations + report.short_conversations,
        "skipped": report.short_conversations,
        "kinds": dict(sorted(report.kinds.items())),
        "left_out": dict(sorted(report.left_out.items())),
        "files": result.files,
        "passed_over": result.passed_over,
        "rejected": report.rejected,
        "noted": report.noted,
        "problems": report.problems,
        "samples": report.samples,
        "dry_run": dry_run,
    }


class Recover(Request, frozen=True):
    host: Annotated[Literal["auto", "claude-code", "codex"], Meta(description="Agent host of the transcript.")] = "auto"
    transcript: (
        Annotated[
            str, Meta(min_length=1, max_length=4096, description="Transcript file [default: those of this folder].")
        ]
        | None
    ) = None
    since: Annotated[Timestamp, Meta(description="Only turns since this time.")] | None = None
    sessions: Annotated[int, Meta(ge=1, le=1000, description="Number of newest sessions.")] = 2
    limit: Annotated[int, Meta(ge=1, le=100_000, description="Number of last turns per session.")] = 100
    namespace: Annotated[Namespace, Meta(description="Namespace of the memories.")] | None = None
    tier: NewTier | None = None
    include: Include = []
    dry_run: DryRun = False
    agent_id: Actor | None = None


class RecoverResult(MineResult, frozen=True, kw_only=True):
    transcripts: list[str]


@operation(
    Effect.WRITE,
    "POST /api/v1/recover",
    cli=("import", "sessions"),
    aliases=("recover", "recover-previous-session"),
    stage="store",
    surfaces=("library", "cli"),
    human="holdfast.features.importers.render:render_recovery",
    examples=(
        Example({"transcript": "no-such-transcript.jsonl"}, error="NOT_FOUND"),
        Example({"transcript": "session.jsonl"}, prepared=True),
        Example({"transcript": "session.jsonl", "dry_run": True}, prepared=True),
    ),
)
def recover(ctx: Context, request: Recover, progress: Progress) -> RecoverResult:
    """Store the last turns of crashed sessions from their transcripts.

    Turns that were captured or recovered before are not duplicated.
    """
    options = Options(
        namespace=request.namespace or ctx.namespace,
        tier=request.tier or ctx.default_tier,
        include=tuple(request.include),
        dry_run=request.dry_run,
    )
    query = service.TranscriptQuery(
        host=None if request.host == "auto" else request.host,
        transcript=None if request.transcript is None else local_path(request.transcript),
        since=parse_time(request.since, "since"),
        limit=request.limit,
        sessions=request.sessions,
    )
    transcripts, result = service.recover_turns(ctx, query, options)
    fields = _build_result(result, options.namespace, options.tier, request.dry_run)
    return RecoverResult(transcripts=list(map(str, transcripts)), **fields)


class ToolCall(Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call in a turn."""

    tool: Annotated[str, Meta(max_length=256)]
    brief: Annotated[str, Meta(max_length=1024)] | None = None


class CaptureTurn(Request, frozen=True):
    host_session_id: Annotated[str, Meta(min_length=1, max_length=256, description="Session id given by the host.")]
    host_turn_index: Annotated[int, Meta(ge=0, le=(1 << 53) - 1, description="Number of the turn in the session.")]
    role: Annotated[
        Literal["user", "assistant", "tool_use", "tool_result", "system", "other"],
        Meta(description="Speaker of the turn."),
    ]
    content: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_TURN_CHARS,
            description="Text of the turn.",
            extra={"short": "c", "stdin": True},
        ),
    ]
    timestamp_iso: Annotated[Timestamp, Meta(description="Time of the turn.")] | None = None
    namespace: Namespace | None = None
    tier: NewTier | None = None
    host_kind: Annotated[str, Meta(min_length=1, max_length=64, description="Agent host, such as claude-code.")] = (
        "unknown"
    )
    host_version: Annotated[str, Meta(max_length=64, description="Version of the agent host.")] | None = None
    tool_calls: Annotated[list[ToolCall], Meta(max_length=64, description="Tool calls in the turn: tool, brief.")] = []
    metadata: Metadata = {}
    agent_id: Actor | None = None


@operation(
    Effect.WRITE,
    "POST /api/v1/capture_turn",
    cli=("import", "turn"),
    aliases=("capture-turn",),
    stage="store",
    human="holdfast.features.importers.render:render_capture",
    examples=(
        Example({"host_session_id": "s-1", "host_turn_index": 0, "role": "user", "content": "Where is the key?"}),
        Example({"host_session_id": "s-1", "host_turn_index": 0, "role": "user", "content": "Where is the key?"}),
        Example(
            {"host_session_id": "s-1", "host_turn_index": 1, "role": "nobody", "content": "x"}, "VALIDATION_FAILED"
        ),
        Example({"host_session_id": "s-1", "role": "user", "content": "x"}, "VALIDATION_FAILED"),
    ),
)
def capture_turn(ctx: Context, request: CaptureTurn) -> CaptureResult:
    """Store a conversation turn from an agent host, once per session and number.

    Sending it again with other text updates the memory; its history keeps the earlier text.
    """
    parse_time(request.timestamp_iso, "timestamp_iso")
    calls = [{"tool": one.tool} | ({"brief": one.brief} if one.brief else {}) for one in request.tool_calls]
    host = {"host": request.host_kind} | ({"host_version": request.host_version} if request.host_version else {})
    turn = capture.HostTurn(
        session=request.host_session_id,
        index=request.host_turn_index,
        role=request.role,
        content=request.content,
        at=request.timestamp_iso,
        host=request.host_kind,
        tools=tuple(one.tool for one in request.tool_calls),
        metadata={**request.metadata, **host, **({"tool_calls": calls} if calls else {})},
    )
    options = Options(
        namespace=request.namespace or ctx.namespace, tier=request.tier or ctx.default_tier, route="capture"
    )
    return capture.capture_turn(ctx, turn, options)
