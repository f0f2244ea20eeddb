"""Record feedback on hits; later recalls rank by it."""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.features.memories import store as memories
from holdfast.features.recall import flush_access, recall_log
from holdfast.features.recall.recall_log import VERDICTS, HitVerdict, RecallLog, RecallRecord, Verdict
from holdfast.features.recall.search_index import read_utilities
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Forbidden, Invalid, NotFound
from holdfast.kernel.storage.port import Session


class RatedHit(NamedTuple):
    """A rated hit, with the new utility of its memory."""

    id: str
    verdict: Verdict
    changed: bool
    utility: float


def record_feedback(ctx: Context, recall_id: str, verdicts: Sequence[tuple[str, Verdict]]) -> list[RatedHit]:
    """Rate hits as used, ignored or wrong. The last verdict of an agent on a hit counts."""
    flush_access.flush_access_log(ctx)
    with ctx.transaction() as write:
        record = _get_own_recall(ctx, write.session, recall_id)
        resolved = _resolve_ids(ctx, write.session, record, verdicts)
        before = {(one.memory, one.agent): one.verdict for one in recall_log.list_verdicts(write.session, [record.id])}
        agent = ctx.caller.agent
        new = {id: verdict for id, verdict in resolved.items() if before.get((id, agent)) != verdict}
        rated = [
            HitVerdict(recall=record.id, memory=id, agent=agent, verdict=verdict, given_at=write.now)
            for id, verdict in new.items()
        ]
        VERDICTS.put_many(write.session, rated)
        utility_by_id = read_utilities(write.session, list(resolved))
    return [RatedHit(id, verdict, id in new, utility_by_id[id]) for id, verdict in resolved.items()]


def _get_own_recall(ctx: Context, session: Session, id: str) -> RecallRecord:
    """Return a recall of the caller; of anyone if the caller is an admin for all namespaces."""
    record = recall_log.get_recall(session, id)
    if record is None or (record.agent != ctx.caller.agent and not can_see_all(ctx)):
        raise NotFound(f"No recall {id!r}: unknown or already deleted.", recall_id=id)
    return record


def can_see_all(ctx: Context) -> bool:
    return ctx.caller.has_right("admin") and "*" in ctx.caller.namespaces


def _resolve_ids(
    ctx: Context, session: Session, record: RecallRecord, verdicts: Sequence[tuple[str, Verdict]]
) -> dict[str, Verdict]:
    """Resolve id prefixes. Raise if one is not a hit of this recall that the caller may see."""
    seen = memories.by_ids(session, ctx.caller, [hit.id for hit in record.hits], ctx.now(), "any")
    found: dict[str, Verdict] = {}
    for given, verdict in verdicts:
        matches = [id for id in seen if id == given or (given and id.startswith(given))]
        if len(matches) != 1:
            raise Invalid(f"ids: {given!r} is not a hit of this recall", fields=["ids"])
        if found.setdefault(matches[0], verdict) != verdict:
            raise Invalid(f"verdicts: {matches[0]} has two different verdicts", fields=["verdicts"])
    return found


class RatedRecall(NamedTuple):
    """A recall with the verdicts of each agent on each hit."""

    record: RecallRecord
    verdicts: dict[str, dict[str, Verdict]]


def list_recalls(ctx: Context, *, agent: str | None, before: str, limit: int) -> list[RatedRecall]:
    """List logged recalls, newest first, without hits that the caller may not see."""
    if agent not in (None, ctx.caller.agent) and not can_see_all(ctx):
        raise Forbidden("agent_id: listing recalls of other agents requires an admin key for all namespaces.")
    wanted = agent if agent is not None or can_see_all(ctx) else ctx.caller.agent
    pending = [one for one in list(ctx.local[RecallLog]) if wanted in (None, one.agent)]
    pending_records = [one.to_record(with_question=ctx.recall_retention_days > 0) for one in pending]
    with ctx.reading() as session:
        kept = recall_log.list_page(session, wanted, before=before, limit=limit)
        page = _merge_newest([*kept, *(one for one in pending_records if not before or one.id < before)], limit)
        ids = {hit.id for one in page for hit in one.hits}
        visible = memories.by_ids(session, ctx.caller, ids, ctx.now(), "any").keys()
        verdicts = recall_log.group_by_hit(recall_log.list_verdicts(session, [one.id for one in page]))
    shown = [one._replace(hits=[hit for hit in one.hits if hit.id in visible]) for one in page]
    return [RatedRecall(one, {hit.id: verdicts.get((one.id, hit.id), {}) for hit in one.hits}) for one in shown]


def _merge_newest(many: Sequence[RecallRecord], limit: int) -> list[RecallRecord]:
    """Merge recalls by id, newest first."""
    return sorted({one.id: one for one in many}.values(), key=lambda one: one.id, reverse=True)[:limit]
