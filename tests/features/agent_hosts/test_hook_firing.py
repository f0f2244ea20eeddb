"""The prompt hook adds context only for relevant memories: measured, with minimum scores."""

import pytest

from holdfast.surfaces.bench.hook_firing import measure_firing


@pytest.mark.usefixtures("vectors_made")
def test_prompts_are_told_what_bears_on_them_and_seldom_anything_else() -> None:
    found = measure_firing(background=False)
    assert found.right >= 0.8
    assert found.wrongly <= 0.05
