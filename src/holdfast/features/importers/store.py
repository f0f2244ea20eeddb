"""Import records: which source record became which memory, so that nothing is imported twice."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from holdfast.kernel.storage.port import Session

Route = Literal["mine", "capture"]


class Mined(NamedTuple):
    """A message or note of a source and its memory."""

    key: str
    memory: str
    route: Route
    said: str | None
    """Digest of the text within its conversation and speaker."""
    digest: str
    """Digest of the source record."""
    text_digest: str
    """Digest of the stored title and content."""


def known(session: Session, keys: Sequence[str]) -> dict[str, Mined]:
    """Import records by key."""
    return {row[0]: Mined(*row) for row in session.rows("mined_known", keys=list(keys))} if keys else {}


def saying(session: Session, said: str) -> list[Mined]:
    """Import records of the same utterance."""
    return [Mined(*row) for row in session.rows("mined_saying", said=said)]


def there(session: Session, ids: Sequence[str]) -> set[str]:
    """Which of these memory ids exist, in any state."""
    return {row[0] for row in session.rows("mined_there", ids=list(ids))} if ids else set()


def put(session: Session, mined: Iterable[Mined]) -> None:
    session.many("mined_put", (one._asdict() for one in mined))
