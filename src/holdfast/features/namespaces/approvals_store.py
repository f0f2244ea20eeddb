"""Requests that wait for approval. Local to this store, not replicated."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from holdfast.features.memories.store import LONGEST_TEXT
from holdfast.kernel.caller import Caller
from holdfast.kernel.errors import Conflict, NotFound
from holdfast.kernel.storage.port import Session

Status = Literal["pending", "approved", "rejected"]
PAGE = 100


class Waiting(NamedTuple):
    """A request and its decision."""

    id: str
    operation: str
    namespace: str
    scope: str
    """Scope of the memory to create."""
    request: str
    """As JSON; without the content once decided."""
    agent: str
    asked_at: int
    status: Status
    decided_by: str | None = None
    decided_at: int | None = None
    reason: str | None = None

    def seen_by(self, caller: Caller) -> bool:
        """Whether a caller may see the request; a private one only its requester and admins of the namespace."""
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
    """Read a request that the caller may see."""
    row = session.row("pending_get", id=id)
    if row is None or not Waiting(*row).seen_by(caller):
        raise NotFound(f"There is no pending action {id!r}.", id=id)
    return Waiting(*row)


def listed(session: Session, caller: Caller, status: Status | None, *, limit: int) -> list[Waiting]:
    """List visible requests, newest first."""
    found = (one for one in _newest(session, status) if one.seen_by(caller))
    return [one for one, _ in zip(found, range(limit), strict=False)]


def _newest(session: Session, status: Status | None) -> Iterator[Waiting]:
    before = LONGEST_TEXT
    name = "pending_all" if status is None else "pending_of"
    while page := session.rows(name, status=status, before=before, limit=PAGE):
        yield from (Waiting(*row) for row in page)
        before = page[-1][0]


def decide(session: Session, decided: Waiting) -> None:
    """Write a decision; raise if already decided. `request` replaces the stored one."""
    updated = session.row(
        "pending_decide",
        id=decided.id,
        status=decided.status,
        decided_by=decided.decided_by,
        decided_at=decided.decided_at,
        reason=decided.reason,
        request=decided.request,
    )
    if updated is None:
        raise Conflict(f"The pending action {decided.id} is already decided.", id=decided.id)
