"""Record feedback on hits; later recalls rank by it."""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.features.memories import store as memories
from holdfast.features.recall import flush_access as use
from holdfast.features.recall import recall_store as recalls
from holdfast.features.recall.recall_log import Recalls
from holdfast.features.recall.recall_store import Logged, Said
from holdfast.features.recall.utility import Verdict
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Forbidden, Invalid, NotFound
from holdfast.kernel.storage.port import Session


class Judged(NamedTuple):
    """A rated hit, with the new utility of its memory."""

    id: str
    verdict: Verdict
    changed: bool
    utility: float


def feedback(hold: Hold, recall: str, verdicts: Sequence[tuple[str, Verdict]]) -> list[Judged]:
    """Rate hits as used, ignored or wrong. The last verdict of an agent on a hit counts."""
    use.flush(hold)
    with hold.writing() as write:
        logged = _mine(hold, write.session, recall)
        said = _resolved(hold, write.session, logged, verdicts)
        before = {(one.memory, one.agent): one.verdict for one in recalls.said_of(write.session, [logged.id])}
        agent = hold.caller.agent
        new = {id: verdict for id, verdict in said.items() if before.get((id, agent)) != verdict}
        recalls.say(write.session, [Said(logged.id, id, agent, verdict) for id, verdict in new.items()], write.now)
        worth = recalls.utilities(write.session, list(said))
    return [Judged(id, verdict, id in new, worth[id]) for id, verdict in said.items()]


def _mine(hold: Hold, session: Session, id: str) -> Logged:
    """Return a recall of the caller; of anyone if the caller is an admin for all namespaces."""
    logged = recalls.get(session, id)
    if logged is None or (logged.agent != hold.caller.agent and not sees_all(hold)):
        raise NotFound(f"No recall {id!r}: unknown or already deleted.", recall_id=id)
    return logged


def sees_all(hold: Hold) -> bool:
    return hold.caller.may("admin") and "*" in hold.caller.namespaces


def _resolved(
    hold: Hold, session: Session, logged: Logged, verdicts: Sequence[tuple[str, Verdict]]
) -> dict[str, Verdict]:
    """Resolve id prefixes. Raise if one is not a hit of this recall that the caller may see."""
    seen = memories.by_ids(session, hold.caller, [hit.id for hit in logged.hits], hold.now(), "any")
    found: dict[str, Verdict] = {}
    for given, verdict in verdicts:
        meant = [id for id in seen if id == given or (given and id.startswith(given))]
        if len(meant) != 1:
            raise Invalid(f"ids: {given!r} is not a hit of this recall", fields=["ids"])
        if found.setdefault(meant[0], verdict) != verdict:
            raise Invalid(f"verdicts: {meant[0]} has two different verdicts", fields=["verdicts"])
    return found


class Listed(NamedTuple):
    """A recall with the verdicts of each agent on each hit."""

    logged: Logged
    said: dict[str, dict[str, Verdict]]


def listed(hold: Hold, *, agent: str | None, before: str, limit: int) -> list[Listed]:
    """List logged recalls, newest first, without hits that the caller may not see."""
    if agent not in (None, hold.caller.agent) and not sees_all(hold):
        raise Forbidden("agent_id: listing recalls of other agents requires an admin key for all namespaces.")
    wanted = agent if agent is not None or sees_all(hold) else hold.caller.agent
    asked = [one for one in hold.local(Recalls).all() if wanted in (None, one.agent)]
    waiting = [one.logged(whole=hold.keep_recalls > 0) for one in asked]
    with hold.reading() as session:
        kept = recalls.page(session, wanted, before=before, limit=limit)
        page = _newest([*kept, *(one for one in waiting if not before or one.id < before)], limit)
        ids = {hit.id for one in page for hit in one.hits}
        seen = memories.by_ids(session, hold.caller, ids, hold.now(), "any").keys()
        said = recalls.by_hit(recalls.said_of(session, [one.id for one in page]))
    shown = [one._replace(hits=[hit for hit in one.hits if hit.id in seen]) for one in page]
    return [Listed(one, {hit.id: said.get((one.id, hit.id), {}) for hit in one.hits}) for one in shown]


def _newest(many: Sequence[Logged], limit: int) -> list[Logged]:
    """Merge recalls by id, newest first."""
    return sorted({one.id: one for one in many}.values(), key=lambda one: one.id, reverse=True)[:limit]
