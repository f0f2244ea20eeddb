"""Migrate the whole store to another file or database."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType, field

from holdfast.features.admin import migrate_store
from holdfast.kernel.context import Context, Progress
from holdfast.kernel.registry.operation import Effect, Example, Request, operation

ADDRESS_DESCRIPTION = "A path, or postgresql://USER:PASSWORD@HOST/DATABASE"


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


class MigratedTable(Struct, frozen=True, kw_only=True):
    table: str
    rows: int
    sha256: str | UnsetType = UNSET
    """Digest of all rows in key order; equal on both sides."""


class MigrateResult(Struct, frozen=True, kw_only=True):
    moved: bool
    source: str
    target: str
    tables: list[MigratedTable]
    rows: int
    sha256: str | UnsetType = UNSET
    """Digest of the table digests."""
    resumed: bool
    """Continued an earlier migration: only differing rows were copied."""
    dry_run: bool


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
    done = migrate_store.move_store(ctx, request.to, request.source, dry_run=request.dry_run)
    return MigrateResult(
        moved=not request.dry_run,
        source=done.source,
        target=done.target,
        tables=[MigratedTable(table=one.table, rows=one.rows, sha256=one.digest or UNSET) for one in done.tables],
        rows=done.rows,
        sha256=UNSET if request.dry_run else done.digest,
        resumed=done.resumed,
        dry_run=request.dry_run,
    )
