"""Reflections that require approval."""

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.kernel.errors import Conflict, DepthExceeded, DepthMismatch, Forbidden, NotFound, TitleTaken

Make = Callable[..., str]


@pytest.fixture
def first(hold: holdfast.Holdfast, observe: Make, reflect: Make) -> str:
    """A reflection; deeper ones require approval."""
    made = reflect("first", observe("ground"))
    hold.policy_set(namespace="global", require_approval_above_depth=1)
    return made


@pytest.fixture
def other(seen_by: Callable[..., Any]) -> Any:
    """Another agent with write access."""
    return seen_by("ai:other@here", right="write")


def ask(ctx: Any, source: str, **more: Any) -> Any:
    return ctx.reflect(**{"source_ids": [source], "title": "second", "content": "It follows.", **more})


def test_a_reflection_above_the_approval_depth_is_pending_and_not_stored(hold: holdfast.Holdfast, first: str) -> None:
    before = hold.stats().total
    answer = ask(hold, first, depth=2)
    assert (answer.status, answer.proposed_depth, answer.require_approval_above_depth) == ("pending", 2, 1)
    assert hold.stats().total == before
    (waits,) = hold.pending_list(status="pending").pending
    assert (waits.id, waits.action_type, waits.requested_by) == (answer.pending_id, "reflect", "ai:tester@here")
    assert waits.payload["source_ids"] == [first]


def test_an_approved_reflection_belongs_to_its_requester_and_the_journal_names_the_approver(
    hold: holdfast.Holdfast, first: str, other: Any
) -> None:
    asked = ask(hold, first)
    answer = other.pending_approve(id=asked.pending_id)
    made = hold.get(answer.memory_id)
    assert (made.title, made.reflection_depth, made.agent_id) == ("second", 2, "ai:tester@here")
    entry = next(one for one in hold.events(limit=1000).events if one.record == made.id)
    assert (entry.op, entry.actor) == ("reflect", "ai:other@here")
    (decided,) = hold.pending_list().pending
    assert (decided.status, decided.decided_by, decided.payload["content"]) == ("approved", "ai:other@here", "")


def test_self_approval_requires_the_policy(hold: holdfast.Holdfast, first: str) -> None:
    asked = ask(hold, first)
    with pytest.raises(Forbidden):
        hold.pending_approve(id=asked.pending_id)
    hold.policy_set(namespace="global", self_approval=True)
    assert hold.pending_approve(id=asked.pending_id).approved


def test_a_rejected_reflection_is_not_stored_and_cannot_be_decided_again(
    hold: holdfast.Holdfast, first: str, other: Any
) -> None:
    asked = ask(hold, first)
    assert other.pending_reject(id=asked.pending_id, reason="too bold").rejected
    (decided,) = hold.pending_list(status="rejected").pending
    assert (decided.reason, decided.payload["content"]) == ("too bold", "")
    for decide in (other.pending_approve, other.pending_reject):
        with pytest.raises(Conflict):
            decide(id=asked.pending_id)


def test_an_approval_uses_the_data_at_the_time_of_approval(
    hold: holdfast.Holdfast, observe: Make, first: str, other: Any, reflect: Make
) -> None:
    """The approved depth is the stored one: it is computed once, in the same transaction."""
    asked, stated = ask(hold, first), ask(hold, first, title="stated", depth=2)
    hold.policy_set(namespace="global", inherit=["require_approval_above_depth"])
    hold.link(source_id=first, target_id=reflect("other first", observe("more")), relation="reflects_on")
    hold.policy_set(namespace="global", require_approval_above_depth=1)
    with pytest.raises(DepthMismatch):
        other.pending_approve(id=stated.pending_id)
    assert hold.get(other.pending_approve(id=asked.pending_id).memory_id).reflection_depth == 3
    assert [one.id for one in hold.pending_list(status="pending").pending] == [stated.pending_id]


def test_an_approval_is_refused_by_the_rules_at_the_time_of_approval(
    hold: holdfast.Holdfast, observe: Make, first: str, other: Any
) -> None:
    capped, taken, gone = (ask(hold, first, title=title) for title in ("capped", "taken", "gone"))
    observe("taken")
    with pytest.raises(TitleTaken):
        other.pending_approve(id=taken.pending_id)
    hold.policy_set(namespace="global", max_reflection_depth=1)
    with pytest.raises(DepthExceeded):
        other.pending_approve(id=capped.pending_id)
    hold.policy_set(namespace="global", max_reflection_depth=3)
    hold.delete(first)
    with pytest.raises(NotFound):
        other.pending_approve(id=gone.pending_id)


def test_a_too_deep_reflection_is_refused_without_asking_for_approval(
    hold: holdfast.Holdfast, observe: Make, reflect: Make
) -> None:
    third = reflect("third", reflect("second", reflect("first", observe("a"))))
    hold.policy_set(namespace="global", require_approval_above_depth=0)
    with pytest.raises(DepthExceeded):
        reflect("fourth", third)
    assert hold.pending_list().count == 0


def test_a_request_is_visible_only_with_access_to_its_namespace(
    hold: holdfast.Holdfast, first: str, seen_by: Callable[..., Any]
) -> None:
    asked = ask(hold, first)
    far = seen_by("ai:far@here", right="write", namespaces=("elsewhere",))
    assert far.pending_list().count == 0
    for decide in (far.pending_approve, far.pending_reject):
        with pytest.raises(NotFound):
            decide(id=asked.pending_id)


def test_sources_invisible_to_an_approver_are_counted_and_not_named(
    hold: holdfast.Holdfast, observe: Make, first: str, other: Any
) -> None:
    secret = observe("secret", scope="private")
    ask(hold, first, source_ids=[first, secret], scope="collective")
    (waits,) = other.pending_list().pending
    assert (waits.payload["source_ids"], waits.payload["hidden_sources"]) == ([first], 1)


def test_a_missing_source_is_named_only_to_an_approver_with_access(
    hold: holdfast.Holdfast, observe: Make, first: str, other: Any
) -> None:
    secret, open_one = observe("secret", scope="private"), observe("open")
    hidden = ask(hold, first, source_ids=[first, secret], scope="collective")
    shown = ask(hold, first, source_ids=[first, open_one], title="third")
    hold.delete(secret)
    hold.delete(open_one)
    with pytest.raises(NotFound, match="may not see is gone") as refused:
        other.pending_approve(id=hidden.pending_id)
    assert secret not in str(refused.value.to_json())
    with pytest.raises(NotFound, match=open_one):
        other.pending_approve(id=shown.pending_id)


def test_a_requester_gains_no_access_by_an_approval(
    hold: holdfast.Holdfast, observe: Make, first: str, seen_by: Callable[..., Any]
) -> None:
    """Sources that the requester may no longer see are not used, whoever approves."""
    mine = observe("mine")
    asked = seen_by("ai:other@here").reflect(source_ids=[first, mine], title="so", content="It follows.")
    hold.update(mine, scope="private")
    with pytest.raises(NotFound):
        hold.pending_approve(id=asked.pending_id)
