"""In-process cache of fresh embeddings."""

import threading
from collections import OrderedDict

from holdfast.features.embeddings.store import Due, Kept


class Recent:
    """LRU cache of embeddings that may not be stored yet, so that none is computed twice."""

    def __init__(self, most: int = 512) -> None:
        self._lock = threading.Lock()
        self._most = most
        self._made: OrderedDict[tuple[str, str, str], list[Kept]] = OrderedDict()

    def get(self, model: str, due: Due) -> list[Kept] | None:
        with self._lock:
            return self._made.get((model, due.id, due.text_hash))

    def put(self, model: str, due: Due, made: list[Kept]) -> None:
        with self._lock:
            self._made[model, due.id, due.text_hash] = made
            while len(self._made) > self._most:
                self._made.popitem(last=False)
