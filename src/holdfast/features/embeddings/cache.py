"""In-process cache of fresh embeddings."""

import threading
from collections import OrderedDict

from holdfast.features.embeddings.store import DueMemory, PassageEmbedding


class EmbeddingCache:
    """LRU cache of embeddings that may not be stored yet, so that none is computed twice."""

    def __init__(self, max_memories: int = 512) -> None:
        self._lock = threading.Lock()
        self._max_memories = max_memories
        self._embeddings: OrderedDict[tuple[str, str, str], list[PassageEmbedding]] = OrderedDict()

    def get(self, model: str, due: DueMemory) -> list[PassageEmbedding] | None:
        with self._lock:
            return self._embeddings.get((model, due.id, due.text_hash))

    def put(self, model: str, due: DueMemory, embeddings: list[PassageEmbedding]) -> None:
        with self._lock:
            self._embeddings[model, due.id, due.text_hash] = embeddings
            while len(self._embeddings) > self._max_memories:
                self._embeddings.popitem(last=False)
