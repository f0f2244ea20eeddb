"""Cached document frequencies of common stems."""

from collections.abc import Mapping
from time import monotonic

RECENT_SECONDS = 1.0


class TermCounts:
    """Document frequencies of common stems. Dropped when the store has grown by an eighth.

    Rare stems are counted each time: that is fast, and one more memory can change their frequency a lot.
    """

    def __init__(self, min_count: int) -> None:
        self.min_count = min_count
        self._at, self._counts = 0, dict[str, int]()
        self.average_length = 0.0
        """Average words per memory, if the engine needs it; 0: unknown."""
        self._row, self._row_at = 0, -RECENT_SECONDS

    def recent_row(self) -> int | None:
        """Return the newest row if it is recent enough for frequencies, else None."""
        return self._row if monotonic() - self._row_at < RECENT_SECONDS else None

    def note_row(self, row: int) -> None:
        self._row, self._row_at = row, monotonic()

    def expire_row(self) -> None:
        """Expire the newest row, because there may be a newer one."""
        self._row_at = -RECENT_SECONDS

    def current_counts(self, last_row: int) -> dict[str, int]:
        if 8 * abs(last_row - self._at) > self._at:
            self._at, self._counts, self.average_length = last_row, {}, 0.0
        return self._counts

    def update(self, counted: Mapping[str, int]) -> None:
        self._counts.update((stem, count) for stem, count in counted.items() if count >= self.min_count)
