"""Recall log and feedback: the buffer of this process, and the stored log. Local to this store, never journalled."""

import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec

from holdfast.features.recall.ranking import RankedMemory
from holdfast.kernel.records.fields import Agent, Mark, RowId, Text, Timestamp
from holdfast.kernel.storage.local_table import Export, LocalTable
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text import content_scan
from holdfast.kernel.timestamps import DAY

Verdict = Literal["used", "ignored", "wrong"]

VERDICT_VALUES: dict[Verdict, float] = {"used": 1.0, "ignored": -0.25, "wrong": -2.0}
"""`wrong` counts more than `used`; `ignored` counts little."""
PRIOR_VERDICTS = 4
"""Neutral verdicts that are added to the given ones, so that a single one changes little."""


def compute_utility(counts: Mapping[Verdict, int]) -> float:
    """Compute the utility of a memory, from -1 to 1."""
    total = sum(VERDICT_VALUES[verdict] * count for verdict, count in counts.items())
    return max(-1.0, min(1.0, total / (sum(counts.values()) + PRIOR_VERDICTS)))


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


class HitVerdict(msgspec.Struct, frozen=True, kw_only=True):
    recall: Text
    memory: Annotated[RowId, Mark.MEMORY]
    agent: Agent
    verdict: Verdict
    given_at: Timestamp


VERDICTS = LocalTable(
    HitVerdict,
    "recall_feedback",
    ("recall", "memory", "agent"),
    memories=("memory",),
    export=Export("feedback", latest=lambda one: one.given_at),
)


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


def list_verdicts(session: Session, recalls: Iterable[str]) -> list[HitVerdict]:
    """List all verdicts on the hits of some recalls, in the order given."""
    return VERDICTS.select(session, ("recall_feedback.of",), {"ids": list(recalls)})


def purge_memories(session: Session, ids: Sequence[str]) -> None:
    """Delete memories from the log, with the queries that found them."""
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


MIN_DAYS = 1
"""Days for which a recall without its query can still be rated."""


class PendingRecall(NamedTuple):
    """A recall that is not stored yet."""

    id: str
    asked_at: int
    agent: str
    question: str
    hits: tuple[RankedMemory, ...]

    def to_record(self, *, with_question: bool) -> RecallRecord:
        """Build the record to store, with or without the query; secrets are always redacted."""
        question = content_scan.redact_text(self.question)[0] if with_question else None
        return RecallRecord(self.id, self.asked_at, self.agent, question, list(map(_to_hit_record, self.hits)))


def _to_hit_record(one: RankedMemory) -> HitRecord:
    parts = {name: round(value, 6) for name, value in one.features._asdict().items() if value}
    cosine = None if one.cosine is None else round(one.cosine, 6)
    return HitRecord(
        one.id, round(one.score, 6), round(one.adjustments.compute_factor(), 6), round(one.bm25, 6), parts, cosine
    )


def oldest_kept_time(now: int, days: int) -> int:
    """Return the time before which recalls are deleted, if queries are kept for `days` days."""
    return now - max(days, MIN_DAYS) * DAY


class RecallLog(deque[PendingRecall]):
    """Recalls collected in memory, so that reading never writes. If they are not flushed, the oldest are dropped.

    Thread-safe: recall only appends, which is atomic.
    """

    def __init__(self, max_recalls: int = 2000) -> None:
        super().__init__(maxlen=max_recalls)
        self._lock = threading.Lock()
        self._max_recalls = max_recalls

    def drain(self) -> list[PendingRecall]:
        """Remove and return all, oldest first."""
        with self._lock:
            return [self.popleft() for _ in range(len(self))]

    def put_back(self, recalls: list[PendingRecall]) -> None:
        """Put back recalls that could not be written; the next flush tries again."""
        with self._lock:
            room = self._max_recalls - len(self)
            self.extendleft(reversed(recalls[max(0, len(recalls) - room) :]))
