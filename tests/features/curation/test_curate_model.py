"""Random stores, curated until nothing is left to do: nothing is lost, and every run can be rolled back."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from engines import ENGINES_BY_RING
from holdfast.kernel.context import Caller
from holdfast.kernel.timestamps import DAY, SECOND

BASES = (
    "The connection pool keeps ten connections for all of the workers of the server.",
    "The north gate is painted red each spring by all of the painters of the town.",
    "Soup is served at noon in all of the kitchens of the old house by the river.",
)
CHANGES = (("", ""), ("all of the", "all the"), ("all of the", "the"), ("ten", "twelve"), ("is", "is not"), (".", "!"))
TITLES = ("Note", "A note", "The note", "Notes", "This note", "That note", "Some note", "Any note", "One note")
AGENTS = ("ai:ada@here", "ai:bob@here")
MAX_RUNS = 12


class StoredMemory(NamedTuple):
    base: int
    change: int
    tag: int
    agent: int
    private: bool
    kind: str
    days: int


kept = st.builds(
    StoredMemory,
    st.integers(0, len(BASES) - 1),
    st.integers(0, len(CHANGES) - 1),
    st.integers(0, 2),
    st.sampled_from([0, 0, 0, 1]),
    st.sampled_from([False, False, True]),
    st.sampled_from(["observation", "observation", "fact"]),
    st.sampled_from([0, 1, 40]),
)
linked = st.tuples(
    st.integers(0, 8), st.integers(0, 8), st.sampled_from(["related_to", "contradicts", "supersedes", "derived_from"])
)
places = count(1)


@pytest.fixture(scope="module", params=ENGINES_BY_RING)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class World:
    """One store for all examples, each in its own namespace, with an advancing clock."""

    def __init__(self, address: str) -> None:
        self.at = 1_800_000_000 * SECOND
        self.hold = holdfast.open(address, agent_id=AGENTS[0], now=self.tick)

    def tick(self) -> int:
        self.at += 1000
        return self.at

    def rows(self, place: str) -> dict[str, tuple[Any, ...]]:
        with self.hold.ctx.reading() as session:
            found = session.query_sql(
                "select id, title, content, kind, tier, priority, confidence, scope, agent, tags, metadata, citations, "
                "expires_at, state, reason, updated_at from memory where namespace = :place",
                {"place": place},
            )
        return {row[0]: row[1:] for row in found}


@pytest.fixture(scope="module")
def world(engine: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HOLDFAST_EMBEDDER", "none")
        if engine == "sqlite":
            yield from open_world(str(tmp_path_factory.mktemp("model") / "memory.db"))
        else:
            with request.getfixturevalue("postgres").new_store() as url:
                yield from open_world(url)


def open_world(address: str) -> Iterator[World]:
    made = World(address)
    yield made
    assert made.hold.verify().intact
    made.hold.close()


def fill_world(world: World, place: str, memories: list[StoredMemory], links: list[tuple[int, int, str]]) -> list[str]:
    ids = []
    for number, one in enumerate(memories):
        text = BASES[one.base].replace(*CHANGES[one.change])
        asked = {
            "title": TITLES[number],
            "content": text,
            "namespace": place,
            "tags": [f"t{one.tag}"],
            "kind": one.kind,
            "tier": "long",
            "scope": "private" if one.private else "collective",
            "priority": 3 + number % 5,
        }
        made = world.hold.call("store", asked, caller=Caller(AGENTS[one.agent]))
        ids.append(str(made.id))
        world.at += one.days * DAY
    for source, target, relation in links:
        if source < target < len(ids):
            ends = {"source_id": ids[target], "target_id": ids[source], "relation": relation}
            try:
                world.hold.call("link", ends)
            except holdfast.HoldfastError:
                continue
    return ids


def run_curate(world: World, place: str, **more: Any) -> Any:
    return world.hold.curate(include_namespace=[place], max_ops=1000, max_seconds=600, **more)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(kept, min_size=1, max_size=9), st.lists(linked, max_size=4))
def test_a_complete_curation_loses_nothing_and_can_be_rolled_back(
    world: World, memories: list[StoredMemory], links: list[tuple[int, int, str]]
) -> None:
    place = f"n{next(places)}"
    fill_world(world, place, memories, links)
    before = world.rows(place)
    run_curate(world, place)
    assert world.rows(place) == before

    runs = []
    for _ in range(MAX_RUNS):
        done = run_curate(world, place, apply=True)
        runs.append(done.run_id)
        if not done.changed and not done.proposed:
            break
    else:
        pytest.fail("it never came to an end")
    check_nothing_lost(before, world.rows(place))
    entries = world.hold.verify().entries
    assert (run_curate(world, place, apply=True).changed, world.hold.verify().entries) == (0, entries)

    for run in reversed(runs):
        outcomes = world.hold.curate_rollback(run).outcomes
        assert [(one.error, one.outcome) for one in outcomes if one.outcome != "applied"] == []
    after = world.rows(place)
    assert {id: row[:-1] for id, row in after.items() if id in before} == {id: row[:-1] for id, row in before.items()}
    assert {row[-3] for id, row in after.items() if id not in before} <= {"deleted"}


def check_nothing_lost(before: dict[str, tuple[Any, ...]], after: dict[str, tuple[Any, ...]]) -> None:
    """Check that every memory kept its text and is live, or archived with a live successor."""
    heirs = {source: id for id, row in after.items() for source in sources(row)}
    for id, row in before.items():
        assert after[id][:2] == row[:2]
        last = id
        while after[last][-3] == "archived":
            last = heirs[last]
        assert after[last][-3] == "live"


def sources(row: tuple[Any, ...]) -> list[str]:
    return list(json.loads(row[9]).get("derived_from", ()))
