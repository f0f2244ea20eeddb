"""In how many memories words stand: counted now and then, not for every question."""

from collections.abc import Mapping
from time import monotonic

RECENT_SECONDS = 1.0


class Counts:
    """What was counted of the commoner stems. It is forgotten when the store has grown by an eighth.

    A rare one is counted each time: that is quick, and the next memory may change it by half.
    """

    def __init__(self, common: int) -> None:
        self.common = common
        self._at, self._known = 0, dict[str, int]()
        self.usual_length = 0.0
        """Words of a memory, if the engine asks for that; 0: not counted."""
        self._row, self._row_at = 0, -RECENT_SECONDS

    def recent_row(self) -> int | None:
        """The newest row of a moment ago, which is near enough for how rare a word is."""
        return self._row if monotonic() - self._row_at < RECENT_SECONDS else None

    def note_row(self, row: int) -> None:
        self._row, self._row_at = row, monotonic()

    def grow(self) -> None:
        """There may be a newer row."""
        self._row_at = -RECENT_SECONDS

    def known(self, last_row: int) -> dict[str, int]:
        if 8 * abs(last_row - self._at) > self._at:
            self._at, self._known, self.usual_length = last_row, {}, 0.0
        return self._known

    def learn(self, counted: Mapping[str, int]) -> None:
        self._known.update((stem, count) for stem, count in counted.items() if count >= self.common)
