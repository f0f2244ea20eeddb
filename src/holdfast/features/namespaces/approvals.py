"""Approve or reject pending requests."""

from msgspec import json
from msgspec.structs import replace

from holdfast.features.history.service import places_of
from holdfast.features.memories import store as memories
from holdfast.features.namespaces import approvals_store as waiting
from holdfast.features.namespaces import policy_store as policies
from holdfast.features.namespaces.approvals_store import Waiting
from holdfast.features.reflections.service import Asked, Planned, Reflected, made, plan
from holdfast.kernel.caller import Caller
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Conflict, Forbidden, NotFound
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate as door
from holdfast.kernel.registry.stages import Parts
from holdfast.kernel.storage.port import Session


def approve(hold: Hold, id: str) -> tuple[Waiting, Reflected]:
    """Run a pending request as its requester, under the current rules; the journal records the approver."""
    with hold.writing() as write:
        pending = _open(hold, write.session, id)
        _must_be_another(hold, write, pending)
        request = asked_of(pending)
        requester = _requester(hold, pending, request)
        reflected = made(requester, write, _planned(hold, requester, write, request))
        return _decided(hold, write, pending, "approved", None), reflected


def reject(hold: Hold, id: str, reason: str | None = None) -> Waiting:
    """Reject a pending request; the requester can withdraw it this way."""
    if reason is not None:
        door.label("reason", reason)
    with hold.writing() as write:
        return _decided(hold, write, _open(hold, write.session, id), "rejected", reason)


def asked_of(asking: Waiting) -> Asked:
    return json.decode(asking.request, type=Asked)


def parts_of_approving(hold: Hold, id: str) -> Parts:
    """Describe for lifecycle hooks what an approval does: it creates the requested reflection."""
    with hold.reading() as session:
        pending = _open(hold, session, id)
        request = asked_of(pending)
        places = places_of(hold, session, list(request.source_ids))
    arguments = {"title": request.title, "content": request.content, "tags": list(request.tags)}
    return Parts().add("reflect", [pending.namespace, *places], arguments)


def _open(hold: Hold, session: Session, id: str) -> Waiting:
    pending = waiting.get(session, hold.caller, id)
    if pending.status != "pending":
        raise Conflict(f"The pending action {id} is already {pending.status}.", id=id)
    return pending


def _must_be_another(hold: Hold, write: Transaction, asking: Waiting) -> None:
    allowed = policies.resolved(write.session, asking.namespace).self_approval
    if asking.agent == hold.caller.agent and not allowed:
        raise Forbidden(
            f"You requested this yourself: another agent must approve it, or set self_approval in the policy of "
            f"{asking.namespace!r}."
        )


def _requester(hold: Hold, asking: Waiting, asked: Asked) -> Hold:
    """Build a context for the requester, with the namespaces it had when it asked."""
    caller = Caller(agent=asking.agent, right="write", namespaces=asked.reach, source=hold.caller.source)
    return hold.seen_by(caller, hold.progress)


def _planned(hold: Hold, requester: Hold, write: Transaction, asked: Asked) -> Planned:
    """Plan the request again. Errors do not reveal sources that the approver may not see."""
    try:
        return plan(requester, write, asked)
    except NotFound as error:
        visible = memories.by_ids(write.session, hold.caller, asked.source_ids, write.now, view="any")
        if error.details.get("id") in visible:
            raise
    raise NotFound(
        "A source of this reflection that you may not see is gone: reject the request and have it submitted again."
    )


def _decided(hold: Hold, write: Transaction, asking: Waiting, status: waiting.Status, reason: str | None) -> Waiting:
    """Record the decision and erase the requested content."""
    request = replace(asked_of(asking), content="", metadata={}, tags=())
    decided = asking._replace(
        request=json.encode(request).decode(),
        status=status,
        decided_by=hold.caller.agent,
        decided_at=write.now,
        reason=reason,
    )
    waiting.decide(write.session, decided)
    return decided
