"""How long a memory lives, and what agents leave behind."""

from typing import NamedTuple

from msgspec import Struct

from holdfast.kernel.records.memory import Memory, Tier
from holdfast.kernel.timestamps import OPEN_END, SECOND


class Lifetimes(Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds; 0 or less means for ever."""

    short: int = 6 * 3600
    """How long a short-term memory lives."""
    mid: int = 7 * 86_400
    """How long a mid-term memory lives."""
    short_extend: int = 3600
    """How long a short-term memory lives at least once it was recalled."""
    mid_extend: int = 86_400
    """How long a mid-term memory lives at least once it was recalled."""
    promote_after: int = 5
    """A mid-term memory that was recalled this often becomes long-term; 0: never."""

    def expiry(self, tier: Tier, now: int) -> int | None:
        seconds = 0 if tier == "long" else getattr(self, tier)
        return now + seconds * SECOND if seconds > 0 else None

    def extended(self, tier: Tier, used_at: int) -> int:
        """Until when a use keeps a memory alive; never less than it had."""
        return used_at + (0 if tier == "long" else getattr(self, f"{tier}_extend")) * SECOND


class Keep(NamedTuple):
    """Days for which is kept what agents used, tried and finished; 0: for ever."""

    usage: int = 0
    task_runs: int = 0
    runs: int = 0


def lives_until(memory: Memory, used_until: int = 0) -> int:
    """The end that reading goes by: a use may lengthen a life, never shorten it."""
    if memory.expires_at is None:
        return OPEN_END
    return max(memory.expires_at, used_until) if used_until else memory.expires_at  # a peer's end may be before 1970
