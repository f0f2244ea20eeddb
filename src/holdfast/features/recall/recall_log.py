"""Recalls of this process, until they are written down."""

import threading
from collections import deque
from typing import NamedTuple

from holdfast.features.recall.ranking import Ranked
from holdfast.features.recall.recall_store import Hit, Logged
from holdfast.kernel.text import secrets
from holdfast.kernel.timestamps import DAY

FEWEST_DAYS = 1
"""A recall whose question is not kept can be spoken of for so long."""


class Asked(NamedTuple):
    """A recall as it was answered."""

    id: str
    asked_at: int
    agent: str
    question: str
    hits: tuple[Ranked, ...]

    def logged(self, *, whole: bool) -> Logged:
        """As it is kept, with the question or without; with no key or password in any case."""
        question = secrets.redacted(self.question)[0] if whole else None
        return Logged(self.id, self.asked_at, self.agent, question, list(map(_hit, self.hits)))


def _hit(one: Ranked) -> Hit:
    parts = {name: round(value, 6) for name, value in one.parts._asdict().items() if value}
    cosine = None if one.cosine is None else round(one.cosine, 6)
    return Hit(one.id, round(one.score, 6), round(one.adjusted.factor(), 6), round(one.bm25, 6), parts, cosine)


def oldest(now: int, days: int) -> int:
    """From when on recalls are kept, if questions are for so many days."""
    return now - max(days, FEWEST_DAYS) * DAY


class Recalls:
    """What was asked and found, collected so that reading stays reading; the oldest go if nobody writes them down."""

    def __init__(self, most: int = 2000) -> None:
        self._lock = threading.Lock()
        self._asked: deque[Asked] = deque(maxlen=most)

    def note(self, asked: Asked) -> None:
        with self._lock:
            self._asked.append(asked)

    def all(self) -> list[Asked]:
        """Everything, the oldest first; it stays."""
        with self._lock:
            return list(self._asked)

    def take(self) -> list[Asked]:
        """Everything, the oldest first. What was taken is not given again."""
        with self._lock:
            asked = list(self._asked)
            self._asked.clear()
            return asked

    def put_back(self, asked: list[Asked]) -> None:
        """What could not be written down waits for the next time."""
        with self._lock:
            self._asked = deque([*asked, *self._asked], maxlen=self._asked.maxlen)
