"""A wildcard matches any number of parts, including none."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.text.wildcard import is_match


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("", "", True),
        ("", "a", False),
        ("*", "", True),
        ("**", "a", True),
        ("a*", "a", True),
        ("*a", "ba", True),
        ("*a", "ab", False),
        ("a*b*c", "axbxbxc", True),
        ("a*b*c", "axbxbx", False),
        ("memory_*", "memory_store", True),
        ("*_changed", "skill_version_changed", True),
    ],
)
def test_a_wildcard_stands_for_any_part(pattern: str, text: str, fits: bool) -> None:
    assert is_match(pattern, text) is fits


@given(st.text("ab*", max_size=6), st.text("ab", max_size=8))
def test_wildcards_mean_what_they_mean_in_a_regular_expression(pattern: str, text: str) -> None:
    assert is_match(pattern, text) == (re.fullmatch(pattern.replace("*", ".*"), text) is not None)


@given(st.lists(st.sampled_from(["a", "b", "**"]), max_size=5), st.lists(st.sampled_from("ab"), max_size=6))
def test_wildcards_stand_for_whole_parts_of_a_list_too(pattern: list[str], parts: list[str]) -> None:
    written = "".join(".*" if one == "**" else one for one in pattern)
    assert is_match(pattern, parts, "**") == (re.fullmatch(written, "".join(parts)) is not None)


def test_wildcards_take_no_more_steps_than_there_are_pairs_to_compare() -> None:
    pattern, text, steps = "*a" * 32 + "*b", "a" * 64, 0

    def is_equal(one: str, other: str) -> bool:
        nonlocal steps
        steps += 1
        return one == other

    assert not is_match(pattern, text, is_equal=is_equal)
    assert steps <= len(pattern) * len(text)
