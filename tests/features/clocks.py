"""A clock for tests."""

from holdfast.kernel.timestamps import SECOND, format_timestamp, parse_timestamp


class Clock:
    """Clock that only advances when a test moves it."""

    def __init__(self) -> None:
        self.at = parse_timestamp("2026-01-31T09:00:00Z", "at")

    def __call__(self) -> int:
        return self.at

    def move(self, *, days: int = 0, hours: int = 0, seconds: int = 0) -> str:
        self.at += ((days * 24 + hours) * 3600 + seconds) * SECOND
        return format_timestamp(self.at)

    def after(self, *, days: int = 0, hours: int = 0, seconds: int = 0) -> str:
        """A later time as text, without moving the clock."""
        return format_timestamp(self.at + ((days * 24 + hours) * 3600 + seconds) * SECOND)
