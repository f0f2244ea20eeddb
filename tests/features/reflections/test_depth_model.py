"""Any sequence of link changes creates no cycle and only the expected depths, on both engines."""

from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.kernel.errors import CycleDetected, DepthExceeded, HoldfastError
from holdfast.kernel.timestamps import format_datetime

CAP = 3
PLACES = st.integers(0, 11)
GROUNDS = st.sampled_from(["reflects_on", "reflects_on", "derives_from", "derived_from"])
LINKS = st.tuples(st.just("link"), PLACES, PLACES, GROUNDS)
UNDO = st.tuples(st.just("undo"), st.integers(0, 5))
STEPS = st.one_of(
    LINKS,
    LINKS,
    LINKS,
    LINKS,
    LINKS,
    UNDO,
    UNDO,
    st.tuples(st.just("reflect"), st.lists(PLACES, min_size=1, max_size=3)),
    st.tuples(st.just("unlink"), PLACES),
    st.tuples(st.just("unlink"), PLACES),
    st.tuples(st.just("delete"), PLACES),
    st.tuples(st.just("archive"), PLACES),
    st.tuples(st.just("restore"), PLACES),
    st.tuples(st.just("supersede"), PLACES, PLACES),
    st.tuples(st.just("consolidate"), PLACES, PLACES),
    st.tuples(st.just("reimport"), PLACES, st.integers(0, 2)),
    st.tuples(st.just("take in"), PLACES, PLACES, GROUNDS),
    st.tuples(st.just("take in"), PLACES, PLACES, GROUNDS),
)

_numbers = count(1)
Edge = tuple[str, str, str]
"""Source links with their relations."""


class State(NamedTuple):
    """A namespace: the depth and state of each memory, and the source links."""

    depths: dict[str, int]
    states: dict[str, str]
    edges: set[Edge]

    def live(self, place: int) -> str:
        return self.having("live", place)

    def having(self, state: str, place: int) -> str:
        found = sorted(id for id, one in self.states.items() if one == state)
        return found[place % len(found)] if found else "none"


class World:
    """A namespace of a store, and the steps applied to it."""

    def __init__(self, hold: holdfast.Holdfast, clock: Any) -> None:
        self.ctx, self.clock = hold, clock
        self.namespace = f"world-{next(_numbers)}"
        for _ in range(6):
            hold.store(title=f"m {next(_numbers)}", content="It is so.", namespace=self.namespace)

    def state(self) -> State:
        at = {"at": self.namespace}
        with self.ctx.ctx.reading() as session:
            rows = session.query_sql("select id, reflection_depth, state from memory where namespace = :at", at)
            edges = session.query_sql(
                "select l.source, l.target, l.relation from link l join memory m on m.id = l.source "
                "where m.namespace = :at and l.relation in ('reflects_on', 'derives_from', 'derived_from') "
                "and l.state = 'live' and (l.valid_until is null or l.valid_until > :now)",
                at | {"now": self.clock.at},
            )
        return State(
            {id: depth for id, depth, _ in rows},
            {id: state for id, _, state in rows},
            {(source, target, relation) for source, target, relation in edges},
        )

    def try_step(self, here: State, step: tuple[Any, ...]) -> HoldfastError | None:
        try:
            self.do(here, step)
        except HoldfastError as refused:
            return refused
        return None

    def do(self, here: State, step: tuple[Any, ...]) -> Any:
        """Apply one step; places are resolved against the current state."""
        self.clock.move(seconds=1)
        match step:
            case "reflect", places:
                sources = list(dict.fromkeys(map(here.live, places)))
                title = f"reflection {next(_numbers)}"
                return self.ctx.reflect(source_ids=sources, title=title, content="So.", namespace=self.namespace)
            case "link", source, target, relation:
                return self.link(here, source, target, relation)
            case "supersede", source, target:
                return self.link(here, source, target, "supersedes")
            case "unlink", place:
                none = ("none", "nor this", "reflects_on")
                return self.ctx.kg_invalidate(*(sorted(here.edges)[place % len(here.edges)] if here.edges else none))
            case "delete", place:
                return self.ctx.delete(here.live(place))
            case "archive", place:
                return self.ctx.archive(ids=[here.live(place)])
            case "restore", place:
                return self.ctx.archive_restore(here.having("archived", place))
            case "consolidate", one, other:
                title, both = f"summary {next(_numbers)}", [here.live(one), here.live(other)]
                return self.ctx.consolidate(ids=both, title=title, summary="In short.", namespace=self.namespace)
            case "undo", back:
                return self.ctx.undo(change=max(1, self.ctx.events(after=1 << 40).next - back))
            case "reimport", place, depth:
                return self.reimport(here.live(place), depth)
            case "take in", source, target, relation:
                return self.take_in(here.live(source), here.live(target), relation)

    def link(self, here: State, source: int, target: int, relation: str) -> Any:
        return self.ctx.link(source_id=here.live(source), target_id=here.live(target), relation=relation)

    def reimport(self, id: str, depth: int) -> Any:
        """Import a memory again with a given depth."""
        rows = [dict(one) for one in self.ctx.export(namespace=self.namespace)["memories"]]
        given = [
            one | {"reflection_depth": depth, "updated_at": format_datetime(self.clock.after())}
            for one in rows
            if one["id"] == id
        ]
        return self.ctx.call("import", {"envelope": {"memories": given}})

    def take_in(self, source: str, target: str, relation: str) -> None:
        """Import a valid link; raise the error that it was rejected with."""
        link = {
            "source_id": source,
            "target_id": target,
            "relation": relation,
            "updated_at": format_datetime(self.clock.after()),
        }
        taken = self.ctx.call("import", {"envelope": {"memories": [], "links": [link]}})
        for one in taken.errors:
            raise CycleDetected if one.code == CycleDetected.code else HoldfastError(str(one))


def minimum_depths(depths: dict[str, int], edges: set[Edge]) -> dict[str, int]:
    """The minimum depths, at least these, such that reflections are deeper than their sources, derivations as deep."""
    found, changed = dict(depths), True
    for _ in range(len(found) + 1):
        changed = False
        for source, target, relation in edges:
            least = found[target] + (relation == "reflects_on")
            if found[source] < least:
                found[source], changed = least, True
        if not changed:
            break
    assert not changed, "a circle"
    return found


def below(edges: set[Edge], start: str) -> set[str]:
    """A memory and all its direct and indirect sources."""
    seen, following = {start}, {start}
    while following:
        following = {target for source, target, _ in edges if source in following} - seen
        seen |= following
    return seen


def reflects_on_itself(edges: set[Edge]) -> bool:
    """Whether any cycle contains a reflection."""
    return any(relation == "reflects_on" and source in below(edges, target) for source, target, relation in edges)


@pytest.fixture
def world(clocked_store: holdfast.Holdfast, clock: Any) -> Callable[[], World]:
    return lambda: World(clocked_store, clock)


def may_be_refused(before: State, step: tuple[Any, ...], error: HoldfastError) -> bool:
    """Whether a refusal is justified."""
    if step[0] not in ("link", "take in") or not isinstance(error, CycleDetected | DepthExceeded):
        return True
    source, target = before.live(step[1]), before.live(step[2])
    edges = {*before.edges, (source, target, step[3])}
    if isinstance(error, CycleDetected):
        return source in below(before.edges, target) if step[0] == "link" else reflects_on_itself(edges)
    after = minimum_depths(before.depths, edges)
    return any(after[id] > max(CAP, before.depths[id]) for id in after if before.states[id] != "deleted")


def may_be_made(before: State, after: State, step: tuple[Any, ...]) -> bool:
    """Whether a new link closes no cycle."""
    fresh = after.edges - before.edges
    return step[0] != "link" or all(source not in below(before.edges, target) for source, target, _ in fresh)


def follows(before: State, after: State, step: tuple[Any, ...]) -> dict[str, int]:
    """The expected depths after a step: those that are too low are raised, nothing else changes."""
    held = {id: before.depths.get(id, 0) for id in after.depths}
    fresh = next(iter(after.depths.keys() - before.depths.keys()), "")
    if step[0] == "consolidate" and fresh:
        held[fresh] = max(before.depths[before.live(place)] for place in step[1:])
    if step[0] == "reimport" and before.live(step[1]) in held:
        held[before.live(step[1])] = max(before.depths[before.live(step[1])], step[2])
    return minimum_depths(held, after.edges)


@settings(
    max_examples=80,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(steps=st.lists(STEPS, min_size=10, max_size=25))
def test_random_steps_keep_the_graph_acyclic_and_depths_consistent(
    world: Callable[[], World], steps: list[tuple[Any, ...]]
) -> None:
    here = world()
    before = here.state()
    for step in steps:
        refused = here.try_step(before, step)
        after = here.state()
        if refused is None:
            assert after.depths == follows(before, after, step)
            assert may_be_made(before, after, step)
        else:
            assert after == before
            assert may_be_refused(before, step, refused)
        before = after


def test_the_model_detects_cycles() -> None:
    with pytest.raises(AssertionError, match="a circle"):
        minimum_depths({"a": 0, "b": 0}, {("a", "b", "reflects_on"), ("b", "a", "derived_from")})
