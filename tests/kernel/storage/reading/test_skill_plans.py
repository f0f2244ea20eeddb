"""Query plans of a skill's reflections: one index range, with lookups only for the best."""

from collections.abc import Callable
from typing import Any

import pytest
from plans import ME, Plans, SqlitePlans

import holdfast
from holdfast.features.skills import read_skills as skills
from holdfast.features.skills import reflection_store as skill_reflections
from holdfast.features.skills.reflection_store import ReflectionScope
from holdfast.kernel.storage.port import Session

HERE = ReflectionScope("n1", 1, 3)


READING: dict[str, Callable[[Session], Any]] = {
    "the best": lambda session: skill_reflections.find_best(session, ME, HERE, 1, limit=10),
    "how many": lambda session: skill_reflections.count_reflections(session, ME, HERE),
}


@pytest.mark.parametrize("what", READING)
def test_reflections_are_read_from_one_range_of_their_index(plans: Plans, hold: holdfast.Holdfast, what: str) -> None:
    with plans.record_statements() as seen, hold.ctx.store.reading() as session:
        READING[what](session)
    run = [one for one in seen if "kind = 'reflection'" in one[0]]
    assert plans.walks(run) == []
    steps = [step for step in plans.steps(run) if "memory_reflection" in step]
    assert len(steps) == 1
    if isinstance(plans, SqlitePlans):
        assert steps == ["SEARCH m USING COVERING INDEX memory_reflection (namespace>? AND namespace<?)"]


def test_a_skill_is_looked_up_by_index_whatever_the_key(plans: Plans, hold: holdfast.Holdfast) -> None:
    with plans.record_statements() as seen, hold.ctx.store.reading() as session:
        for parts, params in (
            (("skill.by_id",), {"id": "x"}),
            (("skill.current", "skill.by_path"), {"namespace": "a", "name": "b"}),
            (("skill.of_skill",), {"skill": "x", "limit": 5}),
        ):
            skills.find_versions(session, ME, parts, params)
    assert [step for step in plans.steps(seen) if step.startswith(("SCAN", "Seq Scan"))] == []
