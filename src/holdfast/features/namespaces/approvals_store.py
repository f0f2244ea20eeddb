"""What was asked for and waits until somebody allows it. Of this store alone."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from holdfast.features.memories.store import LONGEST_TEXT
from holdfast.kernel.caller import Caller
from holdfast.kernel.errors import Conflict, NotFound
from holdfast.kernel.storage.port import Session

Status = Literal["pending", "approved", "rejected"]
PAGE = 100


class Waiting(NamedTuple):
    """A request, and what became of it."""

    id: str
    operation: str
    namespace: str
    scope: str
    """Of what is to be made."""
    request: str
    """As JSON; once it is decided, without what was to be kept."""
    agent: str
    asked_at: int
    status: Status
    decided_by: str | None = None
    decided_at: int | None = None
    reason: str | None = None

    def seen_by(self, caller: Caller) -> bool:
        """What is to be private is shown to who asked for it, and to those who decide for the namespace."""
        if not caller.reaches(self.namespace):
            return False
        return self.scope != "private" or self.agent == caller.agent or caller.may("admin")


def add(session: Session, waiting: Waiting) -> None:
    session.do(
        "pending_add",
        id=waiting.id,
        operation=waiting.operation,
        namespace=waiting.namespace,
        scope=waiting.scope,
        request=waiting.request,
        agent=waiting.agent,
        asked_at=waiting.asked_at,
    )


def get(session: Session, caller: Caller, id: str) -> Waiting:
    """One that the caller may hear of."""
    row = session.row("pending_get", id=id)
    if row is None or not Waiting(*row).seen_by(caller):
        raise NotFound(f"There is no pending action {id!r}.", id=id)
    return Waiting(*row)


def listed(session: Session, caller: Caller, status: Status | None, *, limit: int) -> list[Waiting]:
    """The newest first."""
    found = (one for one in _newest(session, status) if one.seen_by(caller))
    return [one for one, _ in zip(found, range(limit), strict=False)]


def _newest(session: Session, status: Status | None) -> Iterator[Waiting]:
    before = LONGEST_TEXT
    name = "pending_all" if status is None else "pending_of"
    while page := session.rows(name, status=status, before=before, limit=PAGE):
        yield from (Waiting(*row) for row in page)
        before = page[-1][0]


def decide(session: Session, decided: Waiting) -> None:
    """Keep what was decided, once and for all; `request` is what stays of what was asked for."""
    made = session.row(
        "pending_decide",
        id=decided.id,
        status=decided.status,
        decided_by=decided.decided_by,
        decided_at=decided.decided_at,
        reason=decided.reason,
        request=decided.request,
    )
    if made is None:
        raise Conflict(f"The pending action {decided.id} was decided already.", id=decided.id)
