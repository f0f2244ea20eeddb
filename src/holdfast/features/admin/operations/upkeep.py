"""Backup, restore and health checks."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field

from holdfast.features.admin import backup as backup_service
from holdfast.features.admin import doctor as doctor_service
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.registry.operation import Effect, EmptyRequest, Example, Request, operation
from holdfast.kernel.registry.stages import StageEffects
from holdfast.kernel.timestamps import TimeText


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


class Snapshot(Struct, frozen=True, kw_only=True):
    snapshot: str
    sha256: str
    bytes: int
    source: str
    version: str
    created_at: TimeText
    reason: str | UnsetType = UNSET


class BackupResult(Snapshot, frozen=True, kw_only=True):
    path: str
    pruned: list[str]


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
    done = backup_service.back_up(ctx, request.to, request.keep)
    return BackupResult(**snapshot_fields(done.manifest), path=str(done.path), pruned=done.pruned)


def snapshot_fields(manifest: backup_service.Manifest) -> dict[str, Any]:
    return {name: getattr(manifest, name) for name in Snapshot.__struct_fields__}


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
    manifests, unusable = backup_service.list_snapshots(ctx)
    return Snapshots(
        snapshots=[Snapshot(**snapshot_fields(manifest)) for manifest in manifests],
        unusable=unusable,
        count=len(manifests),
    )


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


class StoreRestoreResult(Struct, frozen=True, kw_only=True):
    restored: bool
    snapshot: str
    sha256: str
    created_at: TimeText
    dry_run: bool
    before: str | UnsetType = UNSET
    """The snapshot taken before the restore; restore it to go back."""
    origin: str | UnsetType = UNSET


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
    done = backup_service.restore(ctx, request.source, dry_run=request.dry_run)
    return StoreRestoreResult(
        restored=done.before is not None,
        snapshot=done.manifest.snapshot,
        sha256=done.manifest.sha256,
        created_at=done.manifest.created_at,
        dry_run=request.dry_run,
        before=UNSET if done.before is None else done.before.snapshot,
        origin=UNSET if done.origin is None else done.origin,
    )


class FindingView(Struct, frozen=True, kw_only=True):
    severity: doctor_service.Severity
    what: str


class SectionView(Struct, frozen=True, kw_only=True):
    name: str
    severity: doctor_service.Severity
    findings: list[FindingView]
    facts: dict[str, Any]


class DoctorReport(Struct, frozen=True, kw_only=True):
    status: doctor_service.Severity
    """The worst severity of all sections."""
    sections: list[SectionView]


@operation(
    Effect.READ,
    "GET /api/v1/doctor",
    admin=True,
    human="holdfast.features.admin.render:render_diagnosis",
    examples=(Example({}),),
)
def doctor(ctx: Context, request: EmptyRequest, progress: Progress) -> DoctorReport:
    """Check the health of the store: files, journal, embeddings, peers, backups."""
    sections = doctor_service.run_checks(ctx)
    return DoctorReport(
        status=doctor_service.find_worst(section.severity for section in sections),
        sections=[
            SectionView(
                name=section.name,
                severity=section.severity,
                findings=[FindingView(severity=one.severity, what=one.what) for one in section.findings],
                facts=section.facts,
            )
            for section in sections
        ],
    )
