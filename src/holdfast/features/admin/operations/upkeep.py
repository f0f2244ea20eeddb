"""Backup, restore and health checks."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field

from holdfast.features.admin import backup as backing
from holdfast.features.admin import doctor as examining
from holdfast.kernel.context import Hold, Progress
from holdfast.kernel.registry.operation import Effect, Example, Nothing, Request, operation
from holdfast.kernel.registry.stages import Parts


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
        backing.KEEP
    )


class Snapshot(Struct, frozen=True, kw_only=True):
    snapshot: str
    sha256: str
    bytes: int
    source: str
    version: str
    created_at: str
    reason: str | UnsetType = UNSET


class BackedUp(Snapshot, frozen=True, kw_only=True):
    path: str
    pruned: list[str]


@operation(
    Effect.WRITE,
    "POST /api/v1/backup",
    family="other",
    human="holdfast.features.admin.render:render_backup",
    admin=True,
    status=201,
    examples=(Example({"keep": 3}), Example({"keep": 0}, error="VALIDATION_FAILED")),
)
def backup(hold: Hold, request: Backup) -> BackedUp:
    """Write a consistent, hashed snapshot of the store while others write."""
    done = backing.back_up(hold, request.to, request.keep)
    return BackedUp(**snapshot_fields(done.manifest), path=str(done.path), pruned=done.pruned)


def snapshot_fields(manifest: backing.Manifest) -> dict[str, Any]:
    return {name: getattr(manifest, name) for name in Snapshot.__struct_fields__}


class Snapshots(Struct, frozen=True, kw_only=True):
    snapshots: list[Snapshot]
    unusable: list[str]
    """Snapshots without a readable manifest."""
    count: int


@operation(
    Effect.READ,
    "GET /api/v1/backup",
    family="other",
    admin=True,
    cli=("backups",),
    human="holdfast.features.admin.render:render_snapshots",
    examples=(Example({}),),
)
def backup_list(hold: Hold, request: Nothing) -> Snapshots:
    """List the snapshots in the backup directory, newest first."""
    found, unusable = backing.listed(hold)
    return Snapshots(
        snapshots=[Snapshot(**snapshot_fields(manifest)) for manifest in found], unusable=unusable, count=len(found)
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


class StoreRestored(Struct, frozen=True, kw_only=True):
    restored: bool
    snapshot: str
    sha256: str
    created_at: str
    dry_run: bool
    before: str | UnsetType = UNSET
    """The snapshot taken before the restore; restore it to go back."""
    origin: str | UnsetType = UNSET


def _parts(hold: Hold, request: Restore) -> Parts:
    """A restore can delete and store memories in any namespace."""
    return Parts() if request.dry_run else Parts().add("delete", ()).add("store", ())


@operation(
    Effect.DESTROY,
    "POST /api/v1/restore",
    family="other",
    stages=("delete", "store"),
    parts=_parts,
    human="holdfast.features.admin.render:render_restore",
    admin=True,
    irreversible=True,
    examples=(
        Example({"from": "holdfast-20200101T000000.000000Z.db"}, error="NOT_FOUND"),
        Example({}, error="VALIDATION_FAILED"),
    ),
)
def restore(hold: Hold, request: Restore) -> StoreRestored:
    """Replace the whole store with a verified snapshot, for every process.

    The current state is saved as a snapshot first. If the snapshot is invalid, nothing changes.
    """
    done = backing.restore(hold, request.source, dry_run=request.dry_run)
    return StoreRestored(
        restored=done.before is not None,
        snapshot=done.manifest.snapshot,
        sha256=done.manifest.sha256,
        created_at=done.manifest.created_at,
        dry_run=request.dry_run,
        before=UNSET if done.before is None else done.before.snapshot,
        origin=UNSET if done.origin is None else done.origin,
    )


class Ailment(Struct, frozen=True, kw_only=True):
    severity: examining.Severity
    what: str


class SectionView(Struct, frozen=True, kw_only=True):
    name: str
    severity: examining.Severity
    findings: list[Ailment]
    facts: dict[str, Any]


class Diagnosis(Struct, frozen=True, kw_only=True):
    status: examining.Severity
    """The worst severity of all sections."""
    sections: list[SectionView]


@operation(
    Effect.READ,
    "GET /api/v1/doctor",
    family="meta",
    admin=True,
    human="holdfast.features.admin.render:render_diagnosis",
    examples=(Example({}),),
)
def doctor(hold: Hold, request: Nothing, progress: Progress) -> Diagnosis:
    """Check the health of the store: files, journal, embeddings, peers, backups."""
    sections = examining.examine(hold)
    return Diagnosis(
        status=examining.worst(section.severity for section in sections),
        sections=[
            SectionView(
                name=section.name,
                severity=section.severity,
                findings=[Ailment(severity=one.severity, what=one.what) for one in section.findings],
                facts=section.facts,
            )
            for section in sections
        ],
    )
