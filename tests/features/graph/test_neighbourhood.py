"""The subgraph of a memory or namespace, as a list or diagram, and its limits."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

import holdfast
from holdfast.features.graph import service as relate
from holdfast.kernel.errors import Forbidden, Invalid, NotFound

Chain = Callable[..., list[str]]


@pytest.fixture
def hold(clocked_store: holdfast.Holdfast) -> holdfast.Holdfast:
    return clocked_store


@pytest.fixture
def chain(hold: Any, clock: Any) -> Chain:
    """Store one-letter memories linked in a chain."""

    def chain(titles: str, relation: str = "related_to", **more: Any) -> list[str]:
        ids = [hold.store(title=title, content="x", tier="long", **more).id for title in titles]
        for one, other in pairwise(ids):
            hold.link(one, other, relation=relation)
            clock.move(seconds=1)
        return ids

    return chain


def titles(answer: Any) -> list[str]:
    return [node.title for node in answer.nodes]


def test_a_namespace_shows_what_is_linked_within_it_and_below(hold: Any, chain: Chain) -> None:
    a, b = chain("ab", namespace="shop")
    (c,) = chain("c", namespace="shop/web")
    (d,) = chain("d", namespace="elsewhere")
    hold.store(title="alone", content="x", namespace="shop")
    for other in (c, d):
        hold.link(b, other)
    found = hold.graph(namespace="shop")
    assert titles(found) == ["a", "b", "c"]
    assert [(one.source_id, one.target_id) for one in found.links] == [(a, b), (b, c)]
    assert (found.count, found.link_count, found.truncated, found.text) == (3, 2, False, None)


def test_a_namespace_above_the_limit_is_reported_as_truncated(hold: Any, chain: Chain) -> None:
    chain("abcdef", namespace="shop")
    found = hold.graph(namespace="shop", limit=3)
    assert (len(titles(found)), found.link_count, found.truncated) == (3, 2, True)
    assert "Truncated: raise limit" in hold.graph(namespace="shop", limit=3, format="mermaid").text
    assert "Truncated: raise limit" in hold.graph(namespace="shop", limit=3, format="dot").text
    assert "There is more" not in hold.graph(namespace="shop", format="dot").text


def test_an_invisible_memory_is_never_drawn_or_passed_through(hold: Any, chain: Chain, seen_by: Any) -> None:
    a, secret, _ = chain("a?c", namespace="shop")
    hold.update(secret, scope="private")
    other = seen_by("ai:other@there")
    assert titles(other.graph(a, max_depth=5)) == ["a"]
    assert other.graph(namespace="shop").count == 0
    assert "?" not in other.graph(a, format="dot").text
    with pytest.raises(NotFound):
        other.graph(secret)
    with pytest.raises(Forbidden):
        seen_by("ai:other@there", namespaces=("team",)).graph(namespace="shop")


def test_a_graph_can_be_drawn_at_another_time_with_ended_links_dashed(hold: Any, chain: Chain, clock: Any) -> None:
    a, b = chain("ab", relation="supersedes", namespace="shop")
    before = clock.after(days=-2)
    then = clock.move(days=1)
    clock.move(days=1)
    hold.kg_invalidate(source_id=a, target_id=b, relation="supersedes")
    assert [hold.graph(a, valid_at=at).count for at in (before, then)] == [1, 2]
    assert hold.graph(a).link_count == 0
    assert "n1 -. supersedes .-> n2" in hold.graph(a, include_invalidated=True, format="mermaid").text
    assert "n1 -- supersedes --> n2" in hold.graph(a, valid_at=then, format="mermaid").text


def test_only_the_requested_relations_are_followed(hold: Any, chain: Chain) -> None:
    a, *_ = chain("ab", relation="supersedes")
    hold.link(a, hold.store(title="c", content="x").id)
    assert titles(hold.graph(a, relations=["supersedes"])) == ["a", "b"]


def test_a_title_is_only_a_label(hold: Any) -> None:
    title = '"] --> x; <script> %%{init}%% 👩‍🚀'
    id = hold.store(title=title, content="x").id
    (line,) = [one for one in hold.graph(id, format="mermaid").text.splitlines() if one.startswith("  ")]
    assert line == ('  n1["#34;#93; --#62; x#59; #60;script#62; #37;#37;#123;init#125;#37;#37; 👩‍🚀"]')
    assert hold.graph(id).nodes[0].title == title


@pytest.mark.parametrize("asked", [{}, {"id": "a", "namespace": "b"}], ids=["neither", "both"])
def test_a_drawing_needs_either_a_memory_or_a_namespace(hold: Any, asked: dict[str, str]) -> None:
    with pytest.raises(Invalid):
        hold.graph(**asked)


def test_a_large_lineage_is_reported_as_truncated(hold: Any, chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relate, "MAX_NODES", 3)
    ids = chain("abcde", relation="derived_from")
    for id in (ids[0], ids[1]):
        found = hold.lineage(id, max_depth=10)
        assert [one.id for one in found.nodes] == ids[ids.index(id) + 1 :][:3]
        assert found.truncated == (id == ids[0])


def test_lineage_in_a_cycle_lists_each_memory_once(hold: Any, chain: Chain) -> None:
    ids = chain("abcdefgh", relation="supersedes")
    hold.link(ids[-1], ids[0], relation="supersedes")
    for direction, expected in (("ancestors", ids[1:]), ("descendants", ids[:0:-1])):
        assert [one.id for one in hold.lineage(ids[0], direction=direction, max_depth=10).nodes] == expected


def test_an_end_before_the_start_is_refused_and_one_at_the_start_means_never_valid(hold: Any) -> None:
    a, b = (hold.store(title=title, content="x").id for title in "ab")
    hold.link(a, b, valid_from="2026-01-10")
    triple = {"source_id": a, "target_id": b, "relation": "related_to"}
    with pytest.raises(Invalid, match="2026-01-10"):
        hold.kg_invalidate(**triple, valid_until="2026-01-09")
    assert hold.graph(a).link_count == 1
    hold.kg_invalidate(**triple, valid_until="2026-01-10")
    assert [hold.graph(a, valid_at=day).link_count for day in ("2026-01-09", "2026-01-10", "2026-01-11")] == [0, 0, 0]


def test_ending_a_future_link_sets_its_end_to_its_start(hold: Any, clock: Any) -> None:
    a, b = (hold.store(title=title, content="x").id for title in "ab")
    begins = clock.after(days=3)
    hold.link(a, b, valid_from=begins)
    ended = hold.kg_invalidate(source_id=a, target_id=b, relation="related_to")
    assert ended.valid_until == begins
    clock.move(days=4)
    assert hold.graph(a).link_count == 0


def test_links_of_a_memory_can_be_listed_for_another_time(hold: Any, chain: Chain, clock: Any) -> None:
    a, b = chain("ab")
    then = clock.move(days=1)
    clock.move(days=1)
    hold.kg_invalidate(source_id=a, target_id=b, relation="related_to")
    clock.move(days=1)
    assert [hold.get_links(a, **when).count for when in ({}, {"valid_at": then}, {"valid_at": clock.after()})] == [
        1,
        1,
        0,
    ]


def test_a_memory_of_another_time_is_shown_with_the_links_of_that_time(hold: Any, chain: Chain, clock: Any) -> None:
    a, b = chain("ab")
    then = clock.move(days=1)
    hold.kg_invalidate(source_id=a, target_id=b, relation="related_to")
    later = clock.move(days=1)
    assert [len(hold.get(a, as_of=at).links) for at in (clock.after(hours=-36), then, later)] == [1, 0, 0]
