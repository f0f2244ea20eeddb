"""Walks, timelines, lineage and paths along links."""

import tempfile
from collections.abc import Callable
from itertools import pairwise, permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linked_memories import OTHER, START, Clock, Remember, targets

import holdfast
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal.kinds import content_hash
from holdfast.types import LineageNode


def test_a_walk_returns_each_link_once_by_the_shortest_path_without_cycles(
    hold: holdfast.Holdfast, remember: Remember, clock: Clock
) -> None:
    a, b, c, d = (remember(title) for title in "abcd")
    for source, target in ((a, b), (a, c), (b, d), (c, d), (d, a), (d, b), (d, c)):
        hold.link(source_id=source, target_id=target)
        clock.tick()
    found = hold.kg_query(source_id=a, max_depth=5)
    assert found.paths == ["->".join(way) for way in ((a, b), (a, c), (a, b, d), (a, c, d), (a, b, d, c))]
    assert [(one.target_id, one.title, one.depth, one.path) for one in found.memories] == [
        (target, title, depth, path)
        for (target, title, depth), path in zip(
            ((b, "b", 1), (c, "c", 1), (d, "d", 2), (d, "d", 2), (c, "c", 3)), found.paths, strict=True
        )
    ]


def test_a_walk_is_limited_to_the_requested_and_the_maximum_depth(hold: holdfast.Holdfast, remember: Remember) -> None:
    chain = [remember(str(number)) for number in range(8)]
    for source, target in pairwise(chain):
        hold.link(source_id=source, target_id=target)
        hold.link(source_id=target, target_id=source)
    assert targets(hold.kg_query(source_id=chain[0])) == chain[1:2]
    assert targets(hold.kg_query(source_id=chain[0], max_depth=5)) == chain[1:6]
    assert targets(hold.kg_query(source_id=chain[0], max_depth=5, limit=3)) == chain[1:4]


def test_a_walk_filters_every_hop(hold: holdfast.Holdfast, remember: Remember) -> None:
    a, b, c, d = remember("a"), remember("b", namespace="x"), remember("c", namespace="y"), remember("d", namespace="x")
    hold.link(source_id=a, target_id=b)
    hold.call("link", {"source_id": b, "target_id": c}, caller=OTHER)
    hold.link(source_id=c, target_id=d, relation="supersedes")

    def walk(**more: Any) -> list[str]:
        return targets(hold.kg_query(source_id=a, max_depth=5, **more))

    assert walk() == [b, c, d]
    assert walk(allowed_agents=["ai:tester@here"]) == [b]
    assert walk(allowed_agents=["ai:tester@here", OTHER.agent]) == [b, c, d]
    assert walk(allowed_agents=[]) == []
    assert walk(relations=["related_to"]) == [b, c]
    assert walk(namespace="x") == [b]


def test_the_timeline_orders_links_by_start(hold: holdfast.Holdfast, remember: Remember) -> None:
    a, b, c, d = (remember(title) for title in "abcd")
    for target, year in ((b, 2022), (c, 2020), (d, 2021)):
        hold.link(source_id=a, target_id=target, valid_from=f"{year}-01-01")
    hold.kg_invalidate(source_id=a, target_id=c, relation="related_to", valid_until="2020-06-01")

    def list_targets(**more: Any) -> list[str]:
        return [event.title for event in hold.kg_timeline(source_id=a, **more).events]

    assert list_targets() == ["c", "d", "b"]
    assert list_targets(since="2021-01-01") == ["d", "b"]
    assert list_targets(since="2020-06-01", until="2021-12-31") == ["d"]
    assert list_targets(limit=1) == ["c"]
    with pytest.raises(Invalid):
        list_targets(since="2021-01-01", until="2020-01-01")


def test_lineage_leads_back_to_the_sources_and_forward_to_the_derived_memories(
    hold: holdfast.Holdfast, remember: Remember
) -> None:
    note, summary, reflection, newer = (remember(title) for title in ("note", "summary", "reflection", "newer"))
    hold.link(source_id=summary, target_id=note, relation="derived_from")
    hold.link(source_id=reflection, target_id=summary, relation="reflects_on")
    hold.link(source_id=newer, target_id=reflection, relation="supersedes")
    hold.link(source_id=newer, target_id=note)
    hold.delete(id=note)

    def node(id: str, title: str, relation: str, depth: int, state: str = "live") -> LineageNode:
        cid = content_hash(title, f"about {title}")
        shown = None if state == "deleted" else title
        return LineageNode(id=id, title=shown, cid=cid, relation=relation, depth=depth, state=state)

    assert hold.lineage(id=newer).nodes == [
        node(reflection, "reflection", "supersedes", 1),
        node(summary, "summary", "reflects_on", 2),
        node(note, "note", "derived_from", 3, "deleted"),
    ]
    assert [one.id for one in hold.lineage(id=summary, direction="descendants").nodes] == [reflection, newer]
    assert [one.id for one in hold.lineage(id=newer, max_depth=1).nodes] == [reflection]


def test_lineage_ends_at_a_cycle(hold: holdfast.Holdfast, remember: Remember) -> None:
    a, b = remember("a"), remember("b")
    hold.link(source_id=a, target_id=b, relation="supersedes")
    hold.link(source_id=b, target_id=a, relation="supersedes")
    assert [one.id for one in hold.lineage(id=a, max_depth=10).nodes] == [b]


def test_a_memory_is_one_path_to_itself(hold: holdfast.Holdfast, remember: Remember) -> None:
    a = remember("a")
    assert hold.find_paths(source_id=a, target_id=a).paths == [(a,)]


def test_paths_in_a_dense_graph_are_found_without_reading_all_of_it(
    hold: holdfast.Holdfast, remember: Remember
) -> None:
    from holdfast.features.graph import service as relate

    nodes = [remember(str(number)) for number in range(40)]
    with hold.ctx.transaction() as write:
        for number, source in enumerate(nodes):
            for target in nodes[number + 1 :]:
                relate.add_link(hold.ctx, write, source, target, "related_to")
    found = hold.find_paths(source_id=nodes[0], target_id=nodes[-1], max_depth=7, max_results=50)
    direct, by_one = found.paths[:1], sorted(path[1] for path in found.paths[1:39])
    assert (direct, by_one) == ([(nodes[0], nodes[-1])], sorted(nodes[1:-1]))
    assert ({len(path) for path in found.paths[39:]}, found.count, found.truncated) == ({4}, 50, True)
    neighbours = hold.find_paths(source_id=nodes[0], target_id=nodes[1], max_depth=1, max_results=1)
    assert (neighbours.count, neighbours.truncated) == (1, False)


Join = Callable[..., dict[str, str]]


@pytest.fixture
def link_all(hold: holdfast.Holdfast) -> Join:
    def link_all(*arrows: str) -> dict[str, str]:
        """Store memories whose ids are in the order of their names, and links with increasing start times."""
        from holdfast.features.graph import service as relate
        from holdfast.features.memories import store_memory as remember
        from holdfast.kernel.records.validate import Draft

        ends = [arrow.split(">") for arrow in arrows]
        names = sorted({name for pair in ends for name in pair})
        with hold.ctx.transaction() as write:
            drafts = [Draft(title=name, content="x", tier="long") for name in names]
            ids = sorted(remember.store_draft(hold.ctx, write, draft, "error").memory.id for draft in drafts)
            known = dict(zip(names, ids, strict=True))
            for began, (source, target) in enumerate(ends):
                relate.add_link(hold.ctx, write, known[source], known[target], "related_to", valid_from=START + began)
        return known

    return link_all


def test_a_walk_cut_within_a_level_leaves_that_level_out(hold: holdfast.Holdfast, link_all: Join, clock: Clock) -> None:
    # What lies behind b is met twice, so that the first walk is spent when it has met one of p and q.
    around = ["s>a", "s>b", "a>b", "b>1", "b>2", "b>3", "b>4", "s>c", "c>d", "d>e", "e>p", "e>q"]
    onward = ["p>5", "q>6", "q>7", "p>8", "p>9", "q>10"]
    ids = link_all(*around, *onward)
    clock.tick()
    found = hold.kg_query(source_id=ids["s"], max_depth=5, limit=len(around) + 2)
    assert (targets(found)[-2:], found.truncated) == ([ids["5"], ids["6"]], True)


def test_a_path_search_cut_within_a_level_leaves_that_level_out(
    hold: holdfast.Holdfast, link_all: Join, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.features.graph import service as relate

    # Only t is gone out from, and the first search is spent when it has met one of p and q.
    monkeypatch.setattr(relate, "WIDE_END", 6)
    monkeypatch.setattr(relate, "SEARCH_ROUNDS", ((4, 4), (4, relate.MAX_STEP_LINKS)))
    ids = link_all("t>u", "u>p", "u>q", "p>1", "q>2", "q>3", "p>4", "p>5", "q>6", *(f"{n}>s" for n in range(1, 7)))
    clock.tick()
    found = hold.find_paths(source_id=ids["s"], target_id=ids["t"], max_results=2)
    expected = [("s", "1", "p", "u", "t"), ("s", "2", "q", "u", "t")]
    assert (found.paths, found.truncated) == ([tuple(ids[name] for name in way) for way in expected], True)


@pytest.mark.parametrize("ends", [("hub", "t"), ("t", "hub")], ids=["from", "to"])
def test_paths_are_searched_from_the_end_with_fewer_links(
    hold: holdfast.Holdfast, link_all: Join, clock: Clock, monkeypatch: pytest.MonkeyPatch, ends: tuple[str, str]
) -> None:
    from holdfast.features.graph import service as relate

    monkeypatch.setattr(relate, "WIDE_END", 6)
    monkeypatch.setattr(relate, "SEARCH_ROUNDS", ((4, 5),))
    ids = link_all("hub>a", "b>a", "b>c", "t>c", *(f"hub>{n}" for n in range(9)))
    clock.tick()
    found = hold.find_paths(source_id=ids[ends[0]], target_id=ids[ends[1]])
    assert ([len(path) for path in found.paths], found.truncated) == ([5], False)


@settings(max_examples=40, deadline=None)
@given(
    arrows=st.lists(st.permutations(range(6)).map(lambda order: tuple(order[:2])), unique=True, max_size=14),
    ended=st.sets(st.integers(0, 13)),
    hidden=st.sets(st.integers(1, 4), max_size=2),
    depth=st.integers(1, 7),
    most=st.integers(1, 50),
)
def test_paths_follow_valid_links_between_visible_memories(
    arrows: list[tuple[int, int]], ended: set[int], hidden: set[int], depth: int, most: int
) -> None:
    from holdfast.features.graph import service as relate
    from holdfast.features.memories import store_memory as remember
    from holdfast.kernel.records.validate import Draft

    with tempfile.TemporaryDirectory() as folder, holdfast.open(f"{folder}/m.db", agent_id="ai:tester@here") as hold:
        with hold.ctx.transaction() as write:
            drafts = [Draft(title=str(n), content="x", scope="private" if n in hidden else "team") for n in range(6)]
            nodes = [remember.store_draft(hold.ctx, write, draft, "error").memory.id for draft in drafts]
            for source, target in arrows:
                relate.add_link(hold.ctx, write, nodes[source], nodes[target], "related_to")
        for number in ended & set(range(len(arrows))):
            source, target = (nodes[end] for end in arrows[number])
            hold.kg_invalidate(source_id=source, target_id=target, relation="related_to")
        asked = {"source_id": nodes[0], "target_id": nodes[5], "max_depth": depth, "max_results": most}
        found = hold.call("find_paths", asked, caller=OTHER).paths

    adjacent = {frozenset(arrow) for number, arrow in enumerate(arrows) if number not in ended}
    between = [n for n in range(1, 5) if n not in hidden]
    tried = [(0, *middle, 5) for length in range(min(depth, 5)) for middle in permutations(between, length)]
    real = [path for path in tried if all(frozenset(step) in adjacent for step in pairwise(path))]
    expected = sorted((tuple(nodes[n] for n in path) for path in real), key=lambda path: (len(path), path))
    assert found == expected[:most]
