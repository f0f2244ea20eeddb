"""Callers: identity, rights and namespaces."""

import pytest

from holdfast.kernel.context import (
    RESERVED_AGENTS,
    Caller,
    client_agent,
    is_under,
    validate_agent_id,
    validate_agent_type,
)
from holdfast.kernel.errors import Forbidden, Invalid


@pytest.mark.parametrize(
    ("right", "may"),
    [("read", [True, False, False]), ("write", [True, True, False]), ("admin", [True, True, True])],
    ids=["read", "write", "admin"],
)
def test_a_right_includes_the_lesser_ones(right: str, may: list[bool]) -> None:
    caller = Caller("ai:a", right=right)  # type: ignore[arg-type]
    assert [caller.has_right("read"), caller.has_right("write"), caller.has_right("admin")] == may


@pytest.mark.parametrize(
    ("namespace", "reached"),
    [
        ("team", True),
        ("team/a", True),
        ("team/a/b", True),
        ("teams", False),
        ("tea", False),
        ("other", False),
        ("", False),
    ],
)
def test_a_path_includes_its_children_and_no_siblings_with_the_same_prefix(namespace: str, reached: bool) -> None:
    caller = Caller("ai:a", namespaces=("x/y", "team"))
    assert caller.can_access(namespace) is reached
    assert is_under(namespace, "team") is reached


def test_a_star_matches_every_namespace_and_no_path_matches_none() -> None:
    assert Caller("ai:a").can_access("anything/at/all")
    assert not Caller("ai:a", namespaces=()).can_access("anything")


def test_a_namespace_out_of_reach_is_forbidden() -> None:
    with pytest.raises(Forbidden):
        Caller("ai:a", namespaces=("team",)).require_access("other")


def test_an_unbound_caller_can_name_another_agent_and_keeps_everything_else() -> None:
    caller = Caller("ai:a", right="write", namespaces=("team",), key="k", source="mcp")
    assert caller.act_as("ai:b") == Caller("ai:b", right="write", namespaces=("team",), key="k", source="mcp")


def test_a_bound_caller_cannot_change_its_agent() -> None:
    caller = Caller("ai:a", has_fixed_agent=True)
    assert caller.act_as("ai:a") == caller
    with pytest.raises(Forbidden):
        caller.act_as("ai:b")


@pytest.mark.parametrize("agent", ["a", "ai:claude@laptop", "human:ada@host.example", "team/bot-1", "x" * 128])
def test_a_plain_agent_id_is_accepted(agent: str) -> None:
    assert validate_agent_id(agent) == agent


@pytest.mark.parametrize(
    "agent",
    ["", "x" * 129, "a b", "/etc", "a/../b", "..", "a\n", "a\x00", "á", "a'", "\ud800", *sorted(RESERVED_AGENTS)],
    ids=ascii,
)
def test_an_ambiguous_agent_id_is_refused(agent: str) -> None:
    with pytest.raises(Invalid) as refused:
        validate_agent_id(agent, "target_agent_id")
    assert refused.value.details == {"fields": ["target_agent_id"]}


@pytest.mark.parametrize("agent_type", ["human", "system", "ai:claude-opus-4.7", "ai:x"])
def test_a_known_agent_type_is_accepted(agent_type: str) -> None:
    assert validate_agent_type(agent_type) == agent_type


@pytest.mark.parametrize("agent_type", ["", "robot", "ai:", "ai:a b", "Human", "ai:" + "x" * 62])
def test_an_unknown_agent_type_is_refused(agent_type: str) -> None:
    with pytest.raises(Invalid):
        validate_agent_type(agent_type)


@pytest.mark.parametrize(
    ("client", "host", "agent"),
    [
        ("claude-code", "laptop", "ai:claude-code@laptop"),
        ("My Client 1.0!", "host.example", "ai:My-Client-1.0@host.example"),
        ("", "", "ai:client@localhost"),
        ("日本", "…", "ai:client@localhost"),
        ("../" * 50, "h", "ai:client@h"),
        ("x" * 500, "y" * 500, f"ai:{'x' * 60}@{'y' * 60}"),
    ],
    ids=["plain", "blanks", "empty", "foreign", "dots", "long"],
)
def test_the_id_of_a_program_is_stable_and_valid(client: str, host: str, agent: str) -> None:
    assert client_agent(client, host) == agent
    assert validate_agent_id(agent) == agent
