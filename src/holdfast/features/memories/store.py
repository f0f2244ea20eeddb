"""Read memories. The only place that decides, in SQL, which memories a caller may see."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.access.model import GRANT, Grant
from holdfast.kernel.context import Caller, Context
from holdfast.kernel.errors import AmbiguousId, Forbidden, Invalid, NotFound
from holdfast.kernel.journal.kinds import load_memory
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Kind, Memory, Tier
from holdfast.kernel.storage.port import Session, SqlPart
from holdfast.kernel.timestamps import derive_id, parse_time

View = Literal["live", "archived", "kept", "any"]
"""live: not expired; archived: archived or expired; kept: not deleted; any: all, deleted included."""

TEXT_UPPER_BOUND = "\U0010ffff"
CONFIDENCE_TIERS: dict[str, tuple[float, float]] = {
    "confirmed": (0.95, 2.0),
    "likely": (0.70, 0.95),
    "ambiguous": (-1.0, 0.70),
}
_NAMESPACE_FIELDS = ("namespace", "under", "as_agent")


class Filter(Struct, frozen=True, kw_only=True):
    """A filter on memories. All conditions must hold; an empty filter matches everything."""

    namespace: str | None = None
    namespaces: tuple[str, ...] = ()
    under: str | None = None
    tier: Tier | None = None
    agent: str | None = None
    min_priority: int | None = None
    since: int | None = None
    until: int | None = None
    said_since: int | None = None
    said_until: int | None = None
    tags: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()
    has_citations: bool = False
    source_uri: str | None = None
    source_uri_prefix: str | None = None
    confidence: tuple[float, float] | None = None
    as_agent: str | None = None
    archived: bool = False
    """Include archived and expired memories."""
    unchanged_since: int | None = None
    """Only memories without a journal entry after this one."""
    true_at: int | None = None
    """Only memories valid at this time by their own dates, or written by then."""


EVERYTHING = Filter()


def build_filter(request: Any, **more: Any) -> Filter:
    """Build the filter from a request's fields."""
    given = {name: value for name in request.__struct_fields__ if (value := getattr(request, name)) not in (None, [])}
    tier = given.get("confidence_tier")
    return Filter(
        namespace=None if more else given.get("namespace"),
        tier=given.get("tier"),
        agent=given.get("agent_id"),
        min_priority=given.get("min_priority"),
        since=parse_time(given.get("since"), "since"),
        until=parse_time(given.get("until"), "until"),
        tags=tuple(given.get("tags", ())),
        kinds=tuple(given.get("kinds", ())),
        has_citations=given.get("has_citations", False),
        source_uri=given.get("source_uri"),
        source_uri_prefix=given.get("source_uri_prefix"),
        confidence=CONFIDENCE_TIERS[tier] if tier else None,
        as_agent=given.get("as_agent"),
        archived=given.get("include_archived", False),
        **more,
    )


def normalize_filter(which: Filter) -> Filter:
    """Normalize the namespaces of a filter; raise if its time range is reversed."""
    if which.since is not None and which.until is not None and which.until < which.since:
        raise Invalid("until: must not be before since", fields=["until"])
    given = {name: value for name in _NAMESPACE_FIELDS if (value := getattr(which, name)) is not None}
    if given:
        which = replace(which, **{name: validate.namespace(value, name) for name, value in given.items()})
    return replace(which, namespaces=tuple(map(validate.namespace, which.namespaces))) if which.namespaces else which


class FullTextHit(NamedTuple):
    """A full-text hit without its memory."""

    id: str
    score: float
    priority: int
    confidence: float
    updated_at: int


def visibility_clauses(
    caller: Caller, right: Literal["visible", "writable"] = "visible"
) -> tuple[list[SqlPart], dict[str, Any]]:
    """Build the clauses that limit a query to memories the caller may see, or change."""
    parts, params = namespace_clauses(caller)
    return [f"memory.{right}", *parts], params | {"caller": caller.agent}


def namespace_clauses(caller: Caller) -> tuple[list[SqlPart], dict[str, Any]]:
    """Build the clauses that limit a query to the caller's namespaces, including private memories: for exports."""
    parts: list[SqlPart] = []
    params: dict[str, Any] = {}
    if "*" not in caller.namespaces:
        for number, path in enumerate(caller.namespaces or ("",)):
            parts.append(("memory.or_namespace" if number else "memory.in_first_namespace", number))
            params[f"reach_{number}"] = path
        parts.append("memory.end_namespaces")
    return parts, params


_CLAUSES = (
    ("namespace", "memory.in", "namespace"),
    ("namespaces", "memory.among", "namespaces"),
    ("under", "memory.under", "under"),
    ("tier", "memory.tier", "tier"),
    ("agent", "memory.by", "agent"),
    ("min_priority", "memory.least_priority", "min_priority"),
    ("since", "memory.since", "since"),
    ("until", "memory.until", "until"),
    ("said_since", "memory.said_since", "said_since"),
    ("said_until", "memory.said_until", "said_until"),
    ("kinds", "memory.kinds", "kinds"),
    ("source_uri", "memory.from_uri", "source_uri"),
    ("unchanged_since", "memory.unchanged_since", "unchanged_since"),
    ("true_at", "memory.valid_at", "true_at"),
)


def filter_clauses(
    caller: Caller, which: Filter, now: int, view: View = "live"
) -> tuple[list[SqlPart], dict[str, Any]]:
    """Build the clauses of a filter, including visibility."""
    parts, params = visibility_clauses(caller)
    if which.archived and view == "live":
        view = "kept"
    parts.append(f"memory.{view}")
    if view in ("live", "archived"):
        params["now"] = now
    if which == EVERYTHING:
        return parts, params
    for field, part, name in _CLAUSES:
        if (value := getattr(which, field)) not in (None, ()):
            parts.append(part)
            params[name] = value
    if which.kinds == ("lesson",):
        parts.append("memory.lessons")
    for number, tag in enumerate(which.tags):
        parts.append(("memory.tagged", number))
        params[f"tag_{number}"] = tag
    if which.has_citations:
        parts.append("memory.cited")
    if which.source_uri_prefix is not None:
        parts.append("memory.from_uris")
        params |= {"uri_prefix": which.source_uri_prefix, "uri_end": which.source_uri_prefix + TEXT_UPPER_BOUND}
    if which.confidence is not None:
        parts.append("memory.confident")
        params |= dict(zip(("confidence_least", "confidence_below"), which.confidence, strict=True))
    if which.as_agent is not None:
        parts.append("memory.seen_from")
        params |= scope_params(which.as_agent)
    return parts, params


def scope_params(namespace: str) -> dict[str, str]:
    """Parameters of `memory.seen_from`: an agent's namespace and its three ancestors; a blank where there is none."""
    segments = namespace.split("/")
    above = ["/".join(segments[:-up]) if len(segments) > up else " " for up in (1, 2, 3)]
    return dict(zip(("at", "team", "unit", "org"), (namespace, *above), strict=True))


def select(
    session: Session,
    caller: Caller,
    which: Filter,
    now: int,
    *,
    order: str = "by_importance",
    limit: int,
    skip: int = 0,
    view: View = "live",
) -> list[Memory]:
    """Read a page of the memories that match a filter, in a given order."""
    parts, params = filter_clauses(caller, which, now, view)
    rows = session.select(("memory_select", *parts, f"memory.{order}"), params | {"limit": limit, "skip": skip})
    return [load_memory(row) for row in rows]


def list_newest(
    session: Session, caller: Caller, now: int, *, before: str = TEXT_UPPER_BOUND, limit: int
) -> list[Memory]:
    """Read the newest memories, starting before an id."""
    parts, params = filter_clauses(caller, EVERYTHING, now)
    rows = session.select(("memory_select", *parts, "memory.before"), params | {"before": before, "limit": limit})
    return [load_memory(row) for row in rows]


def list_archived_before(
    session: Session, caller: Caller, now: int, before: int, ids: list[str] | None = None
) -> list[Memory]:
    """List memories archived or expired by a timestamp, optionally only those with given ids."""
    parts, params = filter_clauses(caller, EVERYTHING, now, "archived")
    params["before"] = before
    if ids is not None:
        parts.append("memory.some")
        params["ids"] = ids
    rows = session.select(("memory_select", *parts, "memory.archived_before"), params)
    return [load_memory(row) for row in rows]


def by_ids(session: Session, caller: Caller, ids: Iterable[str], now: int, view: View = "live") -> dict[str, Memory]:
    """Read the visible memories among some ids."""
    wanted = list(ids)
    parts, params = filter_clauses(caller, EVERYTHING, now, view)
    rows = session.select(("memory_select", *parts, "memory.some"), params | {"ids": wanted})
    return {row[0]: load_memory(row) for row in rows}


class MemoryText(NamedTuple):
    """The text of a memory and its source."""

    id: str
    title: str
    content: str
    source_uri: str | None


def read_texts(session: Session, caller: Caller, ids: Sequence[str], now: int) -> list[MemoryText]:
    """Read the texts of the visible memories among some ids, in the given order."""
    if not ids:
        return []
    parts, params = filter_clauses(caller, EVERYTHING, now)
    rows = session.select(("memory_texts", *parts, "memory.some"), params | {"ids": list(ids)})
    read = {row[0]: MemoryText(*row) for row in rows}
    return [read[id] for id in ids if id in read]


def list_same_text(session: Session, caller: Caller, numbers: Sequence[int], now: int) -> list[str]:
    """Ids of the visible memories with the same MinHash numbers, oldest first."""
    parts, params = filter_clauses(caller, EVERYTHING, now)
    exact_params = {"exact": numbers[0], "band": numbers[1]}
    rows = session.select(("memory_ids", *parts, "memory.same_text"), params | exact_params)
    return sorted(row[0] for row in rows)


def resolve(session: Session, caller: Caller, id: str, now: int, view: View = "live") -> Memory:
    """Read the memory with an id or an unambiguous id prefix."""
    parts, params = filter_clauses(caller, EVERYTHING, now, view)
    rows = session.select(("memory_select", *parts, "memory.one"), params | {"id": id})
    if not rows and 0 < len(id) < 36:
        rows = session.select(("memory_select", *parts, "memory.prefixed"), params | {"prefix": id})
    if not rows and (representative := session.row("title_representative_of", id=id)):
        return resolve(session, caller, representative[0], now, view)
    if len(rows) > 1:
        found = [row[0] for row in rows[:10]]
        raise AmbiguousId(f"{id!r} is the prefix of several ids: give more characters.", candidates=found)
    if not rows:
        raise NotFound(f"There is no memory {id!r}.", id=id)
    return load_memory(rows[0])


def can_write(session: Session, caller: Caller, id: str) -> bool:
    """Whether the caller may write to a memory."""
    parts, params = visibility_clauses(caller, "writable")
    return bool(session.select(("memory_ids", *parts, "memory.one"), params | {"id": id}))


def was_visible(session: Session, caller: Caller, past: Memory) -> bool:
    """Whether a caller may see a past state of a memory: the rule of `memory.visible`, applied to that state."""
    if not caller.can_access(past.namespace):
        return False
    if past.scope != "private" or past.agent == caller.agent:
        return True
    grant = session.row("memory_grant_get", id=derive_id("grant", past.id, caller.agent))
    return grant is not None and Grant(*grant).state == "live"


def find_by_title(session: Session, namespace: str, title: str) -> Memory | None:
    """Read the memory with a title, whoever owns it."""
    row = session.row("memory_by_title", namespace=namespace, title=title)
    return load_memory(row) if row else None


def search_words(
    session: Session,
    caller: Caller,
    words: Sequence[str],
    which: Filter,
    now: int,
    *,
    limit: int,
    match_all: bool = False,
    since_row: int = 0,
) -> list[FullTextHit]:
    """Full-text search for any, or all, of some words, best first. Filters apply before the limit.

    `since_row`: only rows from this one on.
    """
    parts, params = filter_clauses(caller, which, now)
    statement, fts_params = session.full_text_query(words, match_all=match_all)
    params |= fts_params | {"limit": limit}
    if since_row:
        parts.append("full_text_hits.since_row")
        params["since_row"] = since_row
    rows = session.select((*statement, *parts, "full_text_hits.best"), params)
    return [FullTextHit(*row) for row in rows]


def count(session: Session, caller: Caller, which: Filter, now: int, view: View = "live") -> int:
    parts, params = filter_clauses(caller, which, now, view)
    return int(session.select(("memory_count", *parts), params)[0][0])


def list_by_title(
    session: Session, caller: Caller, which: Filter, now: int, title: str | None, *, limit: int, skip: int
) -> list[Memory]:
    """Read the memories of a filter, optionally only those with a title, ordered by namespace."""
    parts, params = filter_clauses(caller, which, now)
    if title is not None:
        parts, params = [*parts, "memory.by_title"], params | {"title": title}
    rows = session.select(("memory_select", *parts, "memory.by_place"), params | {"limit": limit, "skip": skip})
    return [load_memory(row) for row in rows]


def count_observations(session: Session, caller: Caller, agents: Sequence[str], now: int) -> int:
    """Count the observations of some agents."""
    parts, params = filter_clauses(caller, Filter(kinds=("observation",)), now)
    return int(session.select(("memory_count", *parts, "memory.observed_by"), params | {"agents": list(agents)})[0][0])


def count_by(
    session: Session, caller: Caller, which: Filter, now: int, by: Literal["tier", "namespace"], view: View = "live"
) -> list[tuple[str, int]]:
    """Count memories by tier or namespace."""
    parts, params = filter_clauses(caller, which, now, view)
    rows = session.select((f"memory_count.by_{by}", *parts, f"memory.per_{by}"), params)
    return [(str(row[0]), int(row[1])) for row in rows]


def read_access_counts(session: Session, ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Read access count and latest access time of memories."""
    return {row[0]: (row[1], row[2]) for row in session.rows("memory_access_of", ids=list(ids))} if ids else {}


def require_write_access(ctx: Context, write: Transaction, memory: Memory) -> None:
    if not can_write(write.session, ctx.caller, memory.id):
        raise Forbidden(f"The memory {memory.id} belongs to another agent: ask its owner for a write grant.")


def require_owner(ctx: Context, write: Transaction, memory: Memory) -> None:
    """Raise unless the caller owns the memory or has an admin grant on it."""
    if memory.agent != ctx.caller.agent:
        own = write.get(GRANT, derive_id("grant", memory.id, ctx.caller.agent))
        if own is None or own.state != "live" or own.permission != "admin":
            raise Forbidden(f"Only the owner of {memory.id} can change who may see it.")


def check_scope_change(ctx: Context, write: Transaction, before: Memory, after: Memory) -> None:
    """Raise if a change makes a memory private or public without ownership of it."""
    if before.scope != after.scope and "private" in (before.scope, after.scope):
        require_owner(ctx, write, before)


MAX_ACCESSES = 1000
"""Accesses that are flushed at once, without waiting for more."""


class AccessLog:
    """Counts accesses by agent and memory until they are flushed. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._accesses: dict[str, dict[str, tuple[int, int]]] = {}
        self._count = 0
        self.has_accesses = threading.Event()
        self.is_full = threading.Event()
        """Set once MAX_ACCESSES wait."""
        self.on_first: Callable[[], None] | None = None
        """Called once, with the first access."""

    def record(self, agent: str, memories: list[str], at: int) -> None:
        self.add(agent, dict.fromkeys(memories, (1, at)))

    def add(self, agent: str, accesses: Mapping[str, tuple[int, int]]) -> None:
        """Add accesses of an agent: the count and the latest time of each memory."""
        with self._lock:
            seen = self._accesses.setdefault(agent, {})
            for id, (uses, at) in accesses.items():
                before, last = seen.get(id, (0, 0))
                seen[id] = (before + uses, max(last, at))
            self._count += len(accesses)
            started, self.on_first = self.on_first, None
        self.has_accesses.set()
        if self._count >= MAX_ACCESSES:
            self.is_full.set()
        if started is not None:
            started()

    def drain(self) -> dict[str, dict[str, tuple[int, int]]]:
        """Return and clear all accesses: count and latest time by agent and memory."""
        with self._lock:
            seen, self._accesses, self._count = self._accesses, {}, 0
            return seen
