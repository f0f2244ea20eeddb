"""What was taken from elsewhere, by which way, and what it said then: so that nothing is taken twice."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from holdfast.kernel.storage.port import Session

Route = Literal["mine", "capture"]


class Mined(NamedTuple):
    """A message or note of elsewhere and what it became."""

    key: str
    memory: str
    route: Route
    said: str | None
    """The same for whatever is said alike in one conversation by one speaker."""
    digest: str
    """Of all that the source said."""
    text_digest: str
    """Of the content as it was kept."""


def known(session: Session, keys: Sequence[str]) -> dict[str, Mined]:
    """What became of some messages, by their keys."""
    return {row[0]: Mined(*row) for row in session.rows("mined_known", keys=list(keys))} if keys else {}


def saying(session: Session, said: str) -> list[Mined]:
    """Everything that says the same in the same conversation."""
    return [Mined(*row) for row in session.rows("mined_saying", said=said)]


def there(session: Session, ids: Sequence[str]) -> set[str]:
    """Which of some memories are here, in whatever state."""
    return {row[0] for row in session.rows("mined_there", ids=list(ids))} if ids else set()


def put(session: Session, mined: Iterable[Mined]) -> None:
    session.many("mined_put", (one._asdict() for one in mined))
