"""Storage of curator runs, steps, marks, cursors and proposals; local to this store."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from holdfast.features.memories import store as memories
from holdfast.features.memories.store import EVERYTHING, LONGEST_TEXT, Filter
from holdfast.kernel import ids
from holdfast.kernel.caller import Caller
from holdfast.kernel.errors import NotFound
from holdfast.kernel.journal.kinds import memory_of
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session

Status = Literal["open", "accepted", "dismissed", "withdrawn"]
Hold = Literal["granted", "standard", "ground", "superseded", "superseding"]
"""How other records refer to a memory."""
MOST_TAGS = 2000
LAST = (1 << 62, LONGEST_TEXT)
PAGE = 100


class Run(NamedTuple):
    id: str
    agent: str
    began_at: int
    ended_at: int | None
    status: str
    report: str
    """Counts, as JSON."""


class Step(NamedTuple):
    """One transaction of a run."""

    seq: int
    """Sequence number of its first change in the journal."""
    step: str
    memory: str


class Offer(NamedTuple):
    """A proposed change and the decision about it."""

    id: str
    run: str
    step: str
    memory: str
    other: str | None
    body: str
    """As JSON."""
    agent: str
    offered_at: int
    status: Status
    decided_by: str | None = None
    decided_at: int | None = None


def tags(session: Session, caller: Caller, namespace: str, now: int) -> dict[str, int]:
    """Count the tags of a namespace that the caller may see, most common first."""
    parts, params = memories.narrowed(caller, Filter(namespace=namespace), now)
    rows = session.assembled(("tag_counts", *parts, "tag_counts.often"), params | {"limit": MOST_TAGS})
    return {row[0]: int(row[1]) for row in rows}


def page(session: Session, caller: Caller, after: str, now: int, *, limit: int) -> list[Memory]:
    """List live memories that the caller may change, by id, after a given one."""
    parts, params = memories.narrowed(caller, EVERYTHING, now)
    rows = session.assembled(
        ("memory_select", *parts, "memory.writable", "memory.after"), params | {"after": after, "limit": limit}
    )
    return [memory_of(row) for row in rows]


def titled(session: Session, caller: Caller, namespace: str, title: str, now: int) -> Memory | None:
    """Find a live memory by title, if the caller may see it."""
    parts, params = memories.narrowed(caller, Filter(namespace=namespace), now)
    rows = session.assembled(("memory_select", *parts, "memory.titled"), params | {"title": title})
    return memory_of(rows[0]) if rows else None


def bound(session: Session, wanted: Sequence[str], now: int) -> dict[str, set[Hold]]:
    """Find what refers to memories: grants, standards, sources, supersessions."""
    found: dict[str, set[Hold]] = {}
    for id, why in session.rows("curate_bound", ids=list(wanted), now=now):
        found.setdefault(id, set()).add(why)
    return found


def cursor(session: Session, id: str) -> str:
    """Return the id to continue after; empty at the start."""
    row = session.row("curate_cursor_get", id=id)
    return str(row[0]) if row else ""


def move(session: Session, id: str, place: str, now: int) -> None:
    session.do("curate_cursor_put", id=id, place=place, moved_at=now)


def done(session: Session, step: str, ids: Sequence[str]) -> dict[str, str]:
    """Return the hashes under which memories were checked before."""
    return {row[0]: row[1] for row in session.rows("curate_done_some", step=step, ids=list(ids))} if ids else {}


def note(session: Session, step: str, hashes: Iterable[tuple[str, str]], now: int) -> None:
    rows = ({"step": step, "memory": id, "hash": hash, "done_at": now} for id, hash in hashes)
    session.many("curate_done_put", rows)


def begin(session: Session, id: str, agent: str, now: int) -> None:
    session.do("curate_run_add", id=id, agent=agent, began_at=now)
    session.do("curate_run_broken", id=id)


def finish(session: Session, id: str, status: str, report: str, now: int) -> None:
    session.do("curate_run_end", id=id, status=status, report=report, ended_at=now)


def take_back(session: Session, id: str, status: str) -> None:
    session.do("curate_run_status", id=id, status=status)


def drop_step(session: Session, run: str, seq: int) -> None:
    """Delete a step that was rolled back."""
    session.do("curate_step_drop", run=run, seq=seq)


def run(session: Session, caller: Caller, id: str) -> Run:
    """Return a run of the caller; admins may read any run."""
    row = session.row("curate_run_get", id=id)
    if row is None or not _heard_of(Run(*row), caller):
        raise NotFound(f"Curator run {id!r} does not exist.", id=id)
    return Run(*row)


def runs(session: Session, caller: Caller, *, limit: int) -> list[Run]:
    """List runs, newest first."""
    found, before = list[Run](), LONGEST_TEXT
    while len(found) < limit and (rows := session.rows("curate_run_page", before=before, limit=PAGE)):
        found += [one for one in (Run(*row) for row in rows) if _heard_of(one, caller)]
        before = rows[-1][0]
    return found[:limit]


def _heard_of(run: Run, caller: Caller) -> bool:
    return run.agent == caller.agent or (caller.may("admin") and "*" in caller.namespaces)


def step(session: Session, run: str, seq: int, name: str, memory: str) -> None:
    session.do("curate_step_add", run=run, seq=seq, step=name, memory=memory)


def steps(session: Session, run: str) -> list[Step]:
    """List the steps of a run, last first."""
    return [Step(*row) for row in session.rows("curate_steps", run=run)]


def offer_id(step: str, key: str) -> str:
    """Derive the id of a proposal: the same for the same kind and texts."""
    return ids.derived("proposal", step, key)


def propose(session: Session, offer: Offer) -> bool:
    """Add a proposal. False if it exists already, whatever was decided."""
    values = offer._asdict()
    row = session.row("curate_offer_add", **{name: values[name] for name in Offer._fields[:9]})
    return row is not None


def proposed(session: Session, ids: Sequence[str]) -> dict[str, str]:
    """Return the status of those proposals that exist."""
    return dict(session.rows("curate_offer_some", ids=list(ids))) if ids else {}


def apart(session: Session, wanted: Sequence[str]) -> list[str]:
    """List memories that must not be merged with the given ones."""
    return sorted(row[0] for row in session.rows("curate_offer_apart", ids=list(wanted)))


def offer(session: Session, caller: Caller, id: str, now: int) -> Offer:
    """Return a proposal. Raises unless the caller may see its memories."""
    row = session.row("curate_offer_get", id=id)
    if row is None or not _seen(session, caller, [Offer(*row)], now):
        raise NotFound(f"Proposal {id!r} does not exist.", id=id)
    return Offer(*row)


def offers(session: Session, caller: Caller, status: Status, now: int, *, limit: int) -> list[Offer]:
    """List proposals about memories that the caller may see, newest first."""
    found, (at, before) = list[Offer](), LAST
    while len(found) < limit:
        rows = session.rows("curate_offer_page", status=status, at=at, before=before, limit=PAGE)
        found += _seen(session, caller, [Offer(*row) for row in rows], now)
        if len(rows) < PAGE:
            break
        at, before = rows[-1][7], rows[-1][0]
    return found[:limit]


def _seen(session: Session, caller: Caller, offers: Sequence[Offer], now: int) -> list[Offer]:
    ids = {id for offer in offers for id in (offer.memory, offer.other) if id is not None}
    visible = memories.by_ids(session, caller, ids, now, view="kept") if ids else {}
    return [offer for offer in offers if offer.memory in visible and (offer.other is None or offer.other in visible)]


def decide(session: Session, id: str, status: Status, agent: str, now: int) -> bool:
    """Record a decision. False if the proposal was not open."""
    return session.row("curate_offer_decide", id=id, status=status, decided_by=agent, decided_at=now) is not None


def withdraw(session: Session, run: str, agent: str, now: int) -> int:
    """Withdraw the open proposals of a run; return their number."""
    return len(session.rows("curate_offers_withdrawn", run=run, decided_by=agent, decided_at=now))


def purge(session: Session, ids: Sequence[str]) -> None:
    """Erase marks and proposals of purged memories."""
    session.do("curate_done_purged", ids=list(ids))
    session.do("curate_offer_purged", ids=list(ids))
