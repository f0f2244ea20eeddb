"""Recall log and feedback. Local to this store, never journalled."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from holdfast.features.recall.utility import Verdict, compute_utility
from holdfast.kernel.storage.port import Session

MAX_RECALLS = 10_000
"""Maximum number of logged recalls."""
PRUNE_BATCH = MAX_RECALLS // 10
"""Number deleted at once above the maximum."""
PAGE_SIZE = 500
AFTER_ALL_IDS = "\U0010ffff"
"""Sorts after every id."""


class HitRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A logged hit with the parts of its score."""

    id: str
    score: float
    adjustment: float
    words: float
    parts: dict[str, float]
    cosine: float | None = None


class RecallRecord(NamedTuple):
    """A logged recall."""

    id: str
    asked_at: int
    agent: str
    question: str | None
    hits: list[HitRecord]


class HitVerdict(NamedTuple):
    recall: str
    memory: str
    agent: str
    verdict: Verdict


def add_recalls(session: Session, many: Sequence[RecallRecord]) -> None:
    """Store recalls. Memories purged meanwhile are left out, and so is a query that found one."""
    ids = {hit.id for one in many for hit in one.hits}
    purged = {row[0] for row in session.rows("memory_purged_ids", ids=list(ids))}
    session.many("recall_log_add", (_to_row(one, purged) for one in many))


def _to_row(one: RecallRecord, purged: set[str]) -> dict[str, object]:
    question = None if any(hit.id in purged for hit in one.hits) else one.question
    return {**one._asdict(), "question": question, "hits": _encode_hits(one.hits, purged)}


def _encode_hits(hits: Iterable[HitRecord], without: set[str]) -> str:
    return msgspec.json.encode([hit for hit in hits if hit.id not in without]).decode()


def get_recall(session: Session, id: str) -> RecallRecord | None:
    row = session.row("recall_log_get", id=id)
    return None if row is None else _to_record(row)


def list_page(session: Session, agent: str | None, *, before: str, limit: int) -> list[RecallRecord]:
    """List recalls of one agent or of all before a recall id, newest first."""
    if agent is None:
        rows = session.rows("recall_log_before", before=before or AFTER_ALL_IDS, limit=limit)
    else:
        rows = session.rows("recall_log_of_agent", agent=agent, before=before or AFTER_ALL_IDS, limit=limit)
    return [_to_record(row) for row in rows]


def list_recent_hits(session: Session, agent: str, *, since: int, limit: int) -> list[list[str]]:
    """List the hit ids of an agent's last recalls since a time, newest first."""
    rows = session.rows("recall_log_recent", agent=agent, since=since, limit=limit)
    return [[hit.id for hit in msgspec.json.decode(row[0], type=list[_HitId])] for row in rows]


class _HitId(msgspec.Struct, frozen=True):
    """The memory id of a logged hit."""

    id: str


def _to_record(row: tuple[str, int, str, str | None, str]) -> RecallRecord:
    return RecallRecord(*row[:4], msgspec.json.decode(row[4], type=list[HitRecord]))


def prune_recalls(session: Session, before: int) -> None:
    """Delete recalls before a time, and the oldest above the maximum."""
    session.do("recall_log_delete_before", before=before)
    ((count,),) = session.rows("recall_log_count")
    if count > MAX_RECALLS:
        session.do("recall_log_delete_excess", excess=count - MAX_RECALLS + PRUNE_BATCH)


def put_verdicts(session: Session, many: Iterable[HitVerdict], now: int) -> None:
    """Store verdicts; they replace earlier ones of the same agent on the same hits."""
    session.many("recall_feedback_put", ({**one._asdict(), "given_at": now} for one in many))


def list_verdicts(session: Session, recalls: Iterable[str]) -> list[HitVerdict]:
    """List all verdicts on the hits of some recalls, in the order given."""
    return [HitVerdict(*row) for row in session.rows("recall_feedback_of", ids=list(recalls))]


def read_utilities(session: Session, ids: Sequence[str]) -> dict[str, float]:
    """Compute the utility of the memories that have verdicts."""
    counts: dict[str, dict[Verdict, int]] = {}
    for memory, verdict, count in session.rows("recall_feedback_counts", ids=list(ids)) if ids else ():
        counts.setdefault(memory, {})[verdict] = count
    return {memory: compute_utility(verdicts) for memory, verdicts in counts.items()}


def purge_memories(session: Session, ids: Sequence[str]) -> None:
    """Delete memories from the log, with the queries that found them and their verdicts."""
    session.do("recall_feedback_delete", ids=list(ids))
    purged_ids, after = set(ids), ""
    while rows := session.rows("recall_log_page", after=after, limit=PAGE_SIZE):
        for one in map(_to_record, rows):
            if any(hit.id in purged_ids for hit in one.hits):
                session.do("recall_log_redact", id=one.id, hits=_encode_hits(one.hits, purged_ids))
        after = rows[-1][0]


def group_by_hit(verdicts: Iterable[HitVerdict]) -> Mapping[tuple[str, str], dict[str, Verdict]]:
    """Group verdicts by recall and memory, one per agent."""
    found: dict[tuple[str, str], dict[str, Verdict]] = {}
    for one in verdicts:
        found.setdefault((one.recall, one.memory), {})[one.agent] = one.verdict
    return found
