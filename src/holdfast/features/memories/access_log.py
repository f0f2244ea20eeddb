"""In-memory access counts, flushed in batches: reads do not write."""

import threading
from collections.abc import Mapping


class AccessLog:
    """Counts accesses by agent and memory until they are flushed. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._accesses: dict[str, dict[str, tuple[int, int]]] = {}

    def record(self, agent: str, memories: list[str], at: int) -> None:
        self.add(agent, dict.fromkeys(memories, (1, at)))

    def add(self, agent: str, accesses: Mapping[str, tuple[int, int]]) -> None:
        """Add accesses of an agent: the count and the latest time of each memory."""
        with self._lock:
            seen = self._accesses.setdefault(agent, {})
            for id, (uses, at) in accesses.items():
                before, last = seen.get(id, (0, 0))
                seen[id] = (before + uses, max(last, at))

    def drain(self) -> dict[str, dict[str, tuple[int, int]]]:
        """Return and clear all accesses: count and latest time by agent and memory."""
        with self._lock:
            seen, self._accesses = self._accesses, {}
            return seen
