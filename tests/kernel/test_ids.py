"""Ids: sortable for new records, equal on every node for derived ones."""

import uuid

from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.timestamps import derive_id, uuid7

MOMENTS = st.integers(0, 253_402_300_799_999_999)


@given(MOMENTS, st.binary(min_size=8, max_size=8))
def test_an_id_is_a_version_7_uuid_containing_its_millisecond(moment: int, randomness: bytes) -> None:
    made = uuid.UUID(uuid7(moment, randomness))
    assert made.version == 7
    assert made.variant == uuid.RFC_4122
    assert made.int >> 80 == moment // 1000
    assert uuid7(moment, randomness) == str(made)


@given(MOMENTS, MOMENTS)
def test_ids_sort_as_text_by_the_microsecond_of_their_creation(one: int, other: int) -> None:
    if one < other:
        assert uuid7(one) < uuid7(other)
    assert uuid7(one) < uuid7(one + 1)


def test_ids_of_the_same_time_differ() -> None:
    assert len({uuid7(1_700_000_000_000_000) for _ in range(1000)}) == 1000


def test_a_derived_id_depends_on_each_part_and_its_boundaries() -> None:
    assert derive_id("grant", "ab", "c") == derive_id("grant", "ab", "c")
    assert len({derive_id("grant", "ab", "c"), derive_id("grant", "a", "bc"), derive_id("link", "ab", "c")}) == 3
    assert len(derive_id("x")) == 32
