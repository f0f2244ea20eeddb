"""Utility: feedback on a memory as one number."""

from collections.abc import Mapping
from typing import Literal

Verdict = Literal["used", "ignored", "wrong"]

VERDICT_VALUES: dict[Verdict, float] = {"used": 1.0, "ignored": -0.25, "wrong": -2.0}
"""`wrong` counts more than `used`; `ignored` counts little."""
PRIOR_VERDICTS = 4
"""Neutral verdicts that are added to the given ones, so that a single one changes little."""


def compute_utility(counts: Mapping[Verdict, int]) -> float:
    """Compute the utility of a memory, from -1 to 1."""
    total = sum(VERDICT_VALUES[verdict] * count for verdict, count in counts.items())
    return max(-1.0, min(1.0, total / (sum(counts.values()) + PRIOR_VERDICTS)))
