"""Import records: which source record became which memory, so that nothing is imported twice."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from holdfast.kernel.storage.port import Session

Route = Literal["mine", "capture"]


class ImportRecord(NamedTuple):
    """A message or note of a source and its memory."""

    key: str
    memory: str
    route: Route
    utterance_digest: str | None
    """Digest of the text within its conversation and speaker."""
    digest: str
    """Digest of the source record."""
    text_digest: str
    """Digest of the stored title and content."""


def find_records(session: Session, keys: Sequence[str]) -> dict[str, ImportRecord]:
    """Import records by key."""
    return (
        {row[0]: ImportRecord(*row) for row in session.rows("imported_statement_by_keys", keys=list(keys))}
        if keys
        else {}
    )


def find_same_utterance(session: Session, utterance_digest: str) -> list[ImportRecord]:
    """Import records of the same utterance."""
    return [
        ImportRecord(*row)
        for row in session.rows("imported_statement_same_utterance", utterance_digest=utterance_digest)
    ]


def find_existing_memories(session: Session, ids: Sequence[str]) -> set[str]:
    """Which of these memory ids exist, in any state."""
    return {row[0] for row in session.rows("imported_statement_memories", ids=list(ids))} if ids else set()


def put_records(session: Session, records: Iterable[ImportRecord]) -> None:
    session.many("imported_statement_put", (one._asdict() for one in records))
