"""Agents, their messages, and grants on private memories."""

from typing import Any

import pytest

import holdfast
from holdfast.features.access.operations.agents import AgentView, GrantAnswer, NoticeView
from holdfast.kernel.errors import Forbidden, Invalid, NotFound


@pytest.fixture
def hold(clocked_store: holdfast.Holdfast) -> holdfast.Holdfast:
    return clocked_store


def test_a_registered_agent_is_listed_with_what_it_says_of_itself(hold: Any, clock: Any) -> None:
    at = clock.move(seconds=1)
    hold.agent_register(agent_id="ai:scout@here", agent_type="ai:scout", capabilities=["search", "search", "plan"])
    assert hold.agent_list().agents == [
        AgentView(
            agent_id="ai:scout@here",
            agent_type="ai:scout",
            capabilities=["search", "plan"],
            registered_at=at,
            last_seen_at=at,
        )
    ]


def test_registering_again_changes_what_an_agent_says_and_not_since_when(hold: Any, clock: Any) -> None:
    first = hold.agent_register(agent_id="ai:scout@here", agent_type="ai:scout")
    clock.move(hours=1)
    again = hold.agent_register(agent_id="ai:scout@here", agent_type="human", capabilities=["walk"])
    assert (again.registered_at, again.agent_type, again.capabilities) == (first.registered_at, "human", ["walk"])
    assert hold.agent_list().count == 1


def test_an_agent_was_last_seen_when_it_last_changed_something(hold: Any, clock: Any, seen_by: Any) -> None:
    hold.agent_register(agent_id="ai:scout@here", agent_type="ai:scout")
    at = clock.move(hours=1)
    seen_by("ai:scout@here").store(title="x", content="y")
    assert hold.agent_list().agents[0].last_seen_at == at


@pytest.mark.parametrize("capability", ["", " ", "a\x00b", "\x1b[31m", "x" * 129], ids=ascii)
def test_what_an_agent_can_do_is_clean_text(hold: Any, capability: str) -> None:
    with pytest.raises(Invalid):
        hold.agent_register(agent_id="ai:scout@here", agent_type="ai:scout", capabilities=[capability])
    assert hold.agent_list().count == 0


@pytest.mark.parametrize("agent", ["system", "daemon", "a b", "../x", "x" * 129])
def test_a_name_that_cannot_be_claimed_is_not_registered(hold: Any, agent: str) -> None:
    with pytest.raises(Invalid):
        hold.agent_register(agent_id=agent, agent_type="human")


def test_a_free_caller_acts_as_the_agent_that_it_names(hold: Any) -> None:
    stored = hold.store(title="x", content="y", agent_id="ai:scout@here")
    assert stored.agent_id == "ai:scout@here"
    assert hold.history(stored.id).changes[0].actor == "ai:scout@here"


def test_a_bound_caller_cannot_act_as_another(hold: Any, seen_by: Any) -> None:
    with pytest.raises(Forbidden):
        seen_by("ai:scout@here").store(title="x", content="y", agent_id="ai:boss@here")
    assert hold.list().count == 0


def test_a_message_arrives_once_for_its_reader_and_stays_read(hold: Any, clock: Any, seen_by: Any) -> None:
    sent = hold.notify(target_agent_id="ai:scout@here", title=" Ping ", payload="there?", priority=8, metadata={"k": 1})
    scout = seen_by("ai:scout@here")
    message = NoticeView(
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


def test_messages_come_newest_first_and_no_more_than_asked(hold: Any, clock: Any, seen_by: Any) -> None:
    for number in range(4):
        hold.notify(target_agent_id="ai:scout@here", title=f"{number}", payload="x")
        clock.move(seconds=1)
    assert [one.title for one in seen_by("ai:scout@here").inbox(limit=3).messages] == ["3", "2", "1"]


def test_nobody_marks_a_message_of_another_as_read(hold: Any, seen_by: Any) -> None:
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
def test_a_message_passes_the_same_door_as_a_memory(hold: Any, field: str, message: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        hold.notify(**{"target_agent_id": "ai:scout@here", "title": "Ping", "payload": "x"} | message)
    assert refused.value.details == {"fields": [field]}


def test_a_message_is_no_memory_and_no_change(hold: Any, seen_by: Any) -> None:
    hold.notify(target_agent_id="ai:scout@here", title="Ping", payload="quokka")
    scout = seen_by("ai:scout@here")
    assert (scout.list().count, scout.recall("quokka").count, scout.events().count) == (0, 0, 0)


def test_a_grant_is_answered_by_what_it_gives_and_can_be_changed(hold: Any) -> None:
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


def test_only_the_owner_or_who_was_trusted_with_it_grants(hold: Any, seen_by: Any) -> None:
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


def test_a_grant_to_write_lets_store_onto_the_private_title(hold: Any, seen_by: Any) -> None:
    private = hold.store(title="x", content="y", scope="private")
    hold.grant(private.id, agent_id="ai:other@here", permission="write")
    merged = seen_by("ai:other@here").store(title="x", content="theirs")
    assert (merged.id, merged.scope, merged.agent_id) == (private.id, "private", "ai:tester@here")
