"""Storage of curator runs, steps, marks, cursors and proposals; local to this store."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import EVERYTHING, TEXT_UPPER_BOUND, Filter
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import NotFound
from holdfast.kernel.journal.kinds import load_memory
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import derive_id

Status = Literal["open", "accepted", "dismissed", "withdrawn"]
Referrer = Literal["granted", "standard", "ground", "superseded", "superseding"]
"""How other records refer to a memory."""
MAX_TAGS = 2000
NEWEST = (1 << 62, TEXT_UPPER_BOUND)
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


class Proposal(NamedTuple):
    """A proposed change and the decision about it."""

    id: str
    run: str
    step: str
    memory: str
    other: str | None
    body: str
    """As JSON."""
    agent: str
    proposed_at: int
    status: Status
    decided_by: str | None = None
    decided_at: int | None = None


def count_tags(session: Session, caller: Caller, namespace: str, now: int) -> dict[str, int]:
    """Count the tags of a namespace that the caller may see, most common first."""
    parts, params = memories.filter_clauses(caller, Filter(namespace=namespace), now)
    rows = session.select(("tag_counts", *parts, "tag_counts.most_used"), params | {"limit": MAX_TAGS})
    return {row[0]: int(row[1]) for row in rows}


def list_changeable(session: Session, caller: Caller, after: str, now: int, *, limit: int) -> list[Memory]:
    """List live memories that the caller may change, by id, after a given one."""
    parts, params = memories.filter_clauses(caller, EVERYTHING, now)
    rows = session.select(
        ("memory_select", *parts, "memory.writable", "memory.after"), params | {"after": after, "limit": limit}
    )
    return [load_memory(row) for row in rows]


def find_by_title(session: Session, caller: Caller, namespace: str, title: str, now: int) -> Memory | None:
    """Find a live memory by title, if the caller may see it."""
    parts, params = memories.filter_clauses(caller, Filter(namespace=namespace), now)
    rows = session.select(("memory_select", *parts, "memory.by_title"), params | {"title": title})
    return load_memory(rows[0]) if rows else None


def find_referrers(session: Session, wanted: Sequence[str], now: int) -> dict[str, set[Referrer]]:
    """Find what refers to memories: grants, standards, sources, supersessions."""
    found: dict[str, set[Referrer]] = {}
    for id, why in session.rows("curate_referrers", ids=list(wanted), now=now):
        found.setdefault(id, set()).add(why)
    return found


def get_cursor(session: Session, id: str) -> str:
    """Return the id to continue after; empty at the start."""
    row = session.row("curate_cursor_get", id=id)
    return str(row[0]) if row else ""


def set_cursor(session: Session, id: str, place: str, now: int) -> None:
    session.do("curate_cursor_put", id=id, place=place, moved_at=now)


def get_marks(session: Session, step: str, ids: Sequence[str]) -> dict[str, str]:
    """Return the hashes under which memories were checked before."""
    return {row[0]: row[1] for row in session.rows("curate_mark_list", step=step, ids=list(ids))} if ids else {}


def set_marks(session: Session, step: str, hashes: Iterable[tuple[str, str]], now: int) -> None:
    rows = ({"step": step, "memory": id, "hash": hash, "done_at": now} for id, hash in hashes)
    session.many("curate_mark_put", rows)


def begin_run(session: Session, id: str, agent: str, now: int) -> None:
    session.do("curate_run_add", id=id, agent=agent, began_at=now)
    session.do("curate_run_abandon", id=id)


def finish_run(session: Session, id: str, status: str, report: str, now: int) -> None:
    session.do("curate_run_end", id=id, status=status, report=report, ended_at=now)


def set_run_status(session: Session, id: str, status: str) -> None:
    session.do("curate_run_status", id=id, status=status)


def delete_step(session: Session, run: str, seq: int) -> None:
    """Delete a step that was rolled back."""
    session.do("curate_step_delete", run=run, seq=seq)


def get_run(session: Session, caller: Caller, id: str) -> Run:
    """Return a run of the caller; admins may read any run."""
    row = session.row("curate_run_get", id=id)
    if row is None or not _can_see_run(Run(*row), caller):
        raise NotFound(f"Curator run {id!r} does not exist.", id=id)
    return Run(*row)


def list_runs(session: Session, caller: Caller, *, limit: int) -> list[Run]:
    """List runs, newest first."""
    found, before = list[Run](), TEXT_UPPER_BOUND
    while len(found) < limit and (rows := session.rows("curate_run_page", before=before, limit=PAGE)):
        found += [one for one in (Run(*row) for row in rows) if _can_see_run(one, caller)]
        before = rows[-1][0]
    return found[:limit]


def _can_see_run(run: Run, caller: Caller) -> bool:
    return run.agent == caller.agent or (caller.has_right("admin") and "*" in caller.namespaces)


def add_step(session: Session, run: str, seq: int, name: str, memory: str) -> None:
    session.do("curate_step_add", run=run, seq=seq, step=name, memory=memory)


def list_steps(session: Session, run: str) -> list[Step]:
    """List the steps of a run, last first."""
    return [Step(*row) for row in session.rows("curate_step_list", run=run)]


def derive_proposal_id(step: str, key: str) -> str:
    """Derive the id of a proposal: the same for the same kind and texts."""
    return derive_id("proposal", step, key)


def add_proposal(session: Session, proposal: Proposal) -> bool:
    """Add a proposal. False if it exists already, whatever was decided."""
    values = proposal._asdict()
    row = session.row("curate_proposal_add", **{name: values[name] for name in Proposal._fields[:9]})
    return row is not None


def get_proposal_statuses(session: Session, ids: Sequence[str]) -> dict[str, str]:
    """Return the status of those proposals that exist."""
    return dict(session.rows("curate_proposal_statuses", ids=list(ids))) if ids else {}


def list_not_duplicates(session: Session, wanted: Sequence[str]) -> list[str]:
    """List memories that must not be merged with the given ones."""
    return sorted(row[0] for row in session.rows("curate_not_duplicates", ids=list(wanted)))


def get_proposal(session: Session, caller: Caller, id: str, now: int) -> Proposal:
    """Return a proposal. Raises unless the caller may see its memories."""
    row = session.row("curate_proposal_get", id=id)
    if row is None or not _filter_visible(session, caller, [Proposal(*row)], now):
        raise NotFound(f"Proposal {id!r} does not exist.", id=id)
    return Proposal(*row)


def list_proposals(session: Session, caller: Caller, status: Status, now: int, *, limit: int) -> list[Proposal]:
    """List proposals about memories that the caller may see, newest first."""
    found, (at, before) = list[Proposal](), NEWEST
    while len(found) < limit:
        rows = session.rows("curate_proposal_page", status=status, at=at, before=before, limit=PAGE)
        found += _filter_visible(session, caller, [Proposal(*row) for row in rows], now)
        if len(rows) < PAGE:
            break
        at, before = rows[-1][7], rows[-1][0]
    return found[:limit]


def _filter_visible(session: Session, caller: Caller, proposals: Sequence[Proposal], now: int) -> list[Proposal]:
    ids = {id for offer in proposals for id in (offer.memory, offer.other) if id is not None}
    visible = memories.by_ids(session, caller, ids, now, view="kept") if ids else {}
    return [offer for offer in proposals if offer.memory in visible and (offer.other is None or offer.other in visible)]


def decide_proposal(session: Session, id: str, status: Status, agent: str, now: int) -> bool:
    """Record a decision. False if the proposal was not open."""
    return session.row("curate_proposal_decide", id=id, status=status, decided_by=agent, decided_at=now) is not None


def withdraw_proposals(session: Session, run: str, agent: str, now: int) -> int:
    """Withdraw the open proposals of a run; return their number."""
    return len(session.rows("curate_proposal_withdraw", run=run, decided_by=agent, decided_at=now))


def purge_memories(session: Session, ids: Sequence[str]) -> None:
    """Erase marks and proposals of purged memories."""
    session.do("curate_mark_purge", ids=list(ids))
    session.do("curate_proposal_purge", ids=list(ids))
