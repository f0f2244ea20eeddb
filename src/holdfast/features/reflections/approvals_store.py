"""Requests that wait for approval. Local to this store, not replicated."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from holdfast.features.memories.read_memories import TEXT_UPPER_BOUND
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import Conflict, NotFound
from holdfast.kernel.storage.port import Session

Status = Literal["pending", "approved", "rejected"]
PAGE_SIZE = 100


class PendingRequest(NamedTuple):
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

    def is_visible_to(self, caller: Caller) -> bool:
        """Whether a caller may see the request; a private one only its requester and admins of the namespace."""
        if not caller.can_access(self.namespace):
            return False
        return self.scope != "private" or self.agent == caller.agent or caller.has_right("admin")


def add_pending(session: Session, waiting: PendingRequest) -> None:
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


def get_pending(session: Session, caller: Caller, id: str) -> PendingRequest:
    """Read a request that the caller may see."""
    row = session.row("pending_get", id=id)
    if row is None or not PendingRequest(*row).is_visible_to(caller):
        raise NotFound(f"There is no pending action {id!r}.", id=id)
    return PendingRequest(*row)


def list_pending(session: Session, caller: Caller, status: Status | None, *, limit: int) -> list[PendingRequest]:
    """List visible requests, newest first."""
    found = (one for one in _iterate_newest(session, status) if one.is_visible_to(caller))
    return [one for one, _ in zip(found, range(limit), strict=False)]


def _iterate_newest(session: Session, status: Status | None) -> Iterator[PendingRequest]:
    before = TEXT_UPPER_BOUND
    name = "pending_all" if status is None else "pending_with_status"
    while page := session.rows(name, status=status, before=before, limit=PAGE_SIZE):
        yield from (PendingRequest(*row) for row in page)
        before = page[-1][0]


def write_decision(session: Session, decided: PendingRequest) -> None:
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
