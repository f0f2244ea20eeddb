"""Moving the whole store."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType, field

from holdfast.features.admin import migrate_store as move
from holdfast.kernel.context import Hold, Progress
from holdfast.kernel.registry.operation import Effect, Example, Request, operation

ADDRESS = "A path, or postgresql://USER:PASSWORD@HOST/DATABASE"


class Migrate(Request, frozen=True):
    to: Annotated[str, Meta(min_length=1, max_length=4096, description=f"{ADDRESS}: new, or what a move left.")]
    source: (
        Annotated[str, Meta(min_length=1, max_length=4096, description=f"{ADDRESS} [default: the store in use].")]
        | None
    ) = field(default=None, name="from")
    dry_run: Annotated[bool, Meta(description="Only say what it would do.")] = False


class TableMoved(Struct, frozen=True, kw_only=True):
    table: str
    rows: int
    sha256: str | UnsetType = UNSET
    """Over every row in the order of their keys; the same on both sides."""


class StoreMoved(Struct, frozen=True, kw_only=True):
    moved: bool
    source: str
    target: str
    tables: list[TableMoved]
    rows: int
    sha256: str | UnsetType = UNSET
    """Over the digests of the tables."""
    resumed: bool
    """An earlier move had been begun there: only what differed was copied."""
    dry_run: bool


@operation(
    Effect.WRITE,
    "POST /api/v1/migrate",
    family="other",
    admin=True,
    surfaces=("library", "cli"),
    opens_nothing=True,
    human="holdfast.features.admin.render:render_migration",
    examples=(
        Example({"to": "moved/memory.db", "dry_run": True}),
        Example({"to": "mongodb://elsewhere"}, error="MISCONFIGURED"),
        Example({"to": "moved/memory.db", "from": "no/such/memory.db"}, error="STORE_NOT_FOUND"),
        Example({}, error="VALIDATION_FAILED"),
    ),
)
def migrate(hold: Hold, request: Migrate, progress: Progress) -> StoreMoved:
    """Move the whole store, with its history and keys, to a new file or database, and compare every row.

    Others may write meanwhile, until the last changes are copied. The source stays as it is. If this is interrupted,
    nobody takes the target for a store; run it again to go on.
    """
    done = move.move(hold, request.to, request.source, dry_run=request.dry_run)
    return StoreMoved(
        moved=not request.dry_run,
        source=done.source,
        target=done.target,
        tables=[TableMoved(table=one.table, rows=one.rows, sha256=one.digest or UNSET) for one in done.tables],
        rows=done.rows,
        sha256=UNSET if request.dry_run else done.digest,
        resumed=done.resumed,
        dry_run=request.dry_run,
    )
