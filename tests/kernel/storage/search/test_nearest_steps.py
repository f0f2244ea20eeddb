"""The nearest vectors come in steps, which together are the whole order."""

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Holdfast
from holdfast.kernel.storage.sqlite import binary_index
from holdfast.kernel.storage.sqlite.binary_index import _steps

DISTANCES = st.lists(st.integers(0, 384), max_size=200)


@given(DISTANCES, st.integers(1, 250))
def test_all_steps_together_are_the_sorted_order(distances: list[int], width: int) -> None:
    order = [place for step in _steps(numpy.array(distances, numpy.uint16), width) for place in step.tolist()]
    assert order == sorted(range(len(distances)), key=distances.__getitem__)


@given(DISTANCES, st.integers(1, 250))
def test_every_step_except_the_last_is_as_long_as_all_before_it(distances: list[int], width: int) -> None:
    first, *others = (len(step) for step in _steps(numpy.array(distances, numpy.uint16), width))
    assert first == min(width, len(distances))
    assert others[:-1] == [width * 2**number for number in range(len(others[:-1]))]


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@pytest.mark.parametrize("many", [3, 4, 5], ids=["less than two pages", "two pages", "more than two pages"])
def test_rows_read_in_pages_are_all_searched(hold: Holdfast, monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    monkeypatch.setattr(binary_index, "PAGE_SIZE", 2)
    for number in range(many):
        embedding = {"model": "own", "vector": [1.0, 1.0 + number]}
        hold.call("store", {"title": f"{number}", "content": f"Number {number}.", "embedding": embedding})
    found = hold.call("recall", {"context": "?", "embedding": {"model": "own", "vector": [1.0, 1.0]}})
    assert [memory.title for memory in found.memories] == [f"{number}" for number in range(many)]
