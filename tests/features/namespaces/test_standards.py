"""Namespaces, their tree and their standards."""

from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.features.namespaces import service as standards
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import Forbidden, HoldfastError, Invalid, NotFound
from holdfast.kernel.text.token_count import count_tokens
from holdfast.kernel.timestamps import SECOND
from holdfast.types import GetStandardResult, SetStandardResult

OTHER = Caller("ai:other@here")


def rule(hold: holdfast.Holdfast, title: str, **more: Any) -> str:
    return str(hold.store(title=title, content=f"Always {title}.", namespace="rules", tier="long", **more).id)


def test_namespaces_are_counted_largest_first(hold: holdfast.Holdfast) -> None:
    for title, namespace in (("a", "team"), ("b", "home"), ("c", "team"), ("d", "gone")):
        made = hold.store(title=title, content=title, namespace=namespace)
    hold.delete(id=made.id)
    assert [(one.namespace, one.count) for one in hold.namespaces().namespaces] == [("team", 2), ("home", 1)]


def test_namespaces_count_only_visible_memories(hold: holdfast.Holdfast) -> None:
    hold.store(title="a", content="a", namespace="team")
    hold.store(title="b", content="b", namespace="diary", scope="private")
    assert [one.namespace for one in hold.call("namespaces", {}, caller=OTHER).namespaces] == ["team"]
    assert hold.call("get_taxonomy", {}, caller=OTHER).total_count == 1


def test_the_taxonomy_of_a_prefix_excludes_its_neighbours(hold: holdfast.Holdfast) -> None:
    for namespace in ("a_b", "a_b/c", "axb", "a_bc", "a_b0"):
        hold.store(title="t", content="x", namespace=namespace)
    found = hold.get_taxonomy(namespace_prefix="a_b")
    assert (found.total_count, found.tree.count, [child.namespace for child in found.tree.children]) == (
        2,
        1,
        ["a_b/c"],
    )


def test_a_namespace_returns_its_standard(hold: holdfast.Holdfast) -> None:
    tests = rule(hold, "test first", priority=8)
    assert hold.namespace_set_standard(namespace="team", id=tests[:18]) == SetStandardResult(
        set=True, namespace="team", standard_id=tests
    )
    assert hold.namespace_get_standard(namespace="team") == GetStandardResult(
        namespace="team", standard_id=tests, title="test first", content="Always test first.", priority=8
    )


def test_a_namespace_without_a_standard_returns_null(hold: holdfast.Holdfast) -> None:
    assert hold.namespace_get_standard(namespace="team") == GetStandardResult(namespace="team", standard_id=None)
    assert hold.namespace_clear_standard(namespace="team").cleared is False


def test_a_standard_is_replaced_cleared_and_set_again(hold: holdfast.Holdfast) -> None:
    one, other = rule(hold, "one"), rule(hold, "other")
    hold.namespace_set_standard(namespace="team", id=one)
    hold.namespace_set_standard(namespace="team", id=other)
    assert hold.namespace_get_standard(namespace="team").standard_id == other
    assert hold.namespace_clear_standard(namespace="team").cleared is True
    assert hold.namespace_get_standard(namespace="team").standard_id is None
    hold.namespace_set_standard(namespace="team", id=one)
    assert hold.namespace_get_standard(namespace="team").standard_id == one
    assert hold.verify().intact


def test_the_standards_of_a_namespace_are_listed_most_general_first(hold: holdfast.Holdfast) -> None:
    places = ("*", "org", "base", "team", "team/project/part")
    rules = {place: rule(hold, f"obey {place}") for place in places}
    hold.namespace_set_standard(namespace="*", id=rules["*"])
    hold.namespace_set_standard(namespace="org", id=rules["org"])
    hold.namespace_set_standard(namespace="base", id=rules["base"], parent="org")
    hold.namespace_set_standard(namespace="team", id=rules["team"], parent="base")
    hold.namespace_set_standard(namespace="team/project/part", id=rules["team/project/part"])
    found = hold.namespace_get_standard(namespace="team/project/part", inherit=True)
    assert found.chain == ["*", "org", "base", "team", "team/project", "team/project/part"]
    assert [one.standard_id for one in found.standards] == [rules[place] for place in places]
    with hold.ctx.reading() as session:
        holding = standards.list_standards(hold.ctx, session, "team/project/part")
    assert [memory.id for memory in holding] == [rules[place] for place in places]


def test_a_memory_that_is_the_standard_twice_is_listed_once(hold: holdfast.Holdfast) -> None:
    only = rule(hold, "be kind")
    for place in ("*", "team"):
        hold.namespace_set_standard(namespace=place, id=only)
    with hold.ctx.reading() as session:
        assert [memory.id for memory in standards.list_standards(hold.ctx, session, "team")] == [only]


def test_parents_in_a_cycle_are_listed_once(hold: holdfast.Holdfast) -> None:
    only = rule(hold, "x")
    for place, parent in (("a", "b"), ("b", "c"), ("c", "a")):
        hold.namespace_set_standard(namespace=place, id=only, parent=parent)
    assert hold.namespace_get_standard(namespace="a", inherit=True).chain == ["*", "c", "b", "a"]


def test_parents_are_followed_up_to_eight_levels(hold: holdfast.Holdfast) -> None:
    only = rule(hold, "x")
    for number in range(12):
        hold.namespace_set_standard(namespace=f"n{number}", id=only, parent=f"n{number + 1}")
    chain = hold.namespace_get_standard(namespace="n0", inherit=True).chain
    assert chain == ["*", *(f"n{number}" for number in range(8, -1, -1))]


@pytest.mark.parametrize("end", ["archive", "delete"])
def test_a_standard_without_a_live_memory_is_hidden(hold: holdfast.Holdfast, end: str) -> None:
    only = rule(hold, "x")
    hold.namespace_set_standard(namespace="team", id=only)
    hold.call(end, {"archive": {"ids": [only]}, "delete": {"id": only}}[end])
    assert hold.namespace_get_standard(namespace="team") == GetStandardResult(namespace="team", standard_id=None)
    assert hold.namespace_get_standard(namespace="team", inherit=True).standards == []


def test_an_expired_standard_is_hidden(db: str) -> None:
    clock = [1_800_000_000 * SECOND]
    with holdfast.open(db, now=lambda: clock[0]) as hold:
        short = hold.store(title="x", content="for an hour", ttl_secs=3600)
        hold.namespace_set_standard(namespace="team", id=short.id)
        assert hold.namespace_get_standard(namespace="team").standard_id == short.id
        clock[0] += 3600 * SECOND
        assert hold.namespace_get_standard(namespace="team").standard_id is None


def test_a_private_standard_is_visible_to_its_owner_only_and_others_cannot_change_it(hold: holdfast.Holdfast) -> None:
    mine, theirs = rule(hold, "mine", scope="private"), rule(hold, "theirs")
    hold.namespace_set_standard(namespace="team", id=mine)
    assert hold.call("namespace_get_standard", {"namespace": "team"}, caller=OTHER).standard_id is None
    for name, more in (("namespace_set_standard", {"id": theirs}), ("namespace_clear_standard", {})):
        with pytest.raises(Forbidden):
            hold.call(name, {"namespace": "team"} | more, caller=OTHER)
    assert hold.namespace_get_standard(namespace="team").standard_id == mine


def test_a_key_sets_standards_only_within_its_namespaces(hold: holdfast.Holdfast) -> None:
    own = hold.store(title="x", content="x", namespace="team").id
    key = Caller("ai:tester@here", namespaces=("team",))
    for place, parent in (("*", None), ("other", None), ("team", "other")):
        with pytest.raises(Forbidden):
            hold.call("namespace_set_standard", {"namespace": place, "id": own, "parent": parent}, caller=key)
    assert hold.call("namespace_set_standard", {"namespace": "team/a", "id": own}, caller=key).set


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"id": "nowhere"}, NotFound),
        ({"parent": "team"}, Invalid),
        ({"parent": "*"}, Invalid),
        ({"namespace": "*", "parent": "team"}, Invalid),
        ({"namespace": "team//x"}, Invalid),
        ({"parent": "no blanks"}, Invalid),
    ],
    ids=["no memory", "own parent", "parent of all", "above all", "empty segment", "blank"],
)
def test_an_invalid_standard_is_refused(
    hold: holdfast.Holdfast, given: dict[str, str], error: type[HoldfastError]
) -> None:
    arguments = {"namespace": "team", "id": rule(hold, "x")} | given
    with pytest.raises(error):
        hold.call("namespace_set_standard", arguments)


def encode_memories(memories: Any) -> str:
    """Return memories as they are sent."""
    return msgspec.json.encode([memory.to_dict() for memory in memories]).decode()


@pytest.mark.parametrize("format", ["json", "toon"])
def test_standards_count_against_the_recall_budget_before_hits(hold: holdfast.Holdfast, format: str) -> None:
    for number in range(8):
        hold.store(title=f"d{number}", content=f"We deploy at {number}.", namespace="team")
    hold.namespace_set_standard("team", rule(hold, "test and measure before it goes out " * 12))
    asked: dict[str, Any] = {"namespace": "team", "format": format}
    every = hold.recall("deploy", budget_tokens=9000, **asked)
    stated = count_tokens(encode_memories(every.standards))
    hits = every.toon if format == "toon" else encode_memories(every.memories)
    assert 0 <= every.tokens_used - stated - count_tokens(hits) <= 40 + 25 * every.count
    some = hold.recall("deploy", budget_tokens=stated + 500, **asked)
    assert stated < some.tokens_used <= stated + 500
    assert (0 < some.count < every.count, some.meta.budget_overflow) == (True, False)
    least = hold.recall("deploy", budget_tokens=100, **asked)
    assert (least.count, least.meta.budget_overflow, least.meta.budget_tokens_remaining) == (1, True, 0)
    assert least.tokens_used > stated


def test_a_zero_budget_shows_no_standards(hold: holdfast.Holdfast) -> None:
    hold.store(title="d", content="We deploy at noon.", namespace="team")
    hold.namespace_set_standard("team", rule(hold, "test first"))
    answer = hold.recall("deploy", namespace="team", budget_tokens=0)
    told = (answer.count, answer.standards, answer.tokens_used, answer.meta.memories_dropped)
    assert (told, answer.meta.budget_overflow) == ((0, None, 0, 1), False)
