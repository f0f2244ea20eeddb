"""List stale memories, set the status of their notices, and suggest current sources."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from holdfast.features.graph import store as links
from holdfast.features.graph.store import LinkFilter
from holdfast.features.memories import store as memories
from holdfast.features.reflections import invalidation_store as invalidations
from holdfast.features.reflections.invalidation import (
    INVALIDATION,
    PENDING_STATUSES,
    SOURCE_RELATIONS,
    Invalidation,
    Status,
)
from holdfast.features.reflections.invalidation_store import MAX_HOPS, InvalidationFilter, Notice, StaleReason
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Conflict, Forbidden, HoldfastError, NotFound, StoreError
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.registry.operation import value_or_unset
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import TimeText, format_timestamp

MAX_SOURCES = 1000
MAX_STEPS = 8
"""Maximum length of a supersession chain that is followed."""

Outcome = Literal["applied", "unchanged"]


class NoticeView(NamedTuple):
    """An invalidation with the ids that the caller may see."""

    notice: Notice
    invalidated: str | None
    invalidating: str | None
    """None if not visible, or if there is no replacement."""


class ResolutionOutcome(NamedTuple):
    id: str
    result: Outcome | HoldfastError
    reflect_with: list[str]


class Dependent(NamedTuple):
    memory: Memory
    hop: int


def list_notices(
    ctx: Context, session: Session, which: InvalidationFilter, *, limit: int, skip: int
) -> tuple[list[NoticeView], int]:
    """Read a page of invalidations whose dependents the caller may see, newest first, and their total."""
    now = ctx.now()
    which = _resolve_filter(ctx, session, which, now)
    more = _list_pending(ctx, session, which, now)
    total = invalidations.count(session, ctx.caller, which, now) + len(more)
    if not more:
        return _build_views(
            ctx, session, invalidations.select(session, ctx.caller, which, now, limit=limit, skip=skip)
        ), total
    stored = invalidations.select(session, ctx.caller, which, now, limit=skip + limit, skip=0)
    return _build_views(ctx, session, sorted([*stored, *more], key=_newest_first_key)[skip : skip + limit]), total


def _newest_first_key(told: Notice) -> tuple[int, int, str]:
    return -told.invalidation.created_at, told.invalidation.hop, told.invalidation.id


def _list_pending(ctx: Context, session: Session, which: InvalidationFilter, now: int) -> list[Notice]:
    """Build the notices of expiries not written yet, for visible dependents."""
    if which.statuses and "open" not in which.statuses:
        return []
    notices = [
        one.to_invalidation(one.source)
        for one in invalidations.list_all_pending_expiries(session, now)
        if which.dependent in (None, one.dependent) and which.invalidated in (None, one.source)
    ]
    seen = memories.by_ids(session, ctx.caller, {one.dependent for one in notices}, now, view="kept") if notices else {}
    return [
        Notice(one, memory.namespace, memory.title, memory.agent, memory.scope)
        for one in notices
        if (memory := seen.get(one.dependent)) and which.namespace in (None, memory.namespace)
    ]


def _resolve_filter(ctx: Context, session: Session, which: InvalidationFilter, now: int) -> InvalidationFilter:
    """Resolve id prefixes in a filter to visible memories."""
    resolved = {
        name: memories.resolve(session, ctx.caller, id, now, view="any").id
        for name, id in (("dependent", which.dependent), ("invalidated", which.invalidated))
        if id is not None
    }
    place = None if which.namespace is None else validate.namespace(which.namespace)
    return replace(which, namespace=place, **resolved)


def _build_views(ctx: Context, session: Session, found: Sequence[Notice]) -> list[NoticeView]:
    sources = {id for told in found for id in (told.invalidation.invalidated, told.invalidation.invalidating)}
    seen = invalidations.find_visible(session, ctx.caller, sources)
    return [NoticeView(told, *_visible_ids(told.invalidation, seen)) for told in found]


def _visible_ids(one: Invalidation, seen: set[str]) -> tuple[str | None, str | None]:
    replacement = one.invalidating if one.invalidating != one.invalidated else None
    return one.invalidated if one.invalidated in seen else None, replacement if replacement in seen else None


def parse_view_namespace(namespace: str | None) -> str | None:
    """Return the namespace before `/_invalidations`, or None; the whole may exceed the segment limit by one."""
    place, _, last = (namespace or "").rpartition("/")
    return place if place and last == validate.INVALIDATIONS_VIEW else None


def set_status(ctx: Context, ids: Sequence[str], status: Status, reason: str | None) -> list[ResolutionOutcome]:
    """Acknowledge, resolve or dismiss invalidations; each succeeds or fails on its own."""
    if reason is not None:
        validate.label("reason", reason)
    _write_pending(ctx, ids)
    done = []
    with ctx.transaction() as write:
        for id in dict.fromkeys(ids):
            try:
                done.append(_set_status(ctx, write, id, status, reason))
            except StoreError:
                raise
            except HoldfastError as error:
                done.append(ResolutionOutcome(id, error, []))
    return done


def _write_pending(ctx: Context, ids: Sequence[str]) -> None:
    """Write virtual invalidations first: an expiry may have been shown without being stored."""
    with ctx.reading() as session:
        due = {
            one.source
            for one in invalidations.list_all_pending_expiries(session, ctx.now())
            if one.to_invalidation(one.source).id in ids
        }
    if due:
        with ctx.transaction() as write:
            invalidations.expire_sources(write, due)


def _set_status(ctx: Context, write: Transaction, id: str, status: Status, reason: str | None) -> ResolutionOutcome:
    notice = invalidations.get_notice(write.session, ctx.caller, id)
    if notice is None:
        raise NotFound(f"There is no invalidation {id!r}.", id=id)
    one = notice.invalidation
    if not memories.can_write(write.session, ctx.caller, one.dependent):
        raise Forbidden(f"The memory {one.dependent} belongs to another agent: ask its owner for a write grant.")
    if status == "acknowledged" and one.status not in PENDING_STATUSES:
        raise Conflict(f"The invalidation {id} is already {one.status}: it cannot be acknowledged.", id=id)
    suggested = list_current_sources(ctx, write.session, one) if status == "resolved" else []
    if one.status == status and reason in (None, one.reason):
        return ResolutionOutcome(id, "unchanged", suggested)
    updated = replace(one, status=status, reason=reason, resolver=ctx.caller.agent)
    write.change(INVALIDATION, one, updated, _VERBS[status])
    return ResolutionOutcome(id, "applied", suggested)


_VERBS: dict[Status, str] = {"acknowledged": "acknowledge", "resolved": "resolve", "dismissed": "dismiss"}


def list_current_sources(ctx: Context, session: Session, one: Invalidation) -> list[str]:
    """Ids for a new reflection: the dependent's sources, with invalidated ones replaced by their replacements."""
    now = ctx.now()
    source_links = LinkFilter(view=None, relations=SOURCE_RELATIONS)
    edges = links.list_outgoing(session, ctx.caller, [one.dependent], source_links, now, limit=MAX_SOURCES)
    replacements = {} if one.invalidating == one.invalidated else {one.invalidated: one.invalidating}
    newest = [_follow_supersessions(ctx, session, edge.id, replacements, now) for edge in edges]
    live = memories.by_ids(session, ctx.caller, newest, now)
    return [id for id in dict.fromkeys(newest) if id in live and id != one.dependent]


def _follow_supersessions(ctx: Context, session: Session, id: str, heirs: dict[str, str], now: int) -> str:
    """Follow visible supersessions from a memory to the newest one."""
    for _ in range(MAX_STEPS):
        edges = links.list_incoming(session, ctx.caller, [id], LinkFilter(relations=("supersedes",)), now, limit=1)
        newer = edges[0].id if edges else heirs.get(id)
        if newer is None:
            break
        id = newer
    return id


def list_dependents(ctx: Context, session: Session, id: str, *, hops: int = MAX_HOPS) -> tuple[str, list[Dependent]]:
    """List the visible direct and indirect dependents of a memory, nearest first."""
    now = ctx.now()
    root = memories.resolve(session, ctx.caller, id, now, view="any").id
    distances = invalidations.find_dependents(session, [root], now, hops=hops).get(root, {})
    found = memories.by_ids(session, ctx.caller, distances, now, view="kept")
    return root, sorted((Dependent(one, distances[id]) for id, one in found.items()), key=_nearest_key)


def _nearest_key(one: Dependent) -> tuple[int, str]:
    return one.hop, one.memory.id


def list_notified(ctx: Context) -> list[str]:
    """Ids of visible memories that the caller's last change flagged stale."""
    flagged = dict.fromkeys(one.dependent for one in ctx.notices if isinstance(one, Invalidation))
    if not flagged:
        return []
    with ctx.reading() as session:
        visible = invalidations.find_visible(session, ctx.caller, flagged, not_deleted=True)
    return [id for id in flagged if id in visible]


class StaleView(Struct, frozen=True, kw_only=True):
    """Why a memory is stale: the nearest source that changed or went away, not resolved yet."""

    cause: str
    since: TimeText
    status: str
    hop: int
    """Distance to that source: 1 is a direct source."""
    count: int
    """Number of reasons."""
    invalidated_id: str | UnsetType = UNSET
    """The source, if you may see it."""
    invalidating_id: str | UnsetType = UNSET
    """Its replacement, if there is one that you may see."""


def stale_view(stale: StaleReason | None) -> StaleView | UnsetType:
    """Build the view of a stale reason."""
    if stale is None:
        return UNSET
    replacement = stale.invalidating if stale.invalidating != stale.invalidated else None
    return StaleView(
        cause=stale.cause,
        since=format_timestamp(stale.since),
        status=stale.status,
        hop=stale.hop,
        count=stale.many,
        invalidated_id=value_or_unset(stale.invalidated),
        invalidating_id=value_or_unset(replacement),
    )


def notified_or_unset(ctx: Context) -> list[str] | UnsetType:
    """Ids of memories that the caller's last change flagged stale; UNSET if none."""
    return list_notified(ctx) or UNSET
