"""What people have elsewhere becomes memory: exports, transcripts, and what a host tells while it happens."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.admin.backup import LOCAL, local_path
from holdfast.features.importers import capture as capturing
from holdfast.features.importers import recover as recovering
from holdfast.features.importers import service as mining
from holdfast.features.importers.plan import Options
from holdfast.features.importers.readers import Format
from holdfast.features.importers.service import Mined
from holdfast.features.memories.operations.core import moment
from holdfast.kernel.context import Hold, Progress
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.memory import Scope
from holdfast.kernel.registry.fields import Actor, Metadata, Moment, Namespace, NewTier, Tags, TierField
from holdfast.kernel.registry.operation import Effect, Example, Request, operation

MOST_INLINE = 8 << 20
MOST_TURN = 1 << 20

FormatField = Literal["auto", Format]
Include = Annotated[
    list[Literal["tools", "system", "thinking", "sidechains"]],
    Meta(description="Take these too, which are left out: tools, system, thinking, sidechains."),
]
DryRun = Annotated[bool, Meta(description="Only say what it would do.")]
EXAMPLE = (
    '{"type":"entity","name":"Anna","entityType":"person","observations":["Plays the cello."]}\n'
    '{"type":"entity","name":"Quartet","entityType":"ensemble","observations":[]}\n'
    '{"type":"relation","from":"Anna","to":"Quartet","relationType":"plays in"}\n'
)


OwnPath = Annotated[str, Meta(min_length=1, max_length=4096, extra={"argument": True, "not_on": ("http", "mcp")})]
"""Where an export lies on this machine: nothing that a caller from elsewhere may name."""


class Mine(Request, frozen=True):
    path: Annotated[OwnPath, Meta(description="A file, a folder or a zip.")] | None = None
    content: (
        Annotated[
            str, Meta(min_length=1, max_length=MOST_INLINE, description="The text of a file.", extra={"stdin": True})
        ]
        | None
    ) = None
    format: Annotated[FormatField, Meta(description="What it is; auto looks into it.", extra={"short": "f"})] = "auto"
    namespace: Annotated[Namespace, Meta(description="Where it goes.")] | None = None
    tier: TierField = "long"
    scope: Annotated[Scope, Meta(description="private: only you and whom you grant it to.")] = "collective"
    tags: Tags = []
    min_messages: Annotated[int, Meta(ge=1, le=1000, description="Leave out conversations with fewer.")] = 1
    include: Include = []
    dry_run: DryRun = False
    agent_id: Actor | None = None


class MinedProblem(Struct, frozen=True, kw_only=True):
    where: str
    what: str
    rejected: bool
    """Something is missing because of it; otherwise it is only said."""


class MinedSample(Struct, frozen=True, kw_only=True):
    title: str
    speaker: str | UnsetType = UNSET
    content: str
    source_uri: str | UnsetType = UNSET


class MineAnswer(Struct, frozen=True, kw_only=True):
    """What became of everything, in numbers of memories."""

    format: str
    namespace: str
    tier: str
    imported: int
    updated: int
    """Changed at the source since, or kept for longer now."""
    unchanged: int
    joined: int
    """Here already because a host told of them."""
    left: int
    """Put away or rewritten here since, and left so."""
    links: int
    total_conversations: int
    skipped: int
    """Conversations with fewer messages than were asked for."""
    kinds: dict[str, int]
    left_out: dict[str, int]
    """What is not taken, by why: tools, system, thinking, sidechains, recalled, other branches, before."""
    files: int
    passed_over: int
    """Files of no format, or of another."""
    rejected: int
    noted: int
    problems: list[MinedProblem]
    samples: list[MinedSample]
    dry_run: bool


@operation(
    Effect.WRITE,
    "POST /api/v1/mine",
    family="power",
    stage="store",
    human="holdfast.features.importers.render:render_mining",
    examples=(
        Example({"content": EXAMPLE, "namespace": "mined/graph"}),
        Example({"content": EXAMPLE, "namespace": "mined/graph", "dry_run": True}),
        Example({"content": "Only a text.", "namespace": "mined/text"}),
        Example({"content": "[1, 2, 3]"}, error="VALIDATION_FAILED"),
        Example({}, error="VALIDATION_FAILED"),
    ),
)
def mine(hold: Hold, request: Mine, progress: Progress) -> MineAnswer:
    """Take in what you have elsewhere: chats, transcripts, mail, notes, other memories.

    Each message is a memory in the order of its conversation, with who said it and when, and each note is one, all word
    for word. Doing it again stores what is new and changes what was changed there; what you deleted here stays so.
    """
    options = Options(
        namespace=request.namespace or hold.namespace,
        tier=request.tier,
        scope=request.scope,
        tags=tuple(request.tags),
        min_messages=request.min_messages,
        include=tuple(request.include),
        dry_run=request.dry_run,
    )
    form: Format | None = None if request.format == "auto" else request.format
    if (request.path is None) == (request.content is None):
        raise Invalid("Give one of path and content.", fields=["path", "content"])
    if request.path is not None:
        must_be_local(hold, "path")
        done = mining.from_path(hold, local_path(request.path), form, options)
    else:
        assert request.content is not None
        done = mining.from_text(hold, request.content, form, options)
    return MineAnswer(**_answer(done, options.namespace, request.tier, request.dry_run))


def must_be_local(hold: Hold, field: str) -> None:
    """Only who is at this machine names paths on it."""
    if hold.caller.source not in LOCAL:
        raise Invalid(f"{field}: paths are for the command line and the library; send content", fields=[field])


def _answer(done: "Mined", namespace: str, tier: str, dry_run: bool) -> dict[str, Any]:
    report = done.report
    return {
        "format": done.form,
        "namespace": namespace,
        "tier": tier,
        "imported": report.outcomes["stored"],
        **{name: report.outcomes[name] for name in ("updated", "unchanged", "joined", "left")},
        "links": report.links,
        "total_conversations": report.threads + report.short,
        "skipped": report.short,
        "kinds": dict(sorted(report.kinds.items())),
        "left_out": dict(sorted(report.left_out.items())),
        "files": done.files,
        "passed_over": done.passed_over,
        "rejected": report.rejected,
        "noted": report.noted,
        "problems": [MinedProblem(where=one.where, what=one.what, rejected=one.rejected) for one in report.problems],
        "samples": [
            MinedSample(
                title=one.title, content=one.content, speaker=one.speaker or UNSET, source_uri=one.source_uri or UNSET
            )
            for one in report.samples
        ],
        "dry_run": dry_run,
    }


class Recover(Request, frozen=True):
    host: Annotated[Literal["auto", "claude-code", "codex"], Meta(description="Whose transcript.")] = "auto"
    transcript: (
        Annotated[str, Meta(min_length=1, max_length=4096, description="A transcript [default: those of this folder].")]
        | None
    ) = None
    since: Annotated[Moment, Meta(description="Only turns from then on.")] | None = None
    sessions: Annotated[int, Meta(ge=1, le=1000, description="Of so many sessions, the newest.")] = 2
    limit: Annotated[int, Meta(ge=1, le=100_000, description="The last so many turns of each.")] = 100
    namespace: Annotated[Namespace, Meta(description="Where they go.")] | None = None
    tier: NewTier | None = None
    include: Include = []
    dry_run: DryRun = False
    agent_id: Actor | None = None


class RecoverAnswer(MineAnswer, frozen=True, kw_only=True):
    transcripts: list[str]


@operation(
    Effect.WRITE,
    "POST /api/v1/recover",
    family="power",
    stage="store",
    surfaces=("library", "cli"),
    human="holdfast.features.importers.render:render_recovery",
    examples=(Example({"transcript": "no-such-transcript.jsonl"}, error="NOT_FOUND"),),
)
def recover(hold: Hold, request: Recover, progress: Progress) -> RecoverAnswer:
    """Keep the last turns of a session that ended badly, from the transcript that its host wrote.

    What was captured while it happened, or recovered before, is not kept twice.
    """
    options = Options(
        namespace=request.namespace or hold.namespace,
        tier=request.tier or hold.default_tier,
        include=tuple(request.include),
        dry_run=request.dry_run,
    )
    wanted = recovering.Wanted(
        host=None if request.host == "auto" else request.host,
        transcript=None if request.transcript is None else local_path(request.transcript),
        since=moment(request.since, "since"),
        limit=request.limit,
        sessions=request.sessions,
    )
    done = recovering.recover(hold, wanted, options)
    told = _answer(done.mined, options.namespace, options.tier, request.dry_run)
    return RecoverAnswer(transcripts=[str(path) for path in done.transcripts], **told)


class ToolCall(Struct, frozen=True, forbid_unknown_fields=True):
    """A tool that was called in a turn."""

    tool: Annotated[str, Meta(max_length=256)]
    brief: Annotated[str, Meta(max_length=1024)] | None = None


class CaptureTurn(Request, frozen=True):
    host_session_id: Annotated[str, Meta(min_length=1, max_length=256, description="The host's name for the session.")]
    host_turn_index: Annotated[int, Meta(ge=0, le=(1 << 53) - 1, description="Its number in the session.")]
    role: Annotated[
        Literal["user", "assistant", "tool_use", "tool_result", "system", "other"], Meta(description="Who said it.")
    ]
    content: Annotated[
        str, Meta(min_length=1, max_length=MOST_TURN, description="What was said.", extra={"short": "c", "stdin": True})
    ]
    timestamp_iso: Annotated[Moment, Meta(description="When it was said.")] | None = None
    namespace: Namespace | None = None
    tier: NewTier | None = None
    host_kind: Annotated[str, Meta(min_length=1, max_length=64, description="Such as claude-code.")] = "unknown"
    host_version: Annotated[str, Meta(max_length=64)] | None = None
    tool_calls: Annotated[list[ToolCall], Meta(max_length=64, description="Tools called in it: tool, brief.")] = []
    metadata: Metadata = {}
    agent_id: Actor | None = None


class Captured(Struct, frozen=True, kw_only=True):
    memory_id: str | None
    """Null: nothing was kept, because all of it came from here."""
    dedup_hit: bool
    """The turn was here already."""
    layer: Literal["L4"]
    outcome: Literal["stored", "updated", "unchanged", "joined", "left", "left_out"]
    """New; told otherwise than before; told before; found in a transcript before; put away or rewritten here and left
    so; or left out, since it only repeats what was recalled."""
    notes: list[str]


@operation(
    Effect.WRITE,
    "POST /api/v1/capture_turn",
    family="power",
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
def capture_turn(hold: Hold, request: CaptureTurn) -> Captured:
    """Keep one turn of a conversation as its host tells it, once for each session and number.

    Told again with other words, the memory says those; its history has the ones before.
    """
    moment(request.timestamp_iso, "timestamp_iso")
    calls = [{"tool": one.tool} | ({"brief": one.brief} if one.brief else {}) for one in request.tool_calls]
    host = {"host": request.host_kind} | ({"host_version": request.host_version} if request.host_version else {})
    told = capturing.Told(
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
        namespace=request.namespace or hold.namespace, tier=request.tier or hold.default_tier, route="capture"
    )
    done = capturing.capture(hold, told, options)
    return Captured(
        memory_id=done.memory,
        dedup_hit=done.outcome not in ("stored", "left_out"),
        layer="L4",
        outcome=done.outcome,
        notes=done.notes,
    )
