"""Storage of curator runs, steps, marks, cursors and proposals; local to this store."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import EVERYTHING, TEXT_UPPER_BOUND, Filter
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import NotFound
from holdfast.kernel.journal.kinds import load_memory
from holdfast.kernel.records.fields import PRIVATE, Agent, Named, Timestamp
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.local_table import LocalTable
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import derive_id

Status = Literal["open", "accepted", "dismissed", "withdrawn"]
Referrer = Literal["granted", "standard", "ground", "superseded", "superseding"]
"""How other records refer to a memory."""
MAX_TAGS = 2000
NEWEST = (1 << 62, TEXT_UPPER_BOUND)
PAGE = 100


class CurationRun(Struct, frozen=True, kw_only=True):
    id: Annotated[str, Named("run_id")]
    agent: Agent
    began_at: Timestamp
    ended_at: Timestamp | None = None
    status: str = "running"
    """running, done, stopped, failed, broken off, taken back, or partly taken back."""
    report: Annotated[dict[str, dict[str, int]], Named("steps")] = {}


class Step(Struct, frozen=True, kw_only=True):
    """One transaction of a run."""

    run: str
    seq: int
    """Sequence number of its first change in the journal."""
    step: str
    memory: str


class CurationProposal(Struct, frozen=True, kw_only=True):
    """A proposed change and the decision about it."""

    id: str
    run: Annotated[str, Named("run_id")]
    step: Annotated[str, Named("kind")]
    """tags, contradiction, update (the memory supersedes the other), or duplicate (both are merged)."""
    memory: Annotated[str, Named("memory_id")]
    other: Annotated[str, Named("other_id")] | None = None
    body: Annotated[dict[str, Any], Named("details")]
    """The tags or the contradicting sentences, and the method."""
    agent: Annotated[str, PRIVATE]
    proposed_at: Annotated[Timestamp, Named("offered_at")]
    status: Status = "open"
    decided_by: str | None = None
    decided_at: Annotated[Timestamp, PRIVATE] | None = None


class Check(Struct, frozen=True, kw_only=True):
    """Under which hash a memory was checked last, by a step."""

    step: str
    memory: str
    hash: str
    done_at: int


class Cursor(Struct, frozen=True, kw_only=True):
    """Where the next run continues."""

    id: str
    place: str
    moved_at: int


RUNS = LocalTable(CurationRun, "curate_run")
STEPS = LocalTable(Step, "curate_step", ("run", "seq"), parent=(RUNS, "run"))
PROPOSALS = LocalTable(CurationProposal, "curate_proposal", memories=("memory", "other"))
CHECKS = LocalTable(Check, "curate_mark", ("step", "memory"), memories=("memory",))
CURSORS = LocalTable(Cursor, "curate_cursor")


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
    cursor = CURSORS.get(session, id)
    return cursor.place if cursor else ""


def get_marks(session: Session, step: str, ids: Sequence[str]) -> dict[str, str]:
    """Return the hashes under which memories were checked before."""
    found = CHECKS.select(session, ("curate_mark.of_step",), {"step": step, "ids": list(ids)}) if ids else []
    return {one.memory: one.hash for one in found}


def set_marks(session: Session, step: str, hashes: Iterable[tuple[str, str]], now: int) -> None:
    CHECKS.put_many(session, (Check(step=step, memory=id, hash=hash, done_at=now) for id, hash in hashes))


def begin_run(session: Session, id: str, agent: str, now: int) -> None:
    RUNS.add(session, CurationRun(id=id, agent=agent, began_at=now))
    session.do("curate_run_abandon", id=id)


def change_run(session: Session, id: str, **changes: Any) -> None:
    run = RUNS.get(session, id)
    if run is not None:
        RUNS.put(session, replace(run, **changes))


def get_run(session: Session, caller: Caller, id: str) -> CurationRun:
    """Return a run of the caller; admins may read any run."""
    run = RUNS.get(session, id)
    if run is None or not _can_see_run(run, caller):
        raise NotFound(f"Curator run {id!r} does not exist.", id=id)
    return run


def list_runs(session: Session, caller: Caller, *, limit: int) -> list[CurationRun]:
    """List runs, newest first."""
    found, before = list[CurationRun](), TEXT_UPPER_BOUND
    while len(found) < limit and (
        page := RUNS.select(session, ("curate_run.page",), {"before": before, "limit": PAGE})
    ):
        found += [one for one in page if _can_see_run(one, caller)]
        before = page[-1].id
    return found[:limit]


def _can_see_run(run: CurationRun, caller: Caller) -> bool:
    return run.agent == caller.agent or (caller.has_right("admin") and "*" in caller.namespaces)


def list_steps(session: Session, run: str) -> list[Step]:
    """List the steps of a run, last first: later steps may depend on earlier ones."""
    return STEPS.get_many(session, [run], "run")[::-1]


def derive_proposal_id(step: str, key: str) -> str:
    """Derive the id of a proposal: the same for the same kind and texts."""
    return derive_id("proposal", step, key)


def get_proposal_statuses(session: Session, ids: Sequence[str]) -> dict[str, str]:
    """Return the status of those proposals that exist."""
    return {one.id: one.status for one in PROPOSALS.get_many(session, ids)}


def list_not_duplicates(session: Session, wanted: Sequence[str]) -> list[str]:
    """List memories that must not be merged with the given ones."""
    return sorted(row[0] for row in session.rows("curate_not_duplicates", ids=list(wanted)))


def get_proposal(session: Session, caller: Caller, id: str, now: int) -> CurationProposal:
    """Return a proposal. Raises unless the caller may see its memories."""
    proposal = PROPOSALS.get(session, id)
    if proposal is None or not _filter_visible(session, caller, [proposal], now):
        raise NotFound(f"Proposal {id!r} does not exist.", id=id)
    return proposal


def list_proposals(session: Session, caller: Caller, status: Status, now: int, *, limit: int) -> list[CurationProposal]:
    """List proposals about memories that the caller may see, newest first."""
    found, (at, before) = list[CurationProposal](), NEWEST
    while len(found) < limit:
        params = {"status": status, "at": at, "before": before, "limit": PAGE}
        page = PROPOSALS.select(session, ("curate_proposal.page",), params)
        found += _filter_visible(session, caller, page, now)
        if len(page) < PAGE:
            break
        at, before = page[-1].proposed_at, page[-1].id
    return found[:limit]


def _filter_visible(
    session: Session, caller: Caller, proposals: Sequence[CurationProposal], now: int
) -> list[CurationProposal]:
    ids = {id for offer in proposals for id in (offer.memory, offer.other) if id is not None}
    visible = memories.by_ids(session, caller, ids, now, view="kept") if ids else {}
    return [offer for offer in proposals if offer.memory in visible and (offer.other is None or offer.other in visible)]


def decide_proposal(session: Session, id: str, status: Status, agent: str, now: int) -> bool:
    """Record a decision. False if the proposal was not open."""
    proposal = PROPOSALS.get(session, id)
    if proposal is None or proposal.status != "open":
        return False
    PROPOSALS.put(session, replace(proposal, status=status, decided_by=agent, decided_at=now))
    return True


def withdraw_proposals(session: Session, run: str, agent: str, now: int) -> int:
    """Withdraw the open proposals of a run; return their number."""
    found = PROPOSALS.select(session, ("curate_proposal.open_of_run",), {"run": run})
    PROPOSALS.put_many(session, (replace(one, status="withdrawn", decided_by=agent, decided_at=now) for one in found))
    return len(found)
