"""Operations on the journal: history, undo, verify and the change feed."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.features.history import event, service
from holdfast.features.history.service import Change, UndoResult, build_change
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.journal import journal
from holdfast.kernel.registry.fields import Id, Limit
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.registry.stages import StageEffects
from holdfast.kernel.timestamps import Time

AfterSequence = Annotated[int, Meta(ge=0, le=(1 << 53) - 1, description="Only changes after this sequence number.")]


class History(Request, frozen=True):
    id: Id
    after: AfterSequence = 0
    limit: Limit = 100


class HistoryPage(Struct, frozen=True, kw_only=True):
    changes: list[Change]
    count: int
    folded_before: Time | None = None
    """Changes before this time were compacted; only their final state is kept."""


@operation(
    Effect.READ,
    "GET /api/v1/memories/{id}/history",
    human="holdfast.features.history.render:render_history",
    examples=(
        Example({"id": "no-such-memory"}, error="NOT_FOUND"),
        Example({"id": "1f3a9c20"}, prepared=True),
        Example({"id": "1f3a9c20", "limit": 5}, prepared=True),
    ),
)
def history(ctx: Context, request: History) -> HistoryPage:
    """List every change of a memory, oldest first."""
    with ctx.reading() as session:
        entries = service.list_entries(ctx, session, request.id, after=request.after, limit=request.limit)
        since = service.find_compaction_time(session, entries[0]) if entries else None
    return HistoryPage(changes=[build_change(entry) for entry in entries], count=len(entries), folded_before=since)


class Undo(Request, frozen=True):
    change: Annotated[
        int, Meta(ge=1, le=(1 << 53) - 1, description="Sequence number of the change.", extra={"argument": True})
    ]
    together: Annotated[bool, Meta(description="Undo everything committed in the same transaction.")] = False


def _list_undo_parts(ctx: Context, request: Undo) -> StageEffects:
    return service.list_undo_parts(ctx, request.change, together=request.together)


@operation(
    Effect.WRITE,
    "POST /api/v1/undo",
    stages=("store", "delete", "link"),
    parts=_list_undo_parts,
    human="holdfast.features.history.render:render_undo",
    examples=(
        Example({"change": 999_999}, error="NOT_FOUND"),
        Example({"change": 3}, prepared=True),
        Example({"change": 3, "together": True}, prepared=True),
    ),
)
def undo(ctx: Context, request: Undo) -> UndoResult:
    """Undo a change. The undo is a new change and can be undone too."""
    return service.undo(ctx, request.change, together=request.together)


class Verify(Request, frozen=True):
    witness: (
        Annotated[
            str,
            Meta(
                max_length=128,
                pattern="^[0-9]{1,16}:[0-9a-f]{64}$",
                description="seq:hash of an earlier head, saved outside the store.",
            ),
        ]
        | None
    ) = None


class Finding(Struct, frozen=True, kw_only=True):
    seq: int
    what: str


class VerifyResult(Struct, frozen=True, kw_only=True):
    intact: bool
    entries: int
    head: str
    """seq:hash of the newest entry. Save it elsewhere and pass it as `witness` later."""
    node: str
    signers: int
    """Number of signing keys; more than one after a copy or restore."""
    findings: list[Finding]


@operation(
    Effect.READ,
    "GET /api/v1/verify",
    cli=("admin", "verify"),
    aliases=("verify", "verify-signed-events-chain"),
    human="holdfast.features.history.render:render_verification",
    examples=(Example({}), Example({"witness": "nonsense"}, error="VALIDATION_FAILED")),
)
def verify(ctx: Context, request: Verify, progress: Progress) -> VerifyResult:
    """Check the journal for edited, removed, reordered or truncated entries."""
    with ctx.reading() as session:
        found = service.verify(ctx, session, request.witness)
        head = journal.get_head(session)
        signers = len({public_key for _, public_key, _ in session.rows("signer_list")})
    return VerifyResult(
        intact=not found,
        entries=head.seq,
        head=f"{head.seq}:{head.hash.hex()}",
        node=head.node,
        signers=signers,
        findings=[Finding(seq=one.seq, what=one.message) for one in found[:1000]],
    )


EventNames = Annotated[
    list[Annotated[str, Meta(max_length=64)]],
    Meta(max_length=event.MAX_EVENTS, description="Only these events: memory_store, memory_*, ... (default: all)."),
]
EventNamespace = Annotated[
    str, Meta(min_length=1, max_length=512, description="Only this namespace or pattern: team/project, or team/**.")
]
EventAgent = Annotated[str, Meta(min_length=1, max_length=128, description="Only changes made by this agent.")]


class Events(Request, frozen=True):
    after: AfterSequence = 0
    limit: Limit = 100
    events: EventNames = []
    namespace: EventNamespace | None = None
    agent_filter: EventAgent | None = None


class EventPage(Struct, frozen=True, kw_only=True):
    events: list[Change]
    count: int
    next: int


@operation(
    Effect.READ,
    "GET /api/v1/events",
    cli=("history", "events"),
    aliases=("events",),
    feed=True,
    human="holdfast.features.history.render:render_events",
    examples=(
        Example({"after": 0, "limit": 10}),
        Example({"events": ["memory_store", "memory_link_*"], "namespace": "team/**"}),
        Example({"limit": 0}, error="VALIDATION_FAILED"),
        Example({"events": ["memory_stored"]}, error="VALIDATION_FAILED"),
        Example({"limit": 10}, prepared=True),
        Example({"events": ["memory_store", "memory_link_*"], "namespace": "shop/**"}, prepared=True),
    ),
)
def events(ctx: Context, request: Events) -> EventPage:
    """List changes by sequence number, with the same filters as subscriptions."""
    event_filter = event.build_event_filter(request.events, request.namespace, request.agent_filter)
    with ctx.reading() as session:
        entries, reached = service.read_filtered_feed(
            ctx, session, event_filter, after=request.after, limit=request.limit
        )
    return EventPage(events=[build_change(entry) for entry in entries], count=len(entries), next=reached)
