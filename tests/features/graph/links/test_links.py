"""Links: create, end, create again, visibility, and paths."""

import pytest
from linked_memories import OTHER, START, Clock, Remember, targets

import holdfast
from datetimes import to_datetime
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import Conflict, Forbidden, HoldfastError, Invalid, NotFound
from holdfast.kernel.timestamps import SECOND
from holdfast.types import InvalidateResult, LinkResult


def test_a_link_has_its_creator_and_start_date(hold: holdfast.Holdfast, remember: Remember) -> None:
    a, b = remember("a"), remember("b")
    assert hold.link(source_id=a, target_id=b, relation="supersedes") == LinkResult(
        linked=True,
        outcome="created",
        invalidation_notified=[],
        source_id=a,
        target_id=b,
        relation="supersedes",
        created_at=to_datetime(START),
        valid_from=to_datetime(START),
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
    assert (again.outcome, again.version, again.valid_from, again.valid_until) == ("revalidated", 3, later, None)
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
    hold.link(source_id=a, target_id=b, valid_from=to_datetime(START + 5 * SECOND))
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
    earlier = to_datetime(START)
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
