"""Import records: which source record became which memory, so that nothing is imported twice."""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from holdfast.kernel.records.fields import ExportAs, Mark, OptionalShortText, Text
from holdfast.kernel.storage.local_table import Export, LocalTable
from holdfast.kernel.storage.port import Session

Route = Literal["mine", "capture"]


class ImportRecord(Struct, frozen=True, kw_only=True):
    """A message or note of a source and its memory."""

    key: Text
    memory: Annotated[str, Meta(max_length=128), Mark.MEMORY]
    route: Annotated[Route, Mark.FIXED]
    utterance_digest: Annotated[Text, ExportAs(name="said")] | None = None
    """Digest of the text within its conversation and speaker."""
    digest: OptionalShortText
    """Digest of the source record."""
    text_digest: OptionalShortText
    """Digest of the stored title and content."""


IMPORT_RECORDS = LocalTable(ImportRecord, "imported_statement", ("key",), export=Export("mined"))


def find_records(session: Session, keys: Sequence[str]) -> dict[str, ImportRecord]:
    """Import records by key."""
    return {one.key: one for one in IMPORT_RECORDS.get_many(session, keys)}


def find_existing_memories(session: Session, ids: Sequence[str]) -> set[str]:
    """Which of these memory ids exist, in any state."""
    return {row[0] for row in session.rows("imported_statement_memories", ids=list(ids))} if ids else set()
