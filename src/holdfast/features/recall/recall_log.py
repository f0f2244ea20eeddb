"""Buffer of this process's recalls until they are flushed."""

import threading
from collections import deque
from typing import NamedTuple

from holdfast.features.recall.ranking import Ranked
from holdfast.features.recall.recall_store import Hit, Logged
from holdfast.kernel.text import secrets
from holdfast.kernel.timestamps import DAY

FEWEST_DAYS = 1
"""Days for which a recall without its query can still be rated."""


class Asked(NamedTuple):
    """A recall that is not stored yet."""

    id: str
    asked_at: int
    agent: str
    question: str
    hits: tuple[Ranked, ...]

    def logged(self, *, whole: bool) -> Logged:
        """Build the record to store, with or without the query; secrets are always redacted."""
        question = secrets.redacted(self.question)[0] if whole else None
        return Logged(self.id, self.asked_at, self.agent, question, list(map(_hit, self.hits)))


def _hit(one: Ranked) -> Hit:
    parts = {name: round(value, 6) for name, value in one.parts._asdict().items() if value}
    cosine = None if one.cosine is None else round(one.cosine, 6)
    return Hit(one.id, round(one.score, 6), round(one.adjusted.factor(), 6), round(one.bm25, 6), parts, cosine)


def oldest(now: int, days: int) -> int:
    """Return the time before which recalls are deleted, if queries are kept for `days` days."""
    return now - max(days, FEWEST_DAYS) * DAY


class Recalls:
    """Recalls collected in memory, so that reading never writes. If they are not flushed, the oldest are dropped."""

    def __init__(self, most: int = 2000) -> None:
        self._lock = threading.Lock()
        self._asked: deque[Asked] = deque(maxlen=most)

    def note(self, asked: Asked) -> None:
        with self._lock:
            self._asked.append(asked)

    def all(self) -> list[Asked]:
        """List all, oldest first, without removing them."""
        with self._lock:
            return list(self._asked)

    def take(self) -> list[Asked]:
        """Remove and return all, oldest first."""
        with self._lock:
            asked = list(self._asked)
            self._asked.clear()
            return asked

    def put_back(self, asked: list[Asked]) -> None:
        """Put back recalls that could not be written; the next flush tries again."""
        with self._lock:
            self._asked = deque([*asked, *self._asked], maxlen=self._asked.maxlen)
