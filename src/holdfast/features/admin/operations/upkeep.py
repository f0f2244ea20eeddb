"""Backup, restore, garbage collection, health checks and migration."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType, field

from holdfast.features.admin import backup as backup_service
from holdfast.features.admin import migrate_store, retention
from holdfast.features.admin.backup import BackupResult, Snapshot, StoreRestoreResult
from holdfast.features.admin.doctor import DoctorReport, run_checks
from holdfast.features.admin.migrate_store import MigrateResult
from holdfast.features.memories import lifecycle
from holdfast.features.memories.views import notified_or_unset
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.registry.operation import Effect, EmptyRequest, Example, Request, operation
from holdfast.kernel.registry.stages import StageEffects

ADDRESS_DESCRIPTION = "A path, or postgresql://USER:PASSWORD@HOST/DATABASE"


class Backup(Request, frozen=True):
    to: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=4096,
                description="Directory [default: beside the store].",
                extra={"not_on": ("http", "mcp")},
            ),
        ]
        | None
    ) = None
    keep: Annotated[int, Meta(ge=1, le=100_000, description="Snapshots to keep; older ones are removed.")] = (
        backup_service.DEFAULT_KEEP
    )


@operation(
    Effect.WRITE,
    "POST /api/v1/backup",
    aliases=("backup create",),
    human="holdfast.features.admin.render:render_backup",
    admin=True,
    status=201,
    examples=(Example({"keep": 3}), Example({"keep": 0}, error="VALIDATION_FAILED")),
)
def backup(ctx: Context, request: Backup) -> BackupResult:
    """Write a consistent, hashed snapshot of the store while others write."""
    return backup_service.back_up(ctx, request.to, request.keep)


class Snapshots(Struct, frozen=True, kw_only=True):
    snapshots: list[Snapshot]
    unusable: list[str]
    """Snapshots without a readable manifest."""
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/backup",
    cli=("backup", "list"),
    aliases=("backups",),
    admin=True,
    human="holdfast.features.admin.render:render_snapshots",
    examples=(Example({}),),
)
def backup_list(ctx: Context, request: EmptyRequest) -> Snapshots:
    """List the snapshots in the backup directory, newest first."""
    snapshots, unusable = backup_service.list_snapshots(ctx)
    return Snapshots(snapshots=snapshots, unusable=unusable, count=len(snapshots))


class Restore(Request, frozen=True):
    source: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=4096,
            description="Snapshot name; in the CLI also a path, or a directory (its newest snapshot).",
        ),
    ] = field(name="from")
    dry_run: Annotated[bool, Meta(description="Verify the snapshot; change nothing.")] = False


def _parts(ctx: Context, request: Restore) -> StageEffects:
    """A restore can delete and store memories in any namespace."""
    return StageEffects() if request.dry_run else StageEffects().add("delete", ()).add("store", ())


@operation(
    Effect.DESTROY,
    "POST /api/v1/restore",
    cli=("backup", "restore"),
    aliases=("restore",),
    stages=("delete", "store"),
    parts=_parts,
    human="holdfast.features.admin.render:render_restore",
    admin=True,
    irreversible=True,
    examples=(
        Example({"from": "holdfast-20200101T000000.000000Z.db"}, error="NOT_FOUND"),
        Example({}, error="VALIDATION_FAILED"),
        Example({"from": "latest.db", "dry_run": True}, prepared=True),
    ),
)
def restore(ctx: Context, request: Restore) -> StoreRestoreResult:
    """Replace the whole store with a verified snapshot, for every process.

    The current state is saved as a snapshot first. If the snapshot is invalid, nothing changes.
    """
    return backup_service.restore(ctx, request.source, dry_run=request.dry_run)


@operation(
    Effect.READ,
    "GET /api/v1/doctor",
    admin=True,
    human="holdfast.features.admin.render:render_diagnosis",
    examples=(Example({}),),
)
def doctor(ctx: Context, request: EmptyRequest, progress: Progress) -> DoctorReport:
    """Check the health of the store: files, journal, embeddings, peers, backups."""
    return run_checks(ctx)


class Gc(Request, frozen=True):
    dry_run: Annotated[bool, Meta(description="Only report what would change.")] = False


class GcResult(Struct, frozen=True, kw_only=True):
    collected: int
    expired_deleted: int
    usage_dropped: int
    """Model usage records past their retention."""
    task_runs_dropped: int
    runs_dropped: int
    dry_run: bool
    invalidation_notified: list[str] | UnsetType = UNSET
    """Ids of dependents that were flagged stale, as far as you may see them."""


@operation(
    Effect.WRITE,
    "POST /api/v1/gc",
    cli=("admin", "gc"),
    aliases=("gc",),
    examples=(Example({"dry_run": True}), Example({}), Example({"dry_run": "perhaps"}, error="VALIDATION_FAILED")),
)
def gc(ctx: Context, request: Gc, progress: Progress) -> GcResult:
    """Archive expired memories and delete records past their retention."""
    ids = lifecycle.collect_expired_memories(ctx, dry_run=request.dry_run)
    pruned = retention.prune_records(ctx, dry_run=request.dry_run)
    return GcResult(
        collected=len(ids),
        expired_deleted=len(ids),
        usage_dropped=pruned["usage"],
        task_runs_dropped=pruned["task_run"],
        runs_dropped=pruned["run"],
        dry_run=request.dry_run,
        invalidation_notified=notified_or_unset(ctx),
    )


class Migrate(Request, frozen=True):
    to: Annotated[
        str, Meta(min_length=1, max_length=4096, description=f"{ADDRESS_DESCRIPTION}: new, or an unfinished migration.")
    ]
    source: (
        Annotated[
            str, Meta(min_length=1, max_length=4096, description=f"{ADDRESS_DESCRIPTION} [default: the store in use].")
        ]
        | None
    ) = field(default=None, name="from")
    dry_run: Annotated[bool, Meta(description="Report what would be copied; change nothing.")] = False


@operation(
    Effect.WRITE,
    "POST /api/v1/migrate",
    cli=("admin", "migrate"),
    aliases=("migrate",),
    admin=True,
    surfaces=("library", "cli"),
    opens_nothing=True,
    human="holdfast.features.admin.render:render_migration",
    examples=(
        Example({"to": "moved/memory.db", "dry_run": True}),
        Example({"to": "mongodb://elsewhere"}, error="MISCONFIGURED"),
        Example({"to": "moved/memory.db", "from": "no/such/memory.db"}, error="STORE_NOT_FOUND"),
        Example({}, error="VALIDATION_FAILED"),
        Example({"to": "moved.db", "dry_run": True}, prepared=True),
        Example({"to": "moved.db"}, prepared=True),
    ),
)
def migrate(ctx: Context, request: Migrate, progress: Progress) -> MigrateResult:
    """Copy the store to a new file or database and verify every row.

    History and keys are copied too. Other processes can write until the last changes are copied. The source stays
    unchanged. An interrupted migration never leaves a usable target; run it again to continue.
    """
    return migrate_store.move_store(ctx, request.to, request.source, dry_run=request.dry_run)
