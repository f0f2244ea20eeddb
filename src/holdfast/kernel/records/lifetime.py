"""Lifetimes of memories, and retention of agents' records."""

from typing import NamedTuple

from msgspec import Struct

from holdfast.kernel.records.memory import Memory, Tier
from holdfast.kernel.timestamps import NO_END, SECOND


class Lifetimes(Struct, frozen=True, forbid_unknown_fields=True):
    """Lifetimes in seconds; 0 or less means forever."""

    short: int = 6 * 3600
    """Lifetime of a short-term memory."""
    mid: int = 7 * 86_400
    """Lifetime of a mid-term memory."""
    short_extend: int = 3600
    """Minimum remaining lifetime of a short-term memory after a recall."""
    mid_extend: int = 86_400
    """Minimum remaining lifetime of a mid-term memory after a recall."""
    promote_after: int = 5
    """Recalls after which a mid-term memory becomes long-term; 0: never."""

    def expiry(self, tier: Tier, now: int) -> int | None:
        seconds = 0 if tier == "long" else getattr(self, tier)
        return now + seconds * SECOND if seconds > 0 else None

    def extend(self, tier: Tier, used_at: int) -> int:
        """Return the time until which a recall keeps a memory alive."""
        return used_at + (0 if tier == "long" else getattr(self, f"{tier}_extend")) * SECOND


class Retention(NamedTuple):
    """Retention of usage, task runs and runs, in days; 0: forever."""

    usage: int = 0
    task_runs: int = 0
    runs: int = 0


def lives_until(memory: Memory, used_until: int = 0) -> int:
    """Return the effective end of a memory: a recall can extend the lifetime, never shorten it."""
    if memory.expires_at is None:
        return NO_END
    return max(memory.expires_at, used_until) if used_until else memory.expires_at  # a peer's end may be before 1970
