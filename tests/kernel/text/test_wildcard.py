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
def test_a_wildcard_matches_any_part(pattern: str, text: str, fits: bool) -> None:
    assert is_match(pattern, text) is fits


@given(st.text("ab*", max_size=6), st.text("ab", max_size=8))
def test_wildcards_match_like_the_regular_expression(pattern: str, text: str) -> None:
    assert is_match(pattern, text) == (re.fullmatch(pattern.replace("*", ".*"), text) is not None)


@given(st.lists(st.sampled_from(["a", "b", "**"]), max_size=5), st.lists(st.sampled_from("ab"), max_size=6))
def test_wildcards_match_whole_list_elements_too(pattern: list[str], parts: list[str]) -> None:
    written = "".join(".*" if one == "**" else one for one in pattern)
    assert is_match(pattern, parts, "**") == (re.fullmatch(written, "".join(parts)) is not None)


def test_matching_takes_at_most_one_step_per_pair_of_characters() -> None:
    pattern, text, steps = "*a" * 32 + "*b", "a" * 64, 0

    def is_equal(one: str, other: str) -> bool:
        nonlocal steps
        steps += 1
        return one == other

    assert not is_match(pattern, text, is_equal=is_equal)
    assert steps <= len(pattern) * len(text)
