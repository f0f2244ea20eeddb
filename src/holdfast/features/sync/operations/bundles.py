"""Changes by file, for stores that never meet."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.features.sync.bundles.service import read_bundle, write_bundle
from holdfast.features.sync.operations.sync import MOST_TOLD, NotTaken, not_taken
from holdfast.kernel.context import Hold, Progress
from holdfast.kernel.registry.operation import Effect, Example, Request, operation

BundlePath = Annotated[
    str, Meta(min_length=1, max_length=4096, description="A file, or - for a pipe.", extra={"argument": True})
]


class ExportBundle(Request, frozen=True):
    file: BundlePath
    since: Annotated[
        int, Meta(ge=0, le=(1 << 53) - 1, description="Only what came after this, the `next` of the bundle before.")
    ] = 0
    peer: (
        Annotated[str, Meta(min_length=1, max_length=64, description="Only what this enrolled peer hears of.")] | None
    ) = None


class BundleWritten(Struct, frozen=True, kw_only=True):
    file: str
    since: int
    next: int
    """Give this as `since` of the next bundle."""
    changes: int
    states: int
    """Records whole, whose changes were folded by compact."""
    bytes: int


@operation(
    Effect.READ,
    "POST /api/v1/sync/export-bundle",
    family="other",
    admin=True,
    surfaces=("library", "cli"),
    human="holdfast.features.sync.render:render_bundle_export",
    examples=(
        Example({"file": "no/such/folder/changes.bundle"}, error="STORE_UNREACHABLE"),
        Example({"file": "x.bundle", "since": -1}, error="VALIDATION_FAILED"),
        Example({"file": "x.bundle", "peer": "nobody"}, error="NOT_FOUND"),
        Example({}, error="VALIDATION_FAILED"),
    ),
)
def sync_export_bundle(hold: Hold, request: ExportBundle, progress: Progress) -> BundleWritten:
    """Write what this store can tell others into one file: signed, compressed, whole or not at all.

    Carry it however you like, and take it in with sync import-bundle. Unless it is for a peer it holds everything that
    is behind `since`, private memories included: keep it as you keep the store.
    """
    done = write_bundle(hold, request.file, request.since, request.peer)
    return BundleWritten(
        file=request.file, since=done.since, next=done.upto, changes=done.changes, states=done.states, bytes=done.bytes
    )


class ImportBundle(Request, frozen=True):
    file: BundlePath
    trust_sender: Annotated[bool, Meta(description="Take it from a store that is not enrolled as a peer.")] = False
    trust_source: Annotated[bool, Meta(description="Let memories stay their owners'; otherwise they become yours.")] = (
        False
    )
    dry_run: Annotated[bool, Meta(description="Only say what it would do.")] = False


class BundleTaken(Struct, frozen=True, kw_only=True):
    node: str
    """Whose bundle it is."""
    since: int
    next: int
    """Up to where that store's journal is followed now."""
    imported: int
    """Memories that are new or other than before."""
    deletes: int
    links: int
    conflicts: int
    rejected: int
    errors: list[NotTaken]
    dry_run: bool


@operation(
    Effect.WRITE,
    "POST /api/v1/sync/import-bundle",
    family="other",
    admin=True,
    surfaces=("library", "cli"),
    human="holdfast.features.sync.render:render_bundle_import",
    examples=(Example({"file": "no/such.bundle"}, error="VALIDATION_FAILED"), Example({}, error="VALIDATION_FAILED")),
)
def sync_import_bundle(hold: Hold, request: ImportBundle, progress: Progress) -> BundleTaken:
    """Take in a file that sync export-bundle wrote.

    It is checked to its last byte before anything of it is taken. The same bundle again changes nothing; one that
    leaves something out is refused, and what is missing is named.
    """
    done = read_bundle(
        hold,
        request.file,
        trust_sender=request.trust_sender,
        trust_source=request.trust_source,
        dry_run=request.dry_run,
    )
    taken = done.taken
    return BundleTaken(
        node=done.head.node,
        since=done.head.since,
        next=done.upto,
        imported=taken.memories,
        deletes=len(taken.deleted),
        links=len(taken.links),
        conflicts=taken.conflicts,
        rejected=len(taken.rejected),
        errors=not_taken("here", taken)[:MOST_TOLD],
        dry_run=request.dry_run,
    )
