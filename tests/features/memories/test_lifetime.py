"""How long a memory lives."""

import pytest

from holdfast.kernel.records.memory import Tier, higher_tier
from holdfast.kernel.records.validate import Lifetimes
from holdfast.kernel.timestamps import SECOND

NOW = 1_700_000_000_000_000


@pytest.mark.parametrize(("tier", "seconds"), [("short", 21_600), ("mid", 604_800)])
def test_a_tier_has_its_lifetime(tier: Tier, seconds: int) -> None:
    assert Lifetimes().expiry(tier, NOW) == NOW + seconds * SECOND


def test_long_term_memories_and_those_without_a_lifetime_never_expire() -> None:
    assert Lifetimes().expiry("long", NOW) is None
    assert Lifetimes(mid=0).expiry("mid", NOW) is None
    assert Lifetimes(short=-1).expiry("short", NOW) is None


@pytest.mark.parametrize(("tier", "seconds"), [("short", 3600), ("mid", 86_400), ("long", 0)])
def test_an_access_extends_a_lifetime(tier: Tier, seconds: int) -> None:
    assert Lifetimes().extend(tier, NOW) == NOW + seconds * SECOND


def test_a_tier_only_rises() -> None:
    assert higher_tier("short", "long") == higher_tier("long", "short") == higher_tier("long", "mid") == "long"
    assert higher_tier("mid", "short") == "mid"
