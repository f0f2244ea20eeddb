"""Consolidation: several memories become one, and nothing is lost."""

from typing import Any

import pytest

import holdfast
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import Forbidden, Invalid, NotFound, TitleTaken


@pytest.fixture
def two_memories(hold: holdfast.Holdfast) -> tuple[str, str]:
    """Store two memories by two agents."""
    first = hold.store(
        title="First",
        content="one",
        namespace="team",
        tags=["b", "a"],
        priority=7,
        confidence=0.9,
        metadata={"shared": 1, "first": True},
    )
    second = hold.store(
        title="Second",
        content="two",
        namespace="team",
        tags=["c", "a"],
        priority=3,
        scope="team",
        metadata={"shared": 2},
        agent_id="ai:other@here",
    )
    return first.id, second.id


def test_the_default_summary_is_the_most_relevant_sentences(hold: holdfast.Holdfast) -> None:
    engine = "Ada wrote a program for the engine. It rained. The engine computes numbers. Lunch was soup."
    rest = "The program for the engine is right. We had tea. The engine was never built. Nobody came. The sun set."
    ids = [hold.store(title=title, content=text).id for title, text in (("One", engine), ("Two", rest))]
    with pytest.raises(Invalid):
        hold.consolidate(ids=ids, title="Engine", summarise=True, summary="x")
    done = hold.consolidate(ids=ids, title="Engine", summarise=True)
    said = done.memory.content
    assert "Ada wrote a program for the engine." in said
    assert len(said) < len(engine) + len(rest)
    assert (done.method, done.memory.metadata["method"]) == ("heuristic", "heuristic")


def test_one_memory_replaces_several(hold: holdfast.Holdfast, two_memories: tuple[str, str]) -> None:
    answer = hold.consolidate(ids=list(two_memories), title="Both", summary="one and two")
    made = hold.get(answer.id)
    assert (answer.consolidated, answer.memory.id) == (2, answer.id)
    assert {name: getattr(made, name) for name in SHOWN} == {
        "title": "Both",
        "content": "one and two",
        "namespace": "team",
        "tier": "long",
        "memory_kind": "summary",
        "source": "consolidation",
        "priority": 7,
        "confidence": 0.9,
        "scope": "team",
        "tags": ("a", "b", "c"),
        "agent_id": "ai:tester@here",
        "metadata": {
            "shared": 2,
            "first": True,
            "derived_from": list(two_memories),
            "consolidated_from_agents": ["ai:other@here", "ai:tester@here"],
        },
    }
    assert [memory.id for memory in hold.list().memories] == [answer.id]


SHOWN = (
    "title",
    "content",
    "namespace",
    "tier",
    "memory_kind",
    "source",
    "priority",
    "confidence",
    "scope",
    "tags",
    "agent_id",
    "metadata",
)


def test_the_sources_are_archived_linked_and_restorable(hold: holdfast.Holdfast, two_memories: tuple[str, str]) -> None:
    other = hold.store(title="Other", content="three")
    hold.link(source_id=other.id, target_id=two_memories[0])
    made = hold.consolidate(ids=list(two_memories), title="Both", summary="one and two")
    assert {(row.id, row.archive_reason) for row in hold.archive_list().archived} == {
        (two_memories[0], "consolidated"),
        (two_memories[1], "consolidated"),
    }
    links = {(link.source_id, link.target_id, link.relation) for link in hold.get(made.id).links}
    assert links == {(made.id, two_memories[0], "derived_from"), (made.id, two_memories[1], "derived_from")}
    restored = hold.archive_restore(two_memories[0])
    assert (restored.content, len(hold.get(two_memories[0]).links)) == ("one", 2)


def test_the_merged_memory_may_reuse_a_title(hold: holdfast.Holdfast, two_memories: tuple[str, str]) -> None:
    made = hold.consolidate(ids=list(two_memories), title="First", summary="one and two")
    assert [(row.id, row.title) for row in hold.list().memories] == [(made.id, "First")]


def test_without_a_summary_the_contents_are_joined(hold: holdfast.Holdfast, two_memories: tuple[str, str]) -> None:
    assert hold.consolidate(ids=list(two_memories), title="Both").memory.content == "First\none\n\nSecond\ntwo"


def test_the_namespace_is_the_given_or_the_common_one(hold: holdfast.Holdfast) -> None:
    made = [hold.store(title="T", content=str(n), namespace=f"place/{n}").id for n in range(4)]
    assert hold.consolidate(ids=made[:2], title="A", summary="s").memory.namespace == "global"
    assert hold.consolidate(ids=made[2:], title="A", summary="s", namespace="told").memory.namespace == "told"


def test_private_sources_give_a_private_memory(hold: holdfast.Holdfast, two_memories: tuple[str, str]) -> None:
    secret = hold.store(title="Secret", content="hush", scope="private")
    made = hold.consolidate(ids=[*two_memories, secret.id], title="All", summary="all of it")
    assert made.memory.scope == "private"
    with pytest.raises(NotFound):
        hold.call("get", {"id": made.id}, caller=Caller(agent="ai:other@here"))


def test_consolidation_is_one_transaction_and_each_change_can_be_undone(
    hold: holdfast.Holdfast, two_memories: tuple[str, str]
) -> None:
    hold.consolidate(ids=list(two_memories), title="Both", summary="one and two")
    changes = hold.events(after=2).events
    assert [(change.op, change.kind) for change in changes] == [
        ("consolidate", "memory"),
        ("consolidate", "memory"),
        ("consolidate", "memory"),
        ("link", "link"),
        ("link", "link"),
    ]
    assert len({change.batch for change in changes}) == 1
    hold.undo(change=changes[0].seq)
    assert hold.get(two_memories[0]).state == "live"
    assert hold.verify().intact


@pytest.mark.parametrize(
    ("ids", "error"),
    [
        (lambda a, b: [a], Invalid),
        (lambda a, b: [a] * 101, Invalid),
        (lambda a, b: [a, b, a], Invalid),
        (lambda a, b: [a, b, a[:20]], Invalid),
        (lambda a, b: [a, b, "no-such-memory"], NotFound),
        (lambda a, b: [], Invalid),
    ],
    ids=["one", "too many", "one twice", "one twice by its beginning", "a missing one", "none"],
)
def test_invalid_ids_are_refused_and_nothing_changes(
    hold: holdfast.Holdfast, two_memories: tuple[str, str], ids: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        hold.consolidate(ids=ids(*two_memories), title="Both", summary="one and two")
    assert hold.stats().changes == 2


def test_a_taken_title_is_refused_and_nothing_changes(hold: holdfast.Holdfast, two_memories: tuple[str, str]) -> None:
    hold.store(title="Both", content="already", namespace="team")
    with pytest.raises(TitleTaken):
        hold.consolidate(ids=list(two_memories), title="Both", summary="one and two")
    assert (hold.stats().changes, hold.stats().archived_total) == (3, 0)


def test_the_caller_must_be_allowed_to_change_every_source(
    hold: holdfast.Holdfast, two_memories: tuple[str, str]
) -> None:
    shown = hold.store(title="Shown", content="read only", scope="private")
    hold.grant(id=shown.id, agent_id="ai:other@here", permission="read")
    asked = {"ids": [two_memories[0], shown.id], "title": "Both", "summary": "one"}
    with pytest.raises(Forbidden):
        hold.call("consolidate", asked, caller=Caller(agent="ai:other@here"))
    with pytest.raises(NotFound):
        hold.call("consolidate", asked, caller=Caller(agent="ai:stranger@here"))
    assert hold.stats().archived_total == 0


def test_a_key_cannot_consolidate_into_a_namespace_out_of_reach(
    hold: holdfast.Holdfast, two_memories: tuple[str, str]
) -> None:
    confined = Caller(agent="ai:tester@here", namespaces=("team",))
    with pytest.raises(Forbidden):
        hold.call(
            "consolidate", {"ids": list(two_memories), "title": "Both", "namespace": "elsewhere"}, caller=confined
        )
    assert (
        hold.call("consolidate", {"ids": list(two_memories), "title": "Both"}, caller=confined).memory.namespace
        == "team"
    )
