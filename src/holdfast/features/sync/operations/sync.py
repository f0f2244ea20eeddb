"""Sync with another store, and the status of all peers."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.sync import conflicts as conflict_service
from holdfast.features.sync import read_changes, status
from holdfast.features.sync.apply_changes import SyncResult
from holdfast.features.sync.exchange import ExchangeResult, sync_with
from holdfast.features.sync.status import SyncStatus
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.registry.operation import Effect, EmptyRequest, Example, Request, operation

MAX_ERRORS = 100
"""Rejected changes listed in a response; all of them are in quarantine."""


class Sync(Request, frozen=True):
    remote: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=4096,
            description="The other store: a path, postgresql://USER:PASSWORD@HOST/DATABASE, or https://HOST:PORT.",
            extra={"argument": True},
        ),
    ]
    direction: Annotated[
        Literal["pull", "push", "merge"],
        Meta(description="pull: get missing changes; push: send them; merge: both.", extra={"short": "d"}),
    ] = "merge"
    trust_source: Annotated[bool, Meta(description="Keep the owners of pulled memories; otherwise you own them.")] = (
        False
    )
    dry_run: Annotated[bool, Meta(description="Report what would change; change nothing.")] = False


class SyncPlan(Struct, frozen=True, kw_only=True):
    """What a sync would do to memories and links in one direction."""

    new: int
    update: int
    noop: int
    links: int


class RejectedChangeView(Struct, frozen=True, kw_only=True):
    """A change that one of the stores rejected."""

    by: Literal["here", "there"]
    kind: str
    record: str
    origin: str
    number: int
    reason: str
    detail: str


class SyncReport(Struct, frozen=True, kw_only=True):
    direction: str
    deletes: int
    """Memories deleted on either side by this sync, or that arrived deleted."""
    links: int
    conflicts: int
    rejected: int
    errors: list[RejectedChangeView]
    forked: list[str]
    """Forked origins of third stores: the two stores have different changes with the same numbers, because a database
    file was copied. The store that owns the origin repairs it when it syncs."""
    given_again: int | UnsetType = UNSET
    """Changes that a restored store reissued under a new incarnation."""
    dry_run: bool | UnsetType = UNSET
    imported: int | UnsetType = UNSET
    exported: int | UnsetType = UNSET
    pulled: int | UnsetType = UNSET
    pushed: int | UnsetType = UNSET
    pull: SyncPlan | UnsetType = UNSET
    push: SyncPlan | UnsetType = UNSET


@operation(
    Effect.WRITE,
    "POST /api/v1/sync",
    admin=True,
    surfaces=("library", "cli"),
    human="holdfast.features.sync.render:render_sync",
    examples=(
        Example({"remote": "no/such/memory.db"}, error="STORE_NOT_FOUND"),
        Example({"remote": "x.db", "direction": "sideways"}, error="VALIDATION_FAILED"),
        Example({}, error="VALIDATION_FAILED"),
        Example({"remote": "laptop.db"}, prepared=True),
        Example({"remote": "laptop.db", "direction": "pull", "dry_run": True}, prepared=True),
    ),
)
def sync(ctx: Context, request: Sync, progress: Progress) -> SyncReport:
    """Exchange missing changes with another store.

    Concurrent edits keep both values: the newer is shown, the other becomes a conflict. If interrupted, run it again
    to continue.
    """
    done = sync_with(ctx, request.remote, request.direction, dry_run=request.dry_run, trust_source=request.trust_source)
    sides = (done.pulled, done.pushed)
    errors = [list_rejected_views("here", done.pulled), list_rejected_views("there", done.pushed)]
    return SyncReport(
        direction=request.direction,
        deletes=sum(len(side.deleted_ids) for side in sides),
        links=sum(len(side.links) for side in sides),
        conflicts=done.conflicts,
        rejected=sum(len(side.list_rejected) for side in sides),
        errors=[one for many in errors for one in many][:MAX_ERRORS],
        forked=sorted(done.forked_origins),
        given_again=sum(one.renamed_count for one in done.repairs) if done.repairs else UNSET,
        **(_plan_fields(request.direction, done) if request.dry_run else _count_fields(request.direction, done)),
    )


def list_rejected_views(by: Literal["here", "there"], result: "SyncResult") -> list[RejectedChangeView]:
    return [
        RejectedChangeView(
            by=by,
            kind=one.change.kind,
            record=one.change.record,
            origin=one.change.origin,
            number=one.change.n,
            reason=one.reason,
            detail=one.detail,
        )
        for one in result.list_rejected[:MAX_ERRORS]
    ]


def _count_fields(direction: str, done: "ExchangeResult") -> dict[str, Any]:
    match direction:
        case "pull":
            return {"imported": done.pulled.memory_count}
        case "push":
            return {"exported": done.pushed.memory_count}
        case _:
            return {"pulled": done.pulled.memory_count, "pushed": done.pushed.memory_count}


def _plan_fields(direction: str, done: "ExchangeResult") -> dict[str, Any]:
    plans = {"pull": done.pulled, "push": done.pushed}
    selected = plans if direction == "merge" else {direction: plans[direction]}
    return {"dry_run": True} | {
        name: SyncPlan(
            new=len(result.new),
            update=result.memory_count - len(result.new),
            noop=len(result.unchanged - result.updated - result.new),
            links=len(result.links),
        )
        for name, result in selected.items()
    }


class SyncDigest(Struct, frozen=True, kw_only=True):
    node: str
    origin: str
    seq: int
    digest: str
    """Equal on two stores if and only if all replicated data is equal."""
    vector: dict[str, int]
    quarantined: int
    conflicts: int


@operation(
    Effect.READ,
    "GET /api/v1/sync/digest",
    cli=("sync", "digest"),
    aliases=("sync-digest",),
    admin=True,
    examples=(Example({}),),
)
def sync_digest(ctx: Context, request: EmptyRequest) -> SyncDigest:
    """Print the digest of this store, to compare it with another."""
    ctx.caller.require_all_namespaces()
    with ctx.reading() as session:
        greeting = read_changes.build_handshake(session, ctx.now())
        return SyncDigest(
            node=greeting.node,
            origin=greeting.origin,
            seq=greeting.seq,
            digest=read_changes.compute_digest(session),
            vector={origin: reached.n for origin, reached in greeting.vector.items()},
            quarantined=len(session.rows("quarantine_list")),
            conflicts=conflict_service.list_conflicts(ctx, session, limit=1, skip=0)[1],
        )


@operation(
    Effect.READ,
    "GET /api/v1/sync/status",
    cli=("sync", "status"),
    aliases=("sync-status",),
    admin=True,
    human="holdfast.features.sync.render:render_sync_status",
    examples=(Example({}),),
)
def sync_status(ctx: Context, request: EmptyRequest) -> SyncStatus:
    """Show how far this store and its peers lag, and the last exchanges."""
    ctx.caller.require_all_namespaces()
    return status.read_status(ctx)
