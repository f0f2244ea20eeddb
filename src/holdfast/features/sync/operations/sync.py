"""Sync with another store, the status of all peers, exchange by file, and compaction of history that all have."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.features.sync import compact_journal, read_changes, status
from holdfast.features.sync import conflicts as conflict_service
from holdfast.features.sync.apply_changes import MAX_ERRORS, RejectedChangeView
from holdfast.features.sync.bundles.service import BundleExportResult, BundleImportResult, read_bundle, write_bundle
from holdfast.features.sync.compact_journal import CompactResult
from holdfast.features.sync.exchange import ExchangeResult, sync_with
from holdfast.features.sync.status import SyncStatus
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.journal.journal import DEFAULT_RETENTION_DAYS
from holdfast.kernel.registry.operation import Effect, EmptyRequest, Example, Request, operation


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
    errors = [done.pulled.describe_rejected("here"), done.pushed.describe_rejected("there")]
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


def _count_fields(direction: str, done: ExchangeResult) -> dict[str, Any]:
    match direction:
        case "pull":
            return {"imported": done.pulled.memory_count}
        case "push":
            return {"exported": done.pushed.memory_count}
        case _:
            return {"pulled": done.pulled.memory_count, "pushed": done.pushed.memory_count}


def _plan_fields(direction: str, done: ExchangeResult) -> dict[str, Any]:
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


BundlePath = Annotated[
    str, Meta(min_length=1, max_length=4096, description="A file, or - for a pipe.", extra={"argument": True})
]


class ExportBundle(Request, frozen=True):
    file: BundlePath
    since: Annotated[
        int, Meta(ge=0, le=(1 << 53) - 1, description="Only changes after this point: `next` of the previous bundle.")
    ] = 0
    peer: (
        Annotated[str, Meta(min_length=1, max_length=64, description="Only what this enrolled peer may read.")] | None
    ) = None


@operation(
    Effect.READ,
    "POST /api/v1/sync/export-bundle",
    cli=("sync", "bundle", "export"),
    aliases=("sync-export-bundle", "sync export-bundle"),
    admin=True,
    surfaces=("library", "cli"),
    human="holdfast.features.sync.render:render_bundle_export",
    examples=(
        Example({"file": "no/such/folder/changes.bundle"}, error="STORE_UNREACHABLE"),
        Example({"file": "x.bundle", "since": -1}, error="VALIDATION_FAILED"),
        Example({"file": "x.bundle", "peer": "nobody"}, error="NOT_FOUND"),
        Example({}, error="VALIDATION_FAILED"),
        Example({"file": "to-laptop.bundle"}, prepared=True),
        Example({"file": "to-laptop.bundle", "peer": "laptop"}, prepared=True),
    ),
)
def sync_export_bundle(ctx: Context, request: ExportBundle, progress: Progress) -> BundleExportResult:
    """Write changes to a signed, compressed file for another store.

    The file is complete or not written at all. Import it with `sync bundle import`. Without `peer` it contains
    everything after `since`, private memories included: protect it like the store.
    """
    return write_bundle(ctx, request.file, request.since, request.peer)


class ImportBundle(Request, frozen=True):
    file: BundlePath
    trust_sender: Annotated[bool, Meta(description="Accept a bundle from a store that is not an enrolled peer.")] = (
        False
    )
    trust_source: Annotated[bool, Meta(description="Keep the owners of new memories; otherwise you own them.")] = False
    dry_run: Annotated[bool, Meta(description="Report what would change; change nothing.")] = False


@operation(
    Effect.WRITE,
    "POST /api/v1/sync/import-bundle",
    cli=("sync", "bundle", "import"),
    aliases=("sync-import-bundle", "sync import-bundle"),
    admin=True,
    surfaces=("library", "cli"),
    human="holdfast.features.sync.render:render_bundle_import",
    examples=(
        Example({"file": "no/such.bundle"}, error="VALIDATION_FAILED"),
        Example({}, error="VALIDATION_FAILED"),
        Example({"file": "from-laptop.bundle", "trust_sender": True}, prepared=True),
        Example({"file": "from-laptop.bundle", "trust_sender": True, "dry_run": True}, prepared=True),
    ),
)
def sync_import_bundle(ctx: Context, request: ImportBundle, progress: Progress) -> BundleImportResult:
    """Apply a bundle written by `sync bundle export`.

    The whole file is verified before any change is applied. Importing it again changes nothing. A bundle that would
    leave a gap is rejected, and the error lists the missing changes.
    """
    return read_bundle(
        ctx, request.file, trust_sender=request.trust_sender, trust_source=request.trust_source, dry_run=request.dry_run
    )


class Compact(Request, frozen=True):
    older_than: Annotated[
        int, Meta(ge=0, le=36_500, description="Days of full history to keep, even if every peer has them.")
    ] = DEFAULT_RETENTION_DAYS
    dry_run: Annotated[bool, Meta(description="Report what would change; change nothing.")] = False


@operation(
    Effect.DESTROY,
    "POST /api/v1/compact",
    cli=("admin", "compact"),
    aliases=("compact",),
    admin=True,
    irreversible=True,
    surfaces=("library", "cli", "http"),
    human="holdfast.features.sync.render:render_compaction",
    examples=(
        Example({"dry_run": True}),
        Example({"older_than": -1}, error="VALIDATION_FAILED"),
        Example({"dry_run": True}, prepared=True),
        Example({"older_than": 90}, prepared=True),
    ),
)
def compact(ctx: Context, request: Compact, progress: Progress) -> CompactResult:
    """Compact old history to final states, once every enrolled peer has it.

    No memory changes, and `verify` still proves the rest. Undo, history and known_at reach back to the compaction
    point. Runs in short transactions, so others can write; if interrupted, run it again to continue.
    """
    return compact_journal.compact(ctx, request.older_than, dry_run=request.dry_run)
