"""A clock of the test, and short forms of links."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from datetimes import to_datetime
from holdfast.kernel.context import Caller
from holdfast.kernel.timestamps import SECOND

START = 1_800_000_000 * SECOND
OTHER = Caller("ai:other@here")
Remember = Callable[..., str]


class Clock:
    """A clock that only moves explicitly."""

    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> int:
        return self.at

    def tick(self, seconds: int = 1) -> datetime:
        self.at += seconds * SECOND
        return to_datetime(self.at)


def targets(answer: Any) -> list[str]:
    return [one.target_id for one in answer.memories]
