"""Table of local changes with too few acknowledgements."""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.kernel.journal.journal import Position
from holdfast.kernel.records.change import ChangeId
from holdfast.kernel.storage.port import Session

MAX_SEQ = (1 << 63) - 1


class UnackedChange(NamedTuple):
    seq: int
    name: ChangeId
    kind: str
    record: str
    since: int


def mark_pending(session: Session, places: Sequence[Position], origin: str, now: int) -> None:
    """Mark the own changes among new journal entries as pending."""
    session.do("pending_ack_add", first=places[0].seq, last=places[-1].seq, origin=origin, now=now)


def list_pending(session: Session, first: int = 0, last: int = MAX_SEQ) -> list[UnackedChange]:
    rows = session.rows("pending_ack_list", first=first, last=last)
    return [
        UnackedChange(seq, ChangeId(origin, n), kind, record, since) for seq, origin, n, kind, record, since in rows
    ]


def clear_pending(session: Session, seqs: Sequence[int]) -> None:
    session.do("pending_ack_drop", seqs=list(seqs))
