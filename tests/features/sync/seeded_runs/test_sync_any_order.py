"""Stores converge after any operations and any order of exchanges, and nothing is lost."""

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

import pytest
from convergence import must_agree
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from store_pool import TIMES, StorePool, drive
from sync_world import SKEWS, WEIGHTS, Choice, World

EXAMPLES = 480
"""Examples of each of four parts; 2,000 with those on PostgreSQL."""
STEPS = 8
SHORT, LONG = 12, 40
"""Steps of a run with weighted random operations."""
KINDS = [what for what, weight in WEIGHTS.items() for _ in range(max(1, round(weight)))]
numbers = st.integers(0, 59)


class Machine(RuleBasedStateMachine):
    """Any operations in any order on stores with clocks days apart."""

    stable: StorePool

    @initialize(
        skews=st.sampled_from((3, 3, 3, 4, 5)).flatmap(lambda many: st.tuples(*[st.sampled_from(SKEWS)] * many))
    )
    def begin(self, skews: tuple[int, ...]) -> None:
        self.stack = ExitStack()
        self.world: World = self.stack.enter_context(self.stable.world(list(skews)))

    @rule(what=st.sampled_from(KINDS), who=numbers, a=numbers, b=numbers)
    def act(self, what: str, who: int, a: int, b: int) -> None:
        self.world.act(Choice(what, who, a, b))

    def teardown(self) -> None:
        if hasattr(self, "world"):
            with self.stack:
                self.world.meet(self.world.number)
                must_agree(self.world)


def try_all(stable: StorePool, part: int, examples: int) -> None:
    tried: Any = type("Tried", (Machine,), {"stable": stable})
    quickly = settings(
        max_examples=int(examples * TIMES),
        stateful_step_count=STEPS,
        deadline=None,
        derandomize=False,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(seed(part)(tried), settings=quickly)


@pytest.mark.full
@pytest.mark.longest
@pytest.mark.parametrize("part", range(4))
def test_files_converge_after_random_steps(files: StorePool, part: int) -> None:
    try_all(files, part, EXAMPLES)


@pytest.mark.full
@pytest.mark.longest
def test_files_and_databases_converge_after_random_steps(both_engines: StorePool) -> None:
    try_all(both_engines, 4, 80)


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("steps", [SHORT, pytest.param(LONG, marks=pytest.mark.full)])
def test_files_agree_after_seeded_runs(files: StorePool, steps: int, part: int, request: pytest.FixtureRequest) -> None:
    drive_seeds(files, range(part, int(100 * TIMES), 4), steps, request)


@pytest.mark.full
def test_files_and_databases_agree_after_seeded_runs(both_engines: StorePool, request: pytest.FixtureRequest) -> None:
    drive_seeds(both_engines, range(1000, 1000 + int(8 * TIMES)), LONG, request)


def drive_seeds(stable: StorePool, seeds: Iterable[int], steps: int, request: pytest.FixtureRequest) -> None:
    """Run each seed, or only `--seed`; a failure prints the command that repeats it."""
    chosen = request.config.getoption("--seed")
    for number in seeds if chosen is None else [chosen]:
        try:
            drive(stable, number, steps)
        except BaseException as error:
            error.add_note(f"repeat this run: pytest '{request.node.nodeid}' --seed {number}")
            raise
