"""Read memories. The only place that decides, in SQL, which memories a caller may see."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from holdfast.features.access.model import Grant
from holdfast.kernel import ids
from holdfast.kernel.caller import Caller
from holdfast.kernel.errors import AmbiguousId, NotFound
from holdfast.kernel.journal.kinds import memory_of
from holdfast.kernel.records.memory import Kind, Memory, Tier
from holdfast.kernel.storage.port import Part, Session

View = Literal["live", "put_away", "kept", "any"]
"""live: not expired; put_away: archived or expired; kept: not deleted; any: all, deleted included."""

LONGEST_TEXT = "\U0010ffff"


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


class Found(NamedTuple):
    """A full-text hit without its memory."""

    id: str
    score: float
    priority: int
    confidence: float
    updated_at: int


def visible(caller: Caller, right: Literal["visible", "writable"] = "visible") -> tuple[list[Part], dict[str, Any]]:
    """Build the clauses that limit a query to memories the caller may see, or change."""
    parts, params = reached(caller)
    return [f"memory.{right}", *parts], params | {"caller": caller.agent}


def reached(caller: Caller) -> tuple[list[Part], dict[str, Any]]:
    """Build the clauses that limit a query to the caller's namespaces, including private memories: for exports."""
    parts: list[Part] = []
    params: dict[str, Any] = {}
    if "*" not in caller.namespaces:
        for number, path in enumerate(caller.namespaces or ("",)):
            parts.append(("memory.reach_more" if number else "memory.reach_first", number))
            params[f"reach_{number}"] = path
        parts.append("memory.reach_end")
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
    ("unchanged_since", "memory.unchanged", "unchanged_since"),
    ("true_at", "memory.true_at", "true_at"),
)


def narrowed(caller: Caller, which: Filter, now: int, view: View = "live") -> tuple[list[Part], dict[str, Any]]:
    """Build the clauses of a filter, including visibility."""
    parts, params = visible(caller)
    if which.archived and view == "live":
        view = "kept"
    parts.append(f"memory.{view}")
    if view in ("live", "put_away"):
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
        params |= {"uri_prefix": which.source_uri_prefix, "uri_end": which.source_uri_prefix + LONGEST_TEXT}
    if which.confidence is not None:
        parts.append("memory.confident")
        params |= dict(zip(("confidence_least", "confidence_below"), which.confidence, strict=True))
    if which.as_agent is not None:
        parts.append("memory.seen_from")
        params |= seen_from(which.as_agent)
    return parts, params


def seen_from(namespace: str) -> dict[str, str]:
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
    parts, params = narrowed(caller, which, now, view)
    rows = session.assembled(("memory_select", *parts, f"memory.{order}"), params | {"limit": limit, "skip": skip})
    return [memory_of(row) for row in rows]


def newest(session: Session, caller: Caller, now: int, *, before: str = LONGEST_TEXT, limit: int) -> list[Memory]:
    """Read the newest memories, starting before an id."""
    parts, params = narrowed(caller, EVERYTHING, now)
    rows = session.assembled(("memory_select", *parts, "memory.before"), params | {"before": before, "limit": limit})
    return [memory_of(row) for row in rows]


def put_away_before(
    session: Session, caller: Caller, now: int, before: int, ids: list[str] | None = None
) -> list[Memory]:
    """List memories archived or expired by a timestamp, optionally only those with given ids."""
    parts, params = narrowed(caller, EVERYTHING, now, "put_away")
    params["before"] = before
    if ids is not None:
        parts.append("memory.some")
        params["ids"] = ids
    rows = session.assembled(("memory_select", *parts, "memory.put_away_before"), params)
    return [memory_of(row) for row in rows]


def by_ids(session: Session, caller: Caller, ids: Iterable[str], now: int, view: View = "live") -> dict[str, Memory]:
    """Read the visible memories among some ids."""
    wanted = list(ids)
    parts, params = narrowed(caller, EVERYTHING, now, view)
    rows = session.assembled(("memory_select", *parts, "memory.some"), params | {"ids": wanted})
    return {row[0]: memory_of(row) for row in rows}


class Text(NamedTuple):
    """The text of a memory and its source."""

    id: str
    title: str
    content: str
    source_uri: str | None


def texts(session: Session, caller: Caller, ids: Sequence[str], now: int) -> list[Text]:
    """Read the texts of the visible memories among some ids, in the given order."""
    if not ids:
        return []
    parts, params = narrowed(caller, EVERYTHING, now)
    rows = session.assembled(("memory_texts", *parts, "memory.some"), params | {"ids": list(ids)})
    read = {row[0]: Text(*row) for row in rows}
    return [read[id] for id in ids if id in read]


def saying(session: Session, caller: Caller, numbers: Sequence[int], now: int) -> list[str]:
    """Ids of the visible memories with the same MinHash numbers, oldest first."""
    parts, params = narrowed(caller, EVERYTHING, now)
    exact_params = {"exact": numbers[0], "band": numbers[1]}
    rows = session.assembled(("memory_ids", *parts, "memory.same"), params | exact_params)
    return sorted(row[0] for row in rows)


def resolve(session: Session, caller: Caller, id: str, now: int, view: View = "live") -> Memory:
    """Read the memory with an id or an unambiguous id prefix."""
    parts, params = narrowed(caller, EVERYTHING, now, view)
    rows = session.assembled(("memory_select", *parts, "memory.one"), params | {"id": id})
    if not rows and 0 < len(id) < 36:
        rows = session.assembled(("memory_select", *parts, "memory.prefixed"), params | {"prefix": id})
    if not rows and (representative := session.row("title_stands_for", id=id)):
        return resolve(session, caller, representative[0], now, view)
    if len(rows) > 1:
        found = [row[0] for row in rows[:10]]
        raise AmbiguousId(f"{id!r} is the prefix of several ids: give more characters.", candidates=found)
    if not rows:
        raise NotFound(f"There is no memory {id!r}.", id=id)
    return memory_of(rows[0])


def may_change(session: Session, caller: Caller, id: str) -> bool:
    """Whether the caller may write to a memory."""
    parts, params = visible(caller, "writable")
    return bool(session.assembled(("memory_ids", *parts, "memory.one"), params | {"id": id}))


def was_visible(session: Session, caller: Caller, then: Memory) -> bool:
    """Whether a caller may see a past state of a memory: the rule of `memory.visible`, applied to that state."""
    if not caller.reaches(then.namespace):
        return False
    if then.scope != "private" or then.agent == caller.agent:
        return True
    grant = session.row("memory_grant_get", id=ids.derived("grant", then.id, caller.agent))
    return grant is not None and Grant(*grant).state == "live"


def holder(session: Session, namespace: str, title: str) -> Memory | None:
    """Read the memory with a title, whoever owns it."""
    row = session.row("memory_by_title", namespace=namespace, title=title)
    return memory_of(row) if row else None


def matching(
    session: Session,
    caller: Caller,
    words: Sequence[str],
    which: Filter,
    now: int,
    *,
    limit: int,
    every: bool = False,
    since_row: int = 0,
) -> list[Found]:
    """Full-text search for any, or all, of some words, best first. Filters apply before the limit.

    `since_row`: only rows from this one on.
    """
    parts, params = narrowed(caller, which, now)
    statement, fts_params = session.asking(words, every=every)
    params |= fts_params | {"limit": limit}
    if since_row:
        parts.append("memory_found.since_row")
        params["since_row"] = since_row
    rows = session.assembled((*statement, *parts, "memory_found.best"), params)
    return [Found(*row) for row in rows]


def count(session: Session, caller: Caller, which: Filter, now: int, view: View = "live") -> int:
    parts, params = narrowed(caller, which, now, view)
    return int(session.assembled(("memory_count", *parts), params)[0][0])


def titled(
    session: Session, caller: Caller, which: Filter, now: int, title: str | None, *, limit: int, skip: int
) -> list[Memory]:
    """Read the memories of a filter, optionally only those with a title, ordered by namespace."""
    parts, params = narrowed(caller, which, now)
    if title is not None:
        parts, params = [*parts, "memory.titled"], params | {"title": title}
    rows = session.assembled(("memory_select", *parts, "memory.by_place"), params | {"limit": limit, "skip": skip})
    return [memory_of(row) for row in rows]


def count_noted(session: Session, caller: Caller, agents: Sequence[str], now: int) -> int:
    """Count the observations of some agents."""
    parts, params = narrowed(caller, Filter(kinds=("observation",)), now)
    return int(session.assembled(("memory_count", *parts, "memory.noted_by"), params | {"agents": list(agents)})[0][0])


def counts(
    session: Session, caller: Caller, which: Filter, now: int, by: Literal["tier", "namespace"], view: View = "live"
) -> list[tuple[str, int]]:
    """Count memories by tier or namespace."""
    parts, params = narrowed(caller, which, now, view)
    rows = session.assembled((f"memory_count.by_{by}", *parts, f"memory.per_{by}"), params)
    return [(str(row[0]), int(row[1])) for row in rows]


def uses(session: Session, ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Read access count and latest access time of memories."""
    return {row[0]: (row[1], row[2]) for row in session.rows("access_of", ids=list(ids))} if ids else {}
