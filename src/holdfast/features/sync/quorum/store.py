"""Table of local changes with too few acknowledgements."""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.kernel.journal.journal import Place
from holdfast.kernel.records.change import Name
from holdfast.kernel.storage.port import Session

LAST = (1 << 63) - 1


class Unreplicated(NamedTuple):
    seq: int
    name: Name
    kind: str
    record: str
    since: int


def mark(session: Session, places: Sequence[Place], origin: str, now: int) -> None:
    """Mark the own changes among new journal entries as pending."""
    session.do("unreplicated_add", first=places[0].seq, last=places[-1].seq, origin=origin, now=now)


def marked(session: Session, first: int = 0, last: int = LAST) -> list[Unreplicated]:
    rows = session.rows("unreplicated_list", first=first, last=last)
    return [Unreplicated(seq, Name(origin, n), kind, record, since) for seq, origin, n, kind, record, since in rows]


def clear(session: Session, seqs: Sequence[int]) -> None:
    session.do("unreplicated_drop", seqs=list(seqs))


def waiting(session: Session) -> tuple[int, int | None]:
    """Count the pending changes; also return the time of the oldest."""
    row = session.row("unreplicated_count")
    assert row is not None
    return row[0], row[1]
