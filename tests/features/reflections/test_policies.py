"""Each rule comes from the nearest namespace that sets it."""

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.features.namespaces.model import Rules
from holdfast.features.namespaces.resolve_rules import resolve_rules
from holdfast.kernel.errors import Forbidden, Invalid, NotFound


def read_rules(hold: holdfast.Holdfast, namespace: str) -> Rules:
    with hold.ctx.reading() as session:
        return resolve_rules(session, namespace)


def test_without_policies_the_defaults_apply(hold: holdfast.Holdfast) -> None:
    assert read_rules(hold, "a/b") == Rules()
    assert hold.policy_get(namespace="a/b").decided_in == {}


def test_each_rule_comes_from_the_nearest_namespace_that_sets_it(hold: holdfast.Holdfast) -> None:
    hold.policy_set(namespace="*", max_reflection_depth=5, invalidation_hops=4)
    hold.policy_set(namespace="a", max_reflection_depth=0, skill_promotion_min_depth=2)
    hold.policy_set(namespace="a/b", max_reflection_depth=2)
    expected = Rules(max_reflection_depth=2, invalidation_hops=4, skill_promotion_min_depth=2)
    assert read_rules(hold, "a/b/c") == expected
    assert read_rules(hold, "a/bc") == Rules(max_reflection_depth=0, invalidation_hops=4, skill_promotion_min_depth=2)
    found = hold.policy_get(namespace="a/b/c")
    assert (found.own, found.decided_in["max_reflection_depth"], found.decided_in["invalidation_hops"]) == (
        {},
        "a/b",
        "*",
    )


def test_unset_rules_stay_and_inherited_ones_follow_the_parent(hold: holdfast.Holdfast) -> None:
    hold.policy_set(namespace="a", max_reflection_depth=1, invalidation_hops=2)
    hold.policy_set(namespace="a", max_reflection_depth=2)
    assert hold.policy_get(namespace="a").own == {"max_reflection_depth": 2, "invalidation_hops": 2}
    hold.policy_set(namespace="a", inherit=["max_reflection_depth"])
    assert hold.policy_get(namespace="a").own == {"invalidation_hops": 2}
    assert hold.policy_clear(namespace="a").cleared
    assert not hold.policy_clear(namespace="a").cleared
    assert read_rules(hold, "a") == Rules()


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"max_reflection_depth": -1},
        {"max_reflection_depth": 33},
        {"invalidation_hops": 0},
        {"skill_promotion_min_depth": 0},
        {"inherit": ["no_such_rule"]},
        {"inherit": ["max_reflection_depth"], "max_reflection_depth": 1},
        {"namespace": "no blanks", "max_reflection_depth": 1},
        {"no_such_rule": 1},
    ],
)
def test_an_impossible_rule_is_refused(hold: holdfast.Holdfast, wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        hold.policy_set(**{"namespace": "a", **wrong})


def test_a_policy_cannot_be_changed_without_the_admin_right(
    hold: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    hold.policy_set(namespace="ours", max_reflection_depth=1)
    decided = hold.events(limit=100).events[-1].seq
    writer = seen_by("ai:other@here", right="write")
    with pytest.raises(Forbidden):
        writer.policy_set(namespace="ours", max_reflection_depth=9)
    with pytest.raises(Forbidden):
        writer.policy_clear(namespace="ours")
    with pytest.raises(Forbidden):
        writer.undo(change=decided)
    assert read_rules(hold, "ours").max_reflection_depth == 1


def test_an_administrator_of_a_namespace_sets_only_its_policy(
    hold: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    theirs = seen_by("ai:other@here", namespaces=("ours",))
    theirs.policy_set(namespace="ours/too", max_reflection_depth=1)
    for elsewhere in ("theirs", "*"):
        with pytest.raises(Forbidden):
            theirs.policy_set(namespace=elsewhere, max_reflection_depth=9)


def test_a_policy_is_visible_only_with_access_to_its_namespace(
    hold: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    hold.policy_set(namespace="secret-project", max_reflection_depth=1)
    hold.policy_set(namespace="ours", max_reflection_depth=1)
    key = seen_by("ai:other@here", namespaces=("ours",))
    assert [entry.record for entry in key.events(limit=100).events] == ["ours"]
    assert key.export()["policies"][0]["namespace"] == "ours"
    assert len(key.export()["policies"]) == 1


def test_a_policy_is_journalled_verified_and_undone(hold: holdfast.Holdfast) -> None:
    hold.policy_set(namespace="a", max_reflection_depth=1)
    hold.policy_set(namespace="a", max_reflection_depth=2, invalidation_hops=3)
    last = hold.events(limit=100).events[-1]
    assert (last.kind, last.op, last.record) == ("policy", "policy", "a")
    hold.undo(change=last.seq)
    assert hold.policy_get(namespace="a").own == {"max_reflection_depth": 1}
    assert hold.verify().intact


def test_policies_are_exported(hold: holdfast.Holdfast, tmp_path: Any) -> None:
    hold.policy_set(namespace="*", max_reflection_depth=7)
    hold.policy_set(namespace="a/b", require_approval_above_depth=2, self_approval=True)
    with holdfast.open(str(tmp_path / "other.db")) as other:
        taken = other.call("import", {"envelope": hold.export()})
        assert (taken.rejected, taken.arrays["policies"].imported) == (0, 2)
        assert other.export()["policies"] == hold.export()["policies"]
        again = other.call("import", {"envelope": hold.export()})
        assert again.arrays["policies"].unchanged == 2


@pytest.mark.parametrize("rules", [{"max_reflection_depth": 99}, {"no_such_rule": 1}, {"self_approval": "yes"}])
def test_an_invalid_policy_is_not_imported(hold: holdfast.Holdfast, rules: dict[str, Any]) -> None:
    given = {"namespace": "a", "rules": rules, "decided_by": "ai:other@there"}
    taken = hold.call("import", {"envelope": {"memories": [], "policies": [given]}})
    assert [(fault.array, fault.code) for fault in taken.errors] == [("policies", "VALIDATION_FAILED")]


def test_policies_of_an_untrusted_source_are_not_imported(hold: holdfast.Holdfast) -> None:
    given = {"namespace": "a", "rules": {"max_reflection_depth": 9}, "decided_by": "ai:other@there"}
    taken = hold.call("import", {"envelope": {"memories": [], "policies": [given]}, "trust_source": False})
    assert [fault.code for fault in taken.errors] == ["FORBIDDEN"]


def test_a_pending_action_is_hidden_without_access_to_its_namespace(hold: holdfast.Holdfast) -> None:
    with pytest.raises(NotFound):
        hold.pending_approve(id="no-such-action")
