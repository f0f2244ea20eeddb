"""Agents, their messages, and grants on private memories."""

from typing import Any

import pytest

import holdfast
from holdfast.kernel.errors import Forbidden, Invalid, NotFound
from holdfast.types import GrantAnswer, Notice, SeenAgent


@pytest.fixture
def hold(clocked_store: holdfast.Holdfast) -> holdfast.Holdfast:
    return clocked_store


def test_a_registered_agent_is_listed_with_its_own_description(hold: Any, clock: Any) -> None:
    at = clock.move(seconds=1)
    hold.agent_register(agent_id="ai:scout@here", agent_type="ai:scout", capabilities=["search", "search", "plan"])
    assert hold.agent_list().agents == [
        SeenAgent(
            agent_id="ai:scout@here",
            agent_type="ai:scout",
            capabilities=["search", "plan"],
            registered_at=at,
            last_seen_at=at,
        )
    ]


def test_registering_again_changes_the_description_but_not_the_start_date(hold: Any, clock: Any) -> None:
    first = hold.agent_register(agent_id="ai:scout@here", agent_type="ai:scout")
    clock.move(hours=1)
    again = hold.agent_register(agent_id="ai:scout@here", agent_type="human", capabilities=["walk"])
    assert (again.registered_at, again.agent_type, again.capabilities) == (first.registered_at, "human", ["walk"])
    assert hold.agent_list().count == 1


def test_an_agent_was_last_seen_at_its_last_change(hold: Any, clock: Any, seen_by: Any) -> None:
    hold.agent_register(agent_id="ai:scout@here", agent_type="ai:scout")
    at = clock.move(hours=1)
    seen_by("ai:scout@here").store(title="x", content="y")
    assert hold.agent_list().agents[0].last_seen_at == at


@pytest.mark.parametrize("capability", ["", " ", "a\x00b", "\x1b[31m", "x" * 129], ids=ascii)
def test_capabilities_of_an_agent_are_normalized(hold: Any, capability: str) -> None:
    with pytest.raises(Invalid):
        hold.agent_register(agent_id="ai:scout@here", agent_type="ai:scout", capabilities=[capability])
    assert hold.agent_list().count == 0


@pytest.mark.parametrize("agent", ["system", "daemon", "a b", "../x", "x" * 129])
def test_an_unclaimable_agent_name_is_not_registered(hold: Any, agent: str) -> None:
    with pytest.raises(Invalid):
        hold.agent_register(agent_id=agent, agent_type="human")


def test_an_unbound_caller_acts_as_the_agent_it_names(hold: Any) -> None:
    stored = hold.store(title="x", content="y", agent_id="ai:scout@here")
    assert stored.agent_id == "ai:scout@here"
    assert hold.history(stored.id).changes[0].actor == "ai:scout@here"


def test_a_bound_caller_cannot_act_as_another_agent(hold: Any, seen_by: Any) -> None:
    with pytest.raises(Forbidden):
        seen_by("ai:scout@here").store(title="x", content="y", agent_id="ai:boss@here")
    assert hold.list().count == 0


def test_a_message_arrives_once_for_its_reader_and_stays_read(hold: Any, clock: Any, seen_by: Any) -> None:
    sent = hold.notify(target_agent_id="ai:scout@here", title=" Ping ", payload="there?", priority=8, metadata={"k": 1})
    scout = seen_by("ai:scout@here")
    message = Notice(
        id=sent.id,
        sender="ai:tester@here",
        to="ai:scout@here",
        title="Ping",
        payload="there?",
        priority=8,
        metadata={"k": 1},
        created_at=sent.delivered_at,
        read=False,
    )
    assert scout.inbox(unread_only=True).messages == [message]
    marked = scout.inbox_read(ids=[sent.id, "no-such-message"])
    assert (marked.read, marked.missing) == ([sent.id], ["no-such-message"])
    assert scout.inbox_read(ids=[sent.id]).read == []
    assert scout.inbox(unread_only=True).count == 0
    assert [one.read for one in scout.inbox().messages] == [True]


def test_messages_are_listed_newest_first_up_to_the_limit(hold: Any, clock: Any, seen_by: Any) -> None:
    for number in range(4):
        hold.notify(target_agent_id="ai:scout@here", title=f"{number}", payload="x")
        clock.move(seconds=1)
    assert [one.title for one in seen_by("ai:scout@here").inbox(limit=3).messages] == ["3", "2", "1"]


def test_an_agent_cannot_mark_messages_of_others_as_read(hold: Any, seen_by: Any) -> None:
    sent = hold.notify(target_agent_id="ai:scout@here", title="Ping", payload="x")
    assert seen_by("ai:other@here").inbox_read(ids=[sent.id]).count == 0
    assert seen_by("ai:scout@here").inbox(unread_only=True).count == 1


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("target_agent_id", {"target_agent_id": "a b"}),
        ("title", {"title": "é" * 257}),
        ("title", {"title": "a\x07"}),
        ("payload", {"payload": "a\x00b"}),
        ("payload", {"payload": "  "}),
        ("metadata", {"metadata": {"k": float("nan")}}),
        ("priority", {"priority": 11}),
    ],
)
def test_a_message_is_validated_like_a_memory(hold: Any, field: str, message: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        hold.notify(**{"target_agent_id": "ai:scout@here", "title": "Ping", "payload": "x"} | message)
    assert refused.value.details == {"fields": [field]}


def test_a_message_is_neither_a_memory_nor_a_change(hold: Any, seen_by: Any) -> None:
    hold.notify(target_agent_id="ai:scout@here", title="Ping", payload="quokka")
    scout = seen_by("ai:scout@here")
    assert (scout.list().count, scout.recall("quokka").count, scout.events().count) == (0, 0, 0)


def test_a_grant_returns_its_permission_and_can_be_changed(hold: Any) -> None:
    private = hold.store(title="x", content="y", scope="private")
    for permission in ("read", "write", "read"):
        assert hold.grant(private.id, agent_id="ai:scout@here", permission=permission) == GrantAnswer(
            id=private.id, agent_id="ai:scout@here", permission=permission, granted=True, revoked=False
        )
    assert hold.revoke(private.id, agent_id="ai:scout@here").revoked
    with pytest.raises(NotFound):
        hold.revoke(private.id, agent_id="ai:scout@here")
    assert hold.grant(private.id, agent_id="ai:scout@here").granted


def test_the_owner_needs_no_grant(hold: Any) -> None:
    private = hold.store(title="x", content="y", scope="private")
    with pytest.raises(Invalid) as refused:
        hold.grant(private.id, agent_id="ai:tester@here")
    assert refused.value.details == {"fields": ["agent_id"]}


def test_only_the_owner_or_an_admin_grantee_can_grant(hold: Any, seen_by: Any) -> None:
    shared = hold.store(title="x", content="y")
    other = seen_by("ai:other@here")
    for asked in (other.grant, other.revoke):
        with pytest.raises(Forbidden):
            asked(shared.id, agent_id="ai:third@here")
    hold.grant(shared.id, agent_id="ai:other@here", permission="admin")
    assert other.grant(shared.id, agent_id="ai:third@here").granted
    assert other.revoke(shared.id, agent_id="ai:third@here").revoked
    hold.revoke(shared.id, agent_id="ai:other@here")
    with pytest.raises(Forbidden):
        other.grant(shared.id, agent_id="ai:third@here")


def test_a_write_grant_allows_storing_onto_the_private_title(hold: Any, seen_by: Any) -> None:
    private = hold.store(title="x", content="y", scope="private")
    hold.grant(private.id, agent_id="ai:other@here", permission="write")
    merged = seen_by("ai:other@here").store(title="x", content="theirs")
    assert (merged.id, merged.scope, merged.agent_id) == (private.id, "private", "ai:tester@here")
