"""The benchmark of context building runs on a store with realistic content."""

import holdfast
from benchmarks import compose


def test_context_building_is_measured_with_and_without_a_query(hold: holdfast.Holdfast) -> None:
    compose.fill(hold, 60)
    found = compose.measure(hold, times=2)
    assert all(spread.p95 >= spread.best > 0 for spread in found)
    answer = hold.skill_compositional_context("team/lessons")
    assert len(answer.reflections) + sum(one.count for one in answer.dropped) == 60
    assert {one.reason: one.count for one in answer.dropped}["superseded"] == 1
    assert hold.verify().intact
