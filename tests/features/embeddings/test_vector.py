"""Vectors: finite numbers are normalised to length one, with the same bytes on every platform."""

from math import hypot, inf, nan
from struct import unpack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.validate import validate_embedding
from holdfast.kernel.vector import MAX_DIMENSIONS, Embedding, Vector, check_dimension, unit_vector

numbers = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20).filter(any)


def read(vector: Vector) -> tuple[float, ...]:
    return unpack(f"<{vector.dim}f", vector)


@given(numbers)
def test_every_unit_vector_has_length_one(given: list[float]) -> None:
    vector = unit_vector(given)
    assert vector.dim == len(given)
    assert hypot(*read(vector)) == pytest.approx(1, abs=1e-6)


@given(numbers)
def test_every_component_keeps_its_sign_or_becomes_zero(given: list[float]) -> None:
    assert all(after * before >= 0 or after == 0 for before, after in zip(given, read(unit_vector(given)), strict=True))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20).filter(any), st.sampled_from([2.0, 1024.0, 2**-20]))
def test_only_the_direction_counts(given: list[float], factor: float) -> None:
    assert read(unit_vector([number * factor for number in given])) == pytest.approx(read(unit_vector(given)), abs=1e-6)


def test_vectors_are_encoded_as_little_endian_half_floats() -> None:
    assert unit_vector([3, -4]) == bytes.fromhex("9a99193f cdcc4cbf")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "1 to 2000 numbers, got 0"),
        ([1.0] * (MAX_DIMENSIONS + 1), "1 to 2000 numbers, got 2001"),
        ([1.0, nan], "finite"),
        ([inf], "finite"),
        ([0.0, -0.0], "all zero"),
    ],
    ids=["empty", "too many", "not a number", "infinite", "all zero"],
)
def test_a_vector_without_direction_is_refused(given: list[float], told: str) -> None:
    with pytest.raises(Invalid, match=told) as refused:
        unit_vector(given)
    assert refused.value.details["fields"] == ["embedding.vector"]


@pytest.mark.parametrize("model", ["", "x" * 129, "two\nlines", "nul\x00", "\ud800"])
def test_a_model_name_is_short_and_on_one_line(model: str) -> None:
    with pytest.raises(Invalid) as refused:
        validate_embedding(model, [1.0])
    assert refused.value.details["fields"] == ["embedding.model"]


def test_a_vector_matches_the_dimension_of_its_model_if_it_has_one() -> None:
    given = Embedding("own", unit_vector([1, 0]))
    check_dimension(given, None)
    check_dimension(given, 2)
    with pytest.raises(Invalid):
        check_dimension(given, 3)
