"""Links: create, end, create again, visibility, and paths."""

import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise, permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

import holdfast
from holdfast.features.graph.operations.links import InvalidateResult, LinkResult
from holdfast.features.graph.operations.paths import LineageNode
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import Conflict, Forbidden, HoldfastError, Invalid, NotFound
from holdfast.kernel.journal.kinds import content_hash
from holdfast.kernel.timestamps import SECOND, format_timestamp

START = 1_800_000_000 * SECOND
OTHER = Caller("ai:other@here")
Remember = Callable[..., str]


class Clock:
    """A clock that only moves explicitly."""

    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> int:
        return self.at

    def tick(self, seconds: int = 1) -> str:
        self.at += seconds * SECOND
        return format_timestamp(self.at)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def hold(db: str, clock: Clock) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(db, agent_id="ai:tester@here", now=clock) as opened:
        yield opened


@pytest.fixture
def remember(hold: holdfast.Holdfast) -> Remember:
    def remember(title: str, **more: Any) -> str:
        return str(hold.store(title=title, content=f"about {title}", tier="long", **more).id)

    return remember


def targets(answer: Any) -> list[str]:
    return [one.target_id for one in answer.memories]


def test_a_link_has_its_creator_and_start_date(hold: holdfast.Holdfast, remember: Remember) -> None:
    a, b = remember("a"), remember("b")
    assert hold.link(source_id=a, target_id=b, relation="supersedes") == LinkResult(
        linked=True,
        outcome="created",
        invalidation_notified=[],
        source_id=a,
        target_id=b,
        relation="supersedes",
        created_at=format_timestamp(START),
        valid_from=format_timestamp(START),
        observed_by="ai:tester@here",
        version=1,
    )


def test_the_observer_is_the_caller(hold: holdfast.Holdfast, remember: Remember) -> None:
    a, b = remember("a"), remember("b")
    assert hold.call("link", {"source_id": a, "target_id": b}, caller=OTHER).observed_by == "ai:other@here"


def test_linking_twice_changes_nothing(hold: holdfast.Holdfast, remember: Remember, clock: Clock) -> None:
    a, b = remember("a"), remember("b")
    first = hold.link(source_id=a, target_id=b)
    clock.tick()
    again = hold.link(source_id=a, target_id=b)
    assert (again.outcome, again.version, again.valid_from) == ("unchanged", 1, first.valid_from)


def test_a_link_accepts_id_prefixes(hold: holdfast.Holdfast, clock: Clock, remember: Remember) -> None:
    a = remember("a")
    clock.tick(100_000)
    b = remember("b")
    made = hold.link(source_id=a[:12], target_id=b[:12])
    assert (made.source_id, made.target_id) == (a, b)


def test_linking_again_after_the_end_makes_a_link_valid_again(
    hold: holdfast.Holdfast, remember: Remember, clock: Clock
) -> None:
    a, b = remember("a"), remember("b")
    hold.link(source_id=a, target_id=b)
    clock.tick()
    hold.kg_invalidate(source_id=a, target_id=b, relation="related_to")
    later = clock.tick()
    again = hold.link(source_id=a, target_id=b)
    assert (again.outcome, again.version, again.valid_from, again.valid_until) == ("revalidated", 3, later, UNSET)
    assert targets(hold.kg_query(source_id=a)) == [b]


def test_a_link_is_valid_for_the_given_time(hold: holdfast.Holdfast, remember: Remember) -> None:
    a, b = remember("a"), remember("b")
    hold.link(source_id=a, target_id=b, valid_from="2020-01-01", valid_until="2021-01-01")
    seen = {at: targets(hold.kg_query(source_id=a, valid_at=at)) for at in ("2019-12-31", "2020-01-01", "2021-01-01")}
    assert seen == {"2019-12-31": [], "2020-01-01": [b], "2021-01-01": []}
    assert targets(hold.kg_query(source_id=a)) == []
    assert targets(hold.kg_query(source_id=a, include_invalidated=True)) == [b]


def test_a_link_starting_in_the_future_is_not_valid_yet(
    hold: holdfast.Holdfast, remember: Remember, clock: Clock
) -> None:
    a, b = remember("a"), remember("b")
    hold.link(source_id=a, target_id=b, valid_from=format_timestamp(START + 5 * SECOND))
    assert targets(hold.kg_query(source_id=a)) == []
    clock.tick(5)
    assert targets(hold.kg_query(source_id=a)) == [b]


def test_a_clock_set_back_does_not_hide_a_new_link(hold: holdfast.Holdfast, remember: Remember, clock: Clock) -> None:
    a, b = remember("a"), remember("b")
    hold.link(source_id=a, target_id=b)
    clock.tick(-60)
    assert targets(hold.kg_query(source_id=a)) == [b]


@pytest.mark.parametrize(
    ("change", "error", "fields"),
    [
        ({"target_id": "nowhere"}, NotFound, ["target_id"]),
        ({"source_id": "nowhere"}, NotFound, ["source_id"]),
        ({"relation": "likes"}, Invalid, ["relation"]),
        ({"valid_from": "2021-01-01", "valid_until": "2021-01-01"}, Invalid, ["valid_until"]),
        ({"valid_from": "soon"}, Invalid, ["valid_from"]),
    ],
    ids=["no target", "no source", "unknown relation", "ends before it begins", "not a time"],
)
def test_an_invalid_link_is_refused_with_the_reason(
    hold: holdfast.Holdfast, remember: Remember, change: dict[str, str], error: type[HoldfastError], fields: list[str]
) -> None:
    arguments = {"source_id": remember("a"), "target_id": remember("b")} | change
    with pytest.raises(error) as refused:
        hold.call("link", arguments)
    assert refused.value.details["fields"] == fields


def test_a_memory_cannot_be_linked_to_itself_under_any_spelling_of_its_id(
    hold: holdfast.Holdfast, remember: Remember
) -> None:
    a = remember("a")
    for other in (a, a[:12]):
        with pytest.raises(Invalid):
            hold.link(source_id=a, target_id=other)


def test_a_reflection_cannot_reflect_on_itself(hold: holdfast.Holdfast, remember: Remember) -> None:
    a, b, c = (remember(title) for title in "abc")
    hold.link(source_id=a, target_id=b, relation="reflects_on")
    hold.link(source_id=b, target_id=c, relation="reflects_on")
    with pytest.raises(Conflict):
        hold.link(source_id=c, target_id=a, relation="reflects_on")
    hold.link(source_id=c, target_id=a)
    hold.kg_invalidate(source_id=a, target_id=b, relation="reflects_on")
    hold.policy_set(namespace="*", max_reflection_depth=8)
    assert hold.link(source_id=c, target_id=a, relation="reflects_on").outcome == "created"


def test_linking_requires_write_access_to_the_source(hold: holdfast.Holdfast, remember: Remember) -> None:
    secret, public = remember("secret", scope="private"), remember("public")
    hold.grant(id=secret, agent_id=OTHER.agent, permission="read")
    with pytest.raises(Forbidden):
        hold.call("link", {"source_id": secret, "target_id": public}, caller=OTHER)
    assert hold.call("link", {"source_id": public, "target_id": secret}, caller=OTHER).outcome == "created"
    hold.grant(id=secret, agent_id=OTHER.agent, permission="write")
    assert hold.call("link", {"source_id": secret, "target_id": public}, caller=OTHER).outcome == "created"


def test_ending_a_link_requires_write_access_to_the_source(hold: holdfast.Holdfast, remember: Remember) -> None:
    secret, public = remember("secret", scope="private"), remember("public")
    hold.link(source_id=secret, target_id=public)
    end = {"source_id": secret, "target_id": public, "relation": "related_to"}
    with pytest.raises(NotFound):
        hold.call("kg_invalidate", end, caller=OTHER)
    hold.grant(id=secret, agent_id=OTHER.agent, permission="read")
    with pytest.raises(Forbidden):
        hold.call("kg_invalidate", end, caller=OTHER)


def test_an_ended_link_keeps_its_end(hold: holdfast.Holdfast, remember: Remember, clock: Clock) -> None:
    a, b = remember("a"), remember("b")
    triple = {"source_id": a, "target_id": b, "relation": "related_to"}
    hold.link(**triple)
    now = clock.tick()
    assert hold.kg_invalidate(**triple) == InvalidateResult(found=True, valid_until=now, **triple)
    clock.tick()
    assert hold.kg_invalidate(**triple) == InvalidateResult(
        found=True, valid_until=now, previous_valid_until=now, **triple
    )
    earlier = format_timestamp(START)
    assert hold.kg_invalidate(valid_until=earlier, **triple) == InvalidateResult(
        found=True, valid_until=earlier, previous_valid_until=now, **triple
    )
    assert [(link.version, link.valid_until) for link in hold.get_links(id=a).links] == [(3, earlier)]


def test_only_the_exact_link_is_ended(hold: holdfast.Holdfast, remember: Remember) -> None:
    a, b = remember("a"), remember("b")
    hold.link(source_id=a, target_id=b)
    hold.link(source_id=a, target_id=b, relation="contradicts")
    hold.kg_invalidate(source_id=a, target_id=b, relation="contradicts")
    assert [one.relation for one in hold.kg_query(source_id=a).memories] == ["related_to"]
    for source, target, relation in ((b, a, "related_to"), (a, b, "supersedes")):
        with pytest.raises(NotFound):
            hold.kg_invalidate(source_id=source, target_id=target, relation=relation)


def test_ending_a_link_can_be_undone(hold: holdfast.Holdfast, remember: Remember) -> None:
    a, b = remember("a"), remember("b")
    hold.link(source_id=a, target_id=b)
    hold.kg_invalidate(source_id=a, target_id=b, relation="related_to")
    hold.undo(change=hold.events(limit=1000).events[-1].seq)
    assert targets(hold.kg_query(source_id=a)) == [b]
    assert hold.verify().intact


def test_links_are_listed_at_both_ends_in_order_of_their_start(
    hold: holdfast.Holdfast, remember: Remember, clock: Clock
) -> None:
    a, b, c = (remember(title) for title in "abc")
    hold.link(source_id=c, target_id=a)
    clock.tick()
    hold.link(source_id=a, target_id=b)
    assert [(link.source_id, link.target_id) for link in hold.get_links(id=a).links] == [(c, a), (a, b)]
    assert [(link.source_id, link.target_id) for link in hold.get_links(id=a, limit=1, offset=1).links] == [(a, b)]
    assert hold.get(id=a).links == hold.get_links(id=a).links


def test_links_survive_archiving(hold: holdfast.Holdfast, remember: Remember) -> None:
    a, b, c = (remember(title) for title in "abc")
    hold.link(source_id=a, target_id=b)
    hold.link(source_id=b, target_id=c)
    hold.archive(ids=[b])
    assert targets(hold.kg_query(source_id=a, max_depth=5)) == []
    assert hold.find_paths(source_id=a, target_id=c).paths == []
    assert [link.target_id for link in hold.get_links(id=a).links] == [b]
    hold.archive_restore(id=b)
    assert targets(hold.kg_query(source_id=a, max_depth=5)) == [b, c]
    assert hold.find_paths(source_id=a, target_id=c).paths == [(a, b, c)]


def test_links_to_a_deleted_memory_are_restored_with_it(hold: holdfast.Holdfast, remember: Remember) -> None:
    a, b = remember("a"), remember("b")
    hold.link(source_id=a, target_id=b)
    hold.delete(id=b)
    assert (hold.get_links(id=a).links, hold.kg_timeline(source_id=a).events) == ([], [])
    hold.undo(change=hold.events(limit=1000).events[-1].seq)
    assert targets(hold.kg_query(source_id=a)) == [b]


def test_a_link_to_an_invisible_memory_is_hidden(hold: holdfast.Holdfast, remember: Remember) -> None:
    a, secret, c = remember("a"), remember("secret", scope="private"), remember("c")
    for source, target in ((a, secret), (secret, c)):
        hold.link(source_id=source, target_id=target, relation="derived_from")
    asked = {
        "get_links": hold.call("get_links", {"id": a}, caller=OTHER).links,
        "get": hold.call("get", {"id": c}, caller=OTHER).links,
        "kg_query": hold.call("kg_query", {"source_id": a, "max_depth": 5}, caller=OTHER).memories,
        "kg_timeline": hold.call("kg_timeline", {"source_id": a}, caller=OTHER).events,
        "find_paths": hold.call("find_paths", {"source_id": a, "target_id": c}, caller=OTHER).paths,
        "ancestors": hold.call("lineage", {"id": a}, caller=OTHER).nodes,
        "descendants": hold.call("lineage", {"id": c, "direction": "descendants"}, caller=OTHER).nodes,
    }
    assert asked == {name: [] for name in asked}
    assert hold.find_paths(source_id=a, target_id=c).paths == [(a, secret, c)]


def test_a_key_follows_links_only_within_its_namespaces(hold: holdfast.Holdfast, remember: Remember) -> None:
    a, b, c = remember("a", namespace="team"), remember("b", namespace="other"), remember("c", namespace="team/x")
    for source, target in ((a, b), (a, c), (b, c)):
        hold.link(source_id=source, target_id=target)
    key = Caller("ai:tester@here", namespaces=("team",))
    assert targets(hold.call("kg_query", {"source_id": a, "max_depth": 3}, caller=key)) == [c]


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
        shown = UNSET if state == "deleted" else title
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
