"""List stale memories, set the status of their notices, and suggest current sources."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec.structs import replace

from holdfast.features.graph import store as links
from holdfast.features.graph.store import Which as WhichLinks
from holdfast.features.memories import store as memories
from holdfast.features.reflections import invalidation_store as invalidations
from holdfast.features.reflections import pending_expiry as untold
from holdfast.features.reflections.invalidation import GROUNDS, INVALIDATION, UNSETTLED, Invalidation, Status
from holdfast.features.reflections.invalidation_store import Told, Which
from holdfast.features.reflections.pending_expiry import MOST_HOPS
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Conflict, Forbidden, HoldfastError, NotFound, StoreError
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session

MOST_SOURCES = 1000
MOST_STEPS = 8
"""Maximum length of a supersession chain that is followed."""

Outcome = Literal["applied", "unchanged"]


class Shown(NamedTuple):
    """An invalidation with the ids that the caller may see."""

    told: Told
    invalidated: str | None
    invalidating: str | None
    """None if not visible, or if there is no replacement."""


class Settled(NamedTuple):
    id: str
    result: Outcome | HoldfastError
    reflect_with: list[str]


class Dependent(NamedTuple):
    memory: Memory
    hop: int


def browse(hold: Hold, session: Session, which: Which, *, limit: int, skip: int) -> tuple[list[Shown], int]:
    """Read a page of invalidations whose dependents the caller may see, newest first, and their total."""
    now = hold.now()
    which = _resolved(hold, session, which, now)
    more = _untold(hold, session, which, now)
    total = invalidations.count(session, hold.caller, which, now) + len(more)
    if not more:
        return _shown(
            hold, session, invalidations.select(session, hold.caller, which, now, limit=limit, skip=skip)
        ), total
    stored = invalidations.select(session, hold.caller, which, now, limit=skip + limit, skip=0)
    return _shown(hold, session, sorted([*stored, *more], key=_newest_first)[skip : skip + limit]), total


def _newest_first(told: Told) -> tuple[int, int, str]:
    return -told.one.created_at, told.one.hop, told.one.id


def _untold(hold: Hold, session: Session, which: Which, now: int) -> list[Told]:
    """Build the notices of expiries not written yet, for visible dependents."""
    if which.statuses and "open" not in which.statuses:
        return []
    notices = [
        one.as_told(one.fell)
        for one in untold.everything(session, now)
        if which.dependent in (None, one.dependent) and which.invalidated in (None, one.fell)
    ]
    seen = (
        memories.by_ids(session, hold.caller, {one.dependent for one in notices}, now, view="kept") if notices else {}
    )
    return [
        Told(one, memory.namespace, memory.title, memory.agent, memory.scope)
        for one in notices
        if (memory := seen.get(one.dependent)) and which.namespace in (None, memory.namespace)
    ]


def _resolved(hold: Hold, session: Session, which: Which, now: int) -> Which:
    """Resolve id prefixes in a filter to visible memories."""
    resolved = {
        name: memories.resolve(session, hold.caller, id, now, view="any").id
        for name, id in (("dependent", which.dependent), ("invalidated", which.invalidated))
        if id is not None
    }
    place = None if which.namespace is None else door.namespace(which.namespace)
    return replace(which, namespace=place, **resolved)


def _shown(hold: Hold, session: Session, found: Sequence[Told]) -> list[Shown]:
    sources = {id for told in found for id in (told.one.invalidated, told.one.invalidating)}
    seen = invalidations.seen(session, hold.caller, sources)
    return [Shown(told, *_named(told.one, seen)) for told in found]


def _named(one: Invalidation, seen: set[str]) -> tuple[str | None, str | None]:
    replacement = one.invalidating if one.invalidating != one.invalidated else None
    return one.invalidated if one.invalidated in seen else None, replacement if replacement in seen else None


def viewed(namespace: str | None) -> str | None:
    """Return the namespace before `/_invalidations`, or None; the whole may exceed the segment limit by one."""
    place, _, last = (namespace or "").rpartition("/")
    return place if place and last == door.VIEW else None


def settle(hold: Hold, ids: Sequence[str], status: Status, reason: str | None) -> list[Settled]:
    """Acknowledge, resolve or dismiss invalidations; each succeeds or fails on its own."""
    if reason is not None:
        door.label("reason", reason)
    _tell_first(hold, ids)
    done = []
    with hold.writing() as write:
        for id in dict.fromkeys(ids):
            try:
                done.append(_settle(hold, write, id, status, reason))
            except StoreError:
                raise
            except HoldfastError as error:
                done.append(Settled(id, error, []))
    return done


def _tell_first(hold: Hold, ids: Sequence[str]) -> None:
    """Write virtual invalidations first: an expiry may have been shown without being stored."""
    with hold.reading() as session:
        due = {one.fell for one in untold.everything(session, hold.now()) if one.as_told(one.fell).id in ids}
    if due:
        with hold.writing() as write:
            untold.tell(write, due)


def _settle(hold: Hold, write: Transaction, id: str, status: Status, reason: str | None) -> Settled:
    notice = invalidations.one(write.session, hold.caller, id)
    if notice is None:
        raise NotFound(f"There is no invalidation {id!r}.", id=id)
    one = notice.one
    if not memories.may_change(write.session, hold.caller, one.dependent):
        raise Forbidden(f"The memory {one.dependent} belongs to another agent: ask its owner for a write grant.")
    if status == "acknowledged" and one.status not in UNSETTLED:
        raise Conflict(f"The invalidation {id} is already {one.status}: it cannot be acknowledged.", id=id)
    suggested = instead_of(hold, write.session, one) if status == "resolved" else []
    if one.status == status and reason in (None, one.reason):
        return Settled(id, "unchanged", suggested)
    updated = replace(one, status=status, reason=reason, resolver=hold.caller.agent)
    write.change(INVALIDATION, one, updated, _VERBS[status])
    return Settled(id, "applied", suggested)


_VERBS: dict[Status, str] = {"acknowledged": "acknowledge", "resolved": "resolve", "dismissed": "dismiss"}


def instead_of(hold: Hold, session: Session, one: Invalidation) -> list[str]:
    """Ids for a new reflection: the dependent's sources, with invalidated ones replaced by their replacements."""
    now = hold.now()
    source_links = WhichLinks(view=None, relations=GROUNDS)
    edges = links.leaving(session, hold.caller, [one.dependent], source_links, now, limit=MOST_SOURCES)
    replacements = {} if one.invalidating == one.invalidated else {one.invalidated: one.invalidating}
    newest = [_newest(hold, session, edge.id, replacements, now) for edge in edges]
    live = memories.by_ids(session, hold.caller, newest, now)
    return [id for id in dict.fromkeys(newest) if id in live and id != one.dependent]


def _newest(hold: Hold, session: Session, id: str, heirs: dict[str, str], now: int) -> str:
    """Follow visible supersessions from a memory to the newest one."""
    for _ in range(MOST_STEPS):
        edges = links.entering(session, hold.caller, [id], WhichLinks(relations=("supersedes",)), now, limit=1)
        newer = edges[0].id if edges else heirs.get(id)
        if newer is None:
            break
        id = newer
    return id


def dependents(hold: Hold, session: Session, id: str, *, hops: int = MOST_HOPS) -> tuple[str, list[Dependent]]:
    """List the visible direct and indirect dependents of a memory, nearest first."""
    now = hold.now()
    root = memories.resolve(session, hold.caller, id, now, view="any").id
    distances = invalidations.reach(session, [root], now, hops=hops).get(root, {})
    found = memories.by_ids(session, hold.caller, distances, now, view="kept")
    return root, sorted((Dependent(one, distances[id]) for id, one in found.items()), key=_nearest)


def _nearest(one: Dependent) -> tuple[int, str]:
    return one.hop, one.memory.id


def notified(hold: Hold) -> list[str]:
    """Ids of visible memories that the caller's last change flagged stale."""
    flagged = dict.fromkeys(one.dependent for one in hold.notified if isinstance(one, Invalidation))
    if not flagged:
        return []
    with hold.reading() as session:
        visible = invalidations.seen(session, hold.caller, flagged, kept=True)
    return [id for id in flagged if id in visible]
