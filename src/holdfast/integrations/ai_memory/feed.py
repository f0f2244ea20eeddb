"""The journal as memories in order of their last change, and the last state each peer sent."""

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.features.memories import store as memories
from holdfast.integrations.ai_memory.cursor import Since
from holdfast.kernel.caller import Caller
from holdfast.kernel.journal import journal
from holdfast.kernel.storage.port import Session

SCAN = 500


class Last(NamedTuple):
    """The last change of a memory."""

    seq: int
    kept_at: int
    id: str
    """The representative of its title group."""
    by: str | None
    """The peer that sent this state, if nothing has changed since."""


class Said(NamedTuple):
    """The version stored for a peer's state, and the peer's time of it."""

    version: int
    updated_at: int


def place_of(session: Session, since: Since) -> int:
    """Return where to resume: the cursor's position if this journal has it, else the time, rather too early."""
    if since.seq is not None and since.seq <= journal.head_of(session).seq:
        row = session.row("told_at", seq=since.seq)
        if row is None or row[0] == since.at:
            return since.seq
    row = session.row("told_before", at=since.at)
    assert row is not None
    return int(row[0])


def behind(session: Session, caller: Caller, after: int) -> Iterator[list[Last]]:
    """Yield the last changes after a position that are visible to the caller, in order, in batches."""
    parts, params = memories.visible(caller)
    asked = ("told_feed", *parts, "told_feed.page")
    while rows := session.assembled(asked, params | {"after": after, "limit": SCAN}):
        yield [
            Last(seq, kept_at, shown or id, by if version == said else None)
            for seq, kept_at, id, shown, version, by, said in rows
        ]
        after = rows[-1][0]


def said(session: Session, memory: str) -> Said | None:
    row = session.row("told_get", memory=memory)
    return Said(*row) if row else None


def note(session: Session, memory: str, peer: str, said: Said) -> None:
    session.do("told_put", memory=memory, peer=peer, version=said.version, updated_at=said.updated_at)
