"""Operations on the journal: history, undo, verify and the change feed."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.history import event
from holdfast.features.history import service as past
from holdfast.features.history.list_changes import Change, change_of
from holdfast.features.reflections.operations.invalidations import notified
from holdfast.kernel.context import Hold, Progress
from holdfast.kernel.journal import journal
from holdfast.kernel.registry.fields import Id, Limit
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.registry.stages import Parts
from holdfast.kernel.timestamps import to_text

Sequence = Annotated[int, Meta(ge=0, le=(1 << 53) - 1, description="Only changes after this sequence number.")]


class History(Request, frozen=True):
    id: Id
    after: Sequence = 0
    limit: Limit = 100


class HistoryPage(Struct, frozen=True, kw_only=True):
    changes: list[Change]
    count: int
    folded_before: str | UnsetType = UNSET
    """Changes before this time were compacted; only their final state is kept."""


@operation(
    Effect.READ,
    "GET /api/v1/memories/{id}/history",
    family="meta",
    human="holdfast.features.history.render:render_history",
    examples=(Example({"id": "no-such-memory"}, error="NOT_FOUND"),),
)
def history(hold: Hold, request: History) -> HistoryPage:
    """List every change of a memory, oldest first."""
    with hold.reading() as session:
        entries = past.entries_of(hold, session, request.id, after=request.after, limit=request.limit)
        since = past.folded_before(session, entries[0]) if entries else None
    return HistoryPage(
        changes=[change_of(entry) for entry in entries],
        count=len(entries),
        folded_before=UNSET if since is None else to_text(since),
    )


class Undo(Request, frozen=True):
    change: Annotated[
        int, Meta(ge=1, le=(1 << 53) - 1, description="Sequence number of the change.", extra={"argument": True})
    ]
    together: Annotated[bool, Meta(description="Undo everything committed in the same transaction.")] = False


class Undone(Struct, frozen=True, kw_only=True):
    undone: int
    change: int
    """The change that recorded the undo; undo this one to redo."""
    kind: str
    record: str
    version: int
    count: int
    """Number of changes undone."""
    invalidation_notified: list[str] | UnsetType = UNSET
    """Dependents flagged as stale, as far as the caller may see them."""


def _parts(hold: Hold, request: Undo) -> Parts:
    return past.parts_of_undo(hold, request.change, together=request.together)


@operation(
    Effect.WRITE,
    "POST /api/v1/undo",
    family="lifecycle",
    stages=("store", "delete", "link"),
    parts=_parts,
    human="holdfast.features.history.render:render_undo",
    examples=(Example({"change": 999_999}, error="NOT_FOUND"),),
)
def undo(hold: Hold, request: Undo) -> Undone:
    """Undo a change. The undo is a new change and can be undone too."""
    outcome = past.undo(hold, request.change, together=request.together)
    return Undone(
        undone=outcome.entry.seq,
        change=outcome.place,
        kind=outcome.entry.kind,
        record=outcome.entry.record,
        version=outcome.record.version,
        count=outcome.changes,
        invalidation_notified=notified(hold),
    )


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


class Verified(Struct, frozen=True, kw_only=True):
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
    family="meta",
    human="holdfast.features.history.render:render_verification",
    examples=(Example({}), Example({"witness": "nonsense"}, error="VALIDATION_FAILED")),
)
def verify(hold: Hold, request: Verify, progress: Progress) -> Verified:
    """Check the journal for edited, removed, reordered or truncated entries."""
    with hold.reading() as session:
        found = past.verify(hold, session, request.witness)
        head = journal.head_of(session)
        signers = len({public_key for _, public_key, _ in session.rows("signer_list")})
    return Verified(
        intact=not found,
        entries=head.seq,
        head=f"{head.seq}:{head.hash.hex()}",
        node=head.node,
        signers=signers,
        findings=[Finding(seq=one.seq, what=one.what) for one in found[:1000]],
    )


EventNames = Annotated[
    list[Annotated[str, Meta(max_length=64)]],
    Meta(max_length=event.MOST_EVENTS, description="Only these events: memory_store, memory_*, ... (default: all)."),
]
EventPlace = Annotated[
    str, Meta(min_length=1, max_length=512, description="Only this namespace or pattern: team/project, or team/**.")
]
EventAgent = Annotated[str, Meta(min_length=1, max_length=128, description="Only changes made by this agent.")]


class Events(Request, frozen=True):
    after: Sequence = 0
    limit: Limit = 100
    events: EventNames = []
    namespace: EventPlace | None = None
    agent_filter: EventAgent | None = None


class EventPage(Struct, frozen=True, kw_only=True):
    events: list[Change]
    count: int
    next: int


@operation(
    Effect.READ,
    "GET /api/v1/events",
    family="meta",
    feed=True,
    human="holdfast.features.history.render:render_events",
    examples=(
        Example({"after": 0, "limit": 10}),
        Example({"events": ["memory_store", "memory_link_*"], "namespace": "team/**"}),
        Example({"limit": 0}, error="VALIDATION_FAILED"),
        Example({"events": ["memory_stored"]}, error="VALIDATION_FAILED"),
    ),
)
def events(hold: Hold, request: Events) -> EventPage:
    """List changes by sequence number, with the same filters as subscriptions."""
    event_filter = event.admit(request.events, request.namespace, request.agent_filter)
    with hold.reading() as session:
        entries, reached = past.wanted_feed(hold, session, event_filter, after=request.after, limit=request.limit)
    return EventPage(events=[change_of(entry) for entry in entries], count=len(entries), next=reached)
