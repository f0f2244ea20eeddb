"""What was said of hits, as one number."""

from collections.abc import Mapping
from typing import Literal

Verdict = Literal["used", "ignored", "wrong"]

WORTH: dict[Verdict, float] = {"used": 1.0, "ignored": -0.25, "wrong": -2.0}
"""To be wrong counts for more than to be of use; to be passed over says little."""
DOUBT = 4
"""So many verdicts that say nothing stand beside the given ones: a single one moves little."""


def utility(counts: Mapping[Verdict, int]) -> float:
    """Of how much use a memory was, from -1 to 1."""
    total = sum(WORTH[verdict] * count for verdict, count in counts.items())
    return max(-1.0, min(1.0, total / (sum(counts.values()) + DOUBT)))
