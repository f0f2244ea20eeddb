"""Walks, paths, lineage and subgraphs against a simple model of valid links between visible memories."""

from collections.abc import Callable, Iterable
from itertools import count, pairwise, permutations
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.features.graph import service as relate
from holdfast.features.memories import store_memory as remember
from holdfast.kernel.context import Caller
from holdfast.kernel.records.link import Relation
from holdfast.kernel.records.validate import Draft
from holdfast.kernel.timestamps import DAY, format_timestamp

OTHER = Caller("ai:other@here")
NODES = range(6)
RELATIONS: tuple[Relation, ...] = ("related_to", "supersedes", "derived_from")
numbers = count()


class Line(NamedTuple):
    """A link between two nodes, valid from one day to another."""

    source: int
    target: int
    relation: Relation
    begins: int
    ends: int | None


class RandomGraph(NamedTuple):
    lines: list[Line]
    hidden: set[int]
    day: int | None
    """The day of the query; None: long after everything."""

    def valid_links(self, relations: Iterable[Relation] = RELATIONS) -> list[Line]:
        day = 1000 if self.day is None else self.day
        holds = [one for one in self.lines if one.begins <= day and (one.ends is None or one.ends > day)]
        shown = [one for one in holds if not {one.source, one.target} & self.hidden]
        return [one for one in shown if one.relation in relations]


@st.composite
def graphs(draw: st.DrawFn) -> RandomGraph:
    """Random links without derivation cycles."""
    ends = st.permutations(NODES).map(lambda order: (order[0], order[1]))
    days = st.tuples(st.integers(1, 9), st.none() | st.integers(1, 9))
    found: dict[tuple[int, int, str], Line] = {}
    for source, target in draw(st.lists(ends, max_size=16)):
        relation, (begins, more) = draw(st.sampled_from(RELATIONS)), draw(days)
        if relation == "derived_from":
            source, target = max(source, target), min(source, target)
        found[source, target, relation] = Line(source, target, relation, begins, more and begins + more)
    day = draw(st.none() | st.integers(0, 12))
    return RandomGraph(list(found.values()), draw(st.sets(st.sampled_from([1, 2, 3, 4]), max_size=2)), day)


class StoredGraph(NamedTuple):
    ids: list[str]
    order: Callable[[Line], tuple[int, str]]
    """The order of links in results."""
    asked: Callable[..., Any]


def store_graph(hold: holdfast.Holdfast, drawn: RandomGraph) -> StoredGraph:
    """Store a graph; query it as a caller who may not see the hidden nodes."""
    with hold.ctx.transaction() as write:
        place = f"graph/{next(numbers)}"
        drafts = [
            Draft(title=str(n), content="x", tier="long", scope="private" if n in drawn.hidden else "collective",
                  namespace=place)
            for n in NODES
        ]  # fmt: skip
        ids = [remember.store_draft(hold.ctx, write, draft, "error").memory.id for draft in drafts]
        for one in drawn.lines:
            until = None if one.ends is None else one.ends * DAY
            ends = ids[one.source], ids[one.target]
            relate.add_link(hold.ctx, write, *ends, one.relation, valid_from=one.begins * DAY, valid_until=until)

    def order(one: Line) -> tuple[int, str]:
        return one.begins, relate.link_id(ids[one.source], ids[one.target], one.relation)

    when = {} if drawn.day is None else {"valid_at": format_timestamp(drawn.day * DAY)}
    return StoredGraph(ids, order, lambda name, **more: hold.call(name, more | when, caller=OTHER))


def again(test: Any) -> Any:
    """Many graphs in one store."""
    fixture = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(max_examples=40, deadline=None, suppress_health_check=fixture)(test)


@pytest.fixture
def hold(clocked_store: holdfast.Holdfast, monkeypatch: pytest.MonkeyPatch) -> holdfast.Holdfast:
    """A store whose first search rounds are often too short, and with a low limit for wide ends."""
    monkeypatch.setattr(relate, "SEARCH_ROUNDS", ((3, 3), (4, 8), (7, relate.MAX_STEP_LINKS)))
    monkeypatch.setattr(relate, "WIDE_END", 3)
    return clocked_store


@again
@given(drawn=graphs(), depth=st.integers(1, 5), limit=st.integers(1, 20))
def test_a_walk_follows_every_valid_link_by_the_shortest_path(
    hold: holdfast.Holdfast, drawn: RandomGraph, depth: int, limit: int
) -> None:
    ids, order, asked = store_graph(hold, drawn)
    ways: dict[int, tuple[int, ...]] = {0: (0,)}
    expected, level = [], [0]
    for _ in range(depth):
        leaving = sorted((one for one in drawn.valid_links() if one.source in level), key=order)
        onward = [(one, (*ways[one.source], one.target)) for one in leaving if one.target not in ways[one.source]]
        expected += [("->".join(ids[n] for n in way), one.relation) for one, way in onward]
        level = [way[-1] for _, way in onward if way[-1] not in ways]
        for _, way in onward:
            ways.setdefault(way[-1], way)
    found = asked("kg_query", source_id=ids[0], max_depth=depth, limit=limit)
    assert [(one.path, one.relation) for one in found.memories] == expected[:limit]
    assert found.truncated == (len(expected) > limit)


@again
@given(drawn=graphs(), depth=st.integers(1, 7), most=st.integers(1, 50))
def test_paths_are_simple_paths_of_valid_links_shortest_first(
    hold: holdfast.Holdfast, drawn: RandomGraph, depth: int, most: int
) -> None:
    ids, _, asked = store_graph(hold, drawn)
    joined = {frozenset((one.source, one.target)) for one in drawn.valid_links()}
    tried = [(0, *middle, 5) for length in range(min(depth, 5)) for middle in permutations(range(1, 5), length)]
    real = [path for path in tried if all(frozenset(step) in joined for step in pairwise(path))]
    expected = sorted((tuple(ids[n] for n in path) for path in real), key=lambda path: (len(path), path))
    found = asked("find_paths", source_id=ids[0], target_id=ids[5], max_depth=depth, max_results=most)
    assert found.paths == expected[:most]


@again
@given(drawn=graphs(), depth=st.integers(1, 10), direction=st.sampled_from(["ancestors", "descendants"]))
def test_lineage_lists_the_nearest_derivations_first(
    hold: holdfast.Holdfast, drawn: RandomGraph, depth: int, direction: str
) -> None:
    ids, order, asked = store_graph(hold, drawn)
    near, far = ("source", "target") if direction == "ancestors" else ("target", "source")
    met, level, expected = {0}, {0}, []
    for step in range(1, depth + 1):
        made = sorted(
            (one for one in drawn.valid_links(("supersedes", "derived_from")) if getattr(one, near) in level), key=order
        )
        level = set()
        for one in made:
            if (end := getattr(one, far)) not in met:
                met.add(end)
                level.add(end)
                expected.append((ids[end], one.relation, step))
    found = asked("lineage", id=ids[0], direction=direction, max_depth=depth)
    assert [(one.id, one.relation, one.depth) for one in found.nodes] == expected
    assert not found.truncated


@again
@given(drawn=graphs(), depth=st.integers(1, 5), limit=st.integers(1, 8))
def test_a_neighbourhood_is_the_nearest_memories_and_every_link_between_them(
    hold: holdfast.Holdfast, drawn: RandomGraph, depth: int, limit: int
) -> None:
    ids, _, asked = store_graph(hold, drawn)
    distance, level = {0: 0}, {0}
    for step in range(1, depth + 1):
        beside = {
            n for one in drawn.valid_links() if {one.source, one.target} & level for n in (one.source, one.target)
        }
        level = beside - distance.keys()
        distance |= dict.fromkeys(level, step)
    found = asked("graph", id=ids[0], max_depth=depth, limit=limit)
    shown = [ids.index(node.id) for node in found.nodes]
    assert [distance[n] for n in shown] == sorted(distance.values())[:limit]
    assert (found.count, found.truncated) == (min(limit, len(distance)), len(distance) > limit)
    between = [one for one in drawn.valid_links() if {one.source, one.target} <= set(shown)]
    assert sorted((one.source_id, one.target_id, one.relation) for one in found.links) == sorted(
        (ids[one.source], ids[one.target], one.relation) for one in between
    )


@again
@given(drawn=graphs())
def test_a_timeline_lists_the_links_valid_at_a_time(hold: holdfast.Holdfast, drawn: RandomGraph) -> None:
    ids, order, asked = store_graph(hold, drawn)
    held = [one for one in sorted(drawn.lines, key=order) if one.source == 0 and one.target not in drawn.hidden]
    if drawn.day is not None:
        held = [one for one in held if one in drawn.valid_links()]
    found = asked("kg_timeline", source_id=ids[0])
    assert [(one.target_id, one.relation) for one in found.events] == [(ids[one.target], one.relation) for one in held]
