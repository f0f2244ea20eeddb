"""Which memories were recalled, collected in memory so that reads do not write."""

import threading
from collections.abc import Mapping


class Uses:
    """Which memories were recalled, collected so that reading stays reading; written in a batch afterwards."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, dict[str, tuple[int, int]]] = {}

    def note(self, agent: str, memories: list[str], at: int) -> None:
        self.add(agent, dict.fromkeys(memories, (1, at)))

    def add(self, agent: str, used: Mapping[str, tuple[int, int]]) -> None:
        """Uses of an agent, beside those it has: each memory's number and last time."""
        with self._lock:
            seen = self._seen.setdefault(agent, {})
            for id, (uses, at) in used.items():
                before, last = seen.get(id, (0, 0))
                seen[id] = (before + uses, max(last, at))

    def take(self) -> dict[str, dict[str, tuple[int, int]]]:
        """By agent and memory: how often, and when last. What was taken is not given again."""
        with self._lock:
            seen, self._seen = self._seen, {}
            return seen
