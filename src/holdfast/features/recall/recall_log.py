"""Buffer of this process's recalls until they are flushed."""

import threading
from collections import deque
from typing import NamedTuple

from holdfast.features.recall.ranking import RankedMemory
from holdfast.features.recall.recall_store import HitRecord, RecallRecord
from holdfast.kernel.text import content_scan
from holdfast.kernel.timestamps import DAY

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


class RecallLog:
    """Recalls collected in memory, so that reading never writes. If they are not flushed, the oldest are dropped."""

    def __init__(self, max_recalls: int = 2000) -> None:
        self._lock = threading.Lock()
        self._recalls: deque[PendingRecall] = deque(maxlen=max_recalls)

    def add(self, recall: PendingRecall) -> None:
        with self._lock:
            self._recalls.append(recall)

    def list_all(self) -> list[PendingRecall]:
        """List all, oldest first, without removing them."""
        with self._lock:
            return list(self._recalls)

    def drain(self) -> list[PendingRecall]:
        """Remove and return all, oldest first."""
        with self._lock:
            recalls = list(self._recalls)
            self._recalls.clear()
            return recalls

    def put_back(self, recalls: list[PendingRecall]) -> None:
        """Put back recalls that could not be written; the next flush tries again."""
        with self._lock:
            self._recalls = deque([*recalls, *self._recalls], maxlen=self._recalls.maxlen)
