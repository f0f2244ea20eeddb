"""The nearest by signs come step by step: together the steps are the whole order, which is seldom needed."""

import numpy
from hypothesis import given
from hypothesis import strategies as st

from holdfast.storage.sqlite.vectors import _steps

DISTANCES = st.lists(st.integers(0, 384), max_size=200)


@given(DISTANCES, st.integers(1, 250))
def test_the_steps_are_the_whole_order(distances: list[int], width: int) -> None:
    order = [place for step in _steps(numpy.array(distances, numpy.uint16), width) for place in step.tolist()]
    assert order == sorted(range(len(distances)), key=distances.__getitem__)


@given(DISTANCES, st.integers(1, 250))
def test_every_step_but_the_last_is_as_long_as_all_before_it(distances: list[int], width: int) -> None:
    first, *others = (len(step) for step in _steps(numpy.array(distances, numpy.uint16), width))
    assert first == min(width, len(distances))
    assert others[:-1] == [width * 2**number for number in range(len(others[:-1]))]
