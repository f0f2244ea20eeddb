"""Exchange changes by file, for stores that cannot reach each other."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.features.sync.bundles.service import read_bundle, write_bundle
from holdfast.features.sync.operations.sync import MAX_ERRORS, RejectedChangeView, list_rejected_views
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.registry.operation import Effect, Example, Request, operation

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


class BundleExportResult(Struct, frozen=True, kw_only=True):
    file: str
    since: int
    next: int
    """Pass this as `since` of the next bundle."""
    changes: int
    states: int
    """Full records whose changes were compacted."""
    bytes: int


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
    done = write_bundle(ctx, request.file, request.since, request.peer)
    return BundleExportResult(
        file=request.file, since=done.since, next=done.upto, changes=done.changes, states=done.states, bytes=done.bytes
    )


class ImportBundle(Request, frozen=True):
    file: BundlePath
    trust_sender: Annotated[bool, Meta(description="Accept a bundle from a store that is not an enrolled peer.")] = (
        False
    )
    trust_source: Annotated[bool, Meta(description="Keep the owners of new memories; otherwise you own them.")] = False
    dry_run: Annotated[bool, Meta(description="Report what would change; change nothing.")] = False


class BundleImportResult(Struct, frozen=True, kw_only=True):
    node: str
    """The node that wrote the bundle."""
    since: int
    next: int
    """The new cursor in that store's journal."""
    imported: int
    """New or changed memories."""
    deletes: int
    links: int
    conflicts: int
    rejected: int
    errors: list[RejectedChangeView]
    dry_run: bool


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
    done = read_bundle(
        ctx, request.file, trust_sender=request.trust_sender, trust_source=request.trust_source, dry_run=request.dry_run
    )
    result = done.result
    return BundleImportResult(
        node=done.head.node,
        since=done.head.since,
        next=done.upto,
        imported=result.memory_count,
        deletes=len(result.deleted_ids),
        links=len(result.links),
        conflicts=result.conflicts,
        rejected=len(result.list_rejected),
        errors=list_rejected_views("here", result)[:MAX_ERRORS],
        dry_run=request.dry_run,
    )
