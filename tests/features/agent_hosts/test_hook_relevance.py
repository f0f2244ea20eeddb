"""The prompt hook adds context only for relevant memories: measured, with minimum scores."""

import pytest

from holdfast.surfaces.bench.hook_firing import measure_firing


@pytest.mark.usefixtures("vectors_made")
def test_most_prompts_receive_relevant_memories_and_few_receive_others() -> None:
    found = measure_firing(background=False)
    assert found.right >= 0.8
    assert found.wrongly <= 0.05
