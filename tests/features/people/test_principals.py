"""Aliases of a person are merged, resolved by every operation, and split again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.features.people.model import alias_chain, canonical_name
from holdfast.kernel.errors import Conflict, Invalid, NotFound


def test_an_alias_is_merged_into_a_person_and_split_off_again(clocked_store: holdfast.Holdfast) -> None:
    assert clocked_store.principal_show(name="slack:U42").names == ["slack:U42"]
    merged = clocked_store.principal_merge(alias="slack:U42", principal="ann")
    assert (merged.principal, merged.names) == ("ann", ["ann", "slack:U42"])
    clocked_store.principal_merge(alias="mail:ann@example.org", principal="slack:U42")
    assert clocked_store.principal_show(name="mail:ann@example.org").names == [
        "ann",
        "mail:ann@example.org",
        "slack:U42",
    ]
    assert clocked_store.principal_split(alias="slack:U42").names == ["slack:U42"]
    assert clocked_store.principal_show(name="ann").names == ["ann", "mail:ann@example.org"]
    with pytest.raises(NotFound):
        clocked_store.principal_split(alias="slack:U42")


def test_aliases_of_a_merged_person_move_along(clocked_store: holdfast.Holdfast) -> None:
    clocked_store.principal_merge(alias="b1", principal="bob")
    clocked_store.principal_merge(alias="bob", principal="robert")
    assert clocked_store.principal_show(name="b1").principal == "robert"
    clocked_store.principal_split(alias="bob")
    assert clocked_store.principal_show(name="b1").principal == "bob"


def test_alias_cycles_and_second_principals_are_refused(clocked_store: holdfast.Holdfast) -> None:
    clocked_store.principal_merge(alias="a", principal="b")
    for alias, principal in (("b", "a"), ("b", "b")):
        with pytest.raises(Invalid):
            clocked_store.principal_merge(alias=alias, principal=principal)
    with pytest.raises(Conflict, match="already an alias of 'b'"):
        clocked_store.principal_merge(alias="a", principal="c")
    assert clocked_store.principal_merge(alias="a", principal="b").principal == "b"


@given(st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("abcdef")))
def test_every_name_of_an_alias_cycle_created_by_sync_means_one_person(stands_for: dict[str, str]) -> None:
    """Two separate stores may each merge one name into the other."""
    whose = {name: canonical_name(alias_chain(name, stands_for)) for name in "abcdef"}
    for name, other in stands_for.items():
        assert whose[name] == whose[other]
    assert all(whose[one] == one for one in whose.values())


def test_every_operation_resolves_all_names_of_a_person(clocked_store: holdfast.Holdfast) -> None:
    clocked_store.principal_merge(alias="slack:U42", principal="ann")
    task = clocked_store.task_add(title="Pay the rent", due_at="2020-01-01", principal="slack:U42").task
    assert [one.id for one in clocked_store.task_list(principal=["ann"]).tasks] == [task.id]
    assert clocked_store.task_add(title="Pay the rent", due_at="2020-01-01", principal="ann").created is False
    clocked_store.usage_record(model="m", input_tokens=3, principal="slack:U42")
    assert clocked_store.usage_report(principal=["ann"]).usage[0].input_tokens == 3
    clocked_store.budget_set(principal="ann", tokens=10)
    assert clocked_store.budget_list().budgets[0].tokens_left == 7
    clocked_store.session_keep(session_id="s", provider="p", principal="slack:U42")
    assert clocked_store.session_get(principal="ann").session.session_id == "s"
    clocked_store.run_open(topology="t", phases=["one"], id="r", principal="slack:U42")
    assert clocked_store.run_list(principal=["ann"]).count == 1
    clocked_store.principal_split(alias="slack:U42")
    assert clocked_store.task_list(principal=["ann"]).count == 0
    assert clocked_store.usage_report(principal=["ann"]).usage == []


def test_a_person_has_a_display_name(clocked_store: holdfast.Holdfast) -> None:
    clocked_store.principal_merge(alias="slack:U42", principal="ann")
    assert clocked_store.principal_describe(name="slack:U42", display="Ann").display == "Ann"
    assert clocked_store.principal_show(name="ann").display == "Ann"
    assert {(one.name, one.stands_for) for one in clocked_store.principal_list().names} == {
        ("ann", None),
        ("slack:U42", "ann"),
    }


def test_aliases_are_exported_and_synced(clocked_store: holdfast.Holdfast, tmp_path: Path) -> None:
    clocked_store.principal_merge(alias="slack:U42", principal="ann")
    with holdfast.open(str(tmp_path / "imported.db")) as other:
        other.call("import", {"envelope": clocked_store.export()})
        assert other.principal_show(name="slack:U42").principal == "ann"
    holdfast.open(str(tmp_path / "synced.db")).close()
    clocked_store.sync(remote=str(tmp_path / "synced.db"))
    with holdfast.open(str(tmp_path / "synced.db")) as other:
        assert other.principal_show(name="slack:U42").principal == "ann"


@pytest.mark.parametrize("split", ["a", "b", "c"])
def test_one_split_removes_a_name_from_an_alias_cycle_created_by_sync(
    clocked_store: holdfast.Holdfast, tmp_path: Path, split: str
) -> None:
    clocked_store.principal_merge(alias="a", principal="b")
    with holdfast.open(str(tmp_path / "other.db"), now=clocked_store.ctx.now) as other:
        other.principal_merge(alias="b", principal="c")
        other.principal_merge(alias="c", principal="a")
    clocked_store.sync(remote=str(tmp_path / "other.db"))
    assert sorted(clocked_store.principal_show(name=split).names) == ["a", "b", "c"]
    assert clocked_store.principal_split(alias=split).names == [split]
    others = sorted({"a", "b", "c"} - {split})
    assert [sorted(clocked_store.principal_show(name=name).names) for name in others] == [others, others]


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 129, "a\x00b"])
def test_a_name_is_a_single_line_of_text(clocked_store: holdfast.Holdfast, name: Any) -> None:
    with pytest.raises(Invalid):
        clocked_store.principal_merge(alias=name, principal="ann")


def test_records_of_a_person_are_counted_under_all_their_names(
    clocked_store: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    def counts(ctx: Any, name: str) -> tuple[int, ...]:
        found = ctx.principal_stats(name=name)
        return found.conversations, found.messages, found.observations, found.facts

    me = clocked_store.ctx.caller.agent
    clocked_store.observation_save(type="bugfix", title="Two receipts")
    clocked_store.observation_save(type="decision", title="One printer")
    clocked_store.fact_set(key="name", value="Ann", principal=me)
    assert counts(clocked_store, me) == (0, 0, 2, 1)
    clocked_store.conversation_say(
        turns=[{"role": "user", "content": text} for text in ("Hello.", "Bye.")], principal="ann"
    )
    clocked_store.principal_merge(alias="slack:U42", principal="ann")
    gone = clocked_store.observation_save(type="config", title="Not this")
    clocked_store.delete(id=gone.id)
    clocked_store.fact_delete(key="name", principal=me)
    assert (counts(clocked_store, me), counts(clocked_store, "slack:U42")) == ((0, 0, 2, 0), (1, 2, 0, 0))
    assert counts(seen_by("ai:else@here", right="write"), "ann")[:2] == (0, 0)
