"""Interactions are journalled with text as the policy allows, and visible only to permitted callers."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import Conflict, Forbidden, Invalid, NotFound
from holdfast.settings import load

EVERY: dict[str, Any] = {
    "status": "denied",
    "principal": "ann",
    "name": "Ann",
    "channel": "slack",
    "action": "shell",
    "reason": "It is on no list. Приве́т 🎉",
    "input": "rm -rf /\nplease",
    "output": "No.",
    "provider": "home",
    "model": "model-one",
    "took_ms": 420,
    "conversation_id": "c-1",
    "at": "2026-01-01T00:00:00.000000Z",
    "namespace": "team",
}


def test_every_field_is_returned_where_text_may_be_stored(clocked_store: holdfast.Holdfast) -> None:
    clocked_store.policy_set(namespace="team", interaction_text="keep")
    kept = clocked_store.interaction_record(**EVERY)
    assert kept.to_dict().items() >= EVERY.items()
    assert (kept.texts, kept.recorded, kept.agent_id) == ("keep", True, "ai:tester@here")
    assert clocked_store.interaction_show(kept.id).input == EVERY["input"]
    (change,) = [one for one in clocked_store.events(limit=100).events if one.kind == "interaction"]
    assert (change.op, change.memory["status"]) == ("interaction", "denied")
    assert clocked_store.verify().intact


@pytest.mark.parametrize("texts", ["hash", "omit"])
def test_text_that_must_not_be_stored_reaches_no_table(clocked_store: holdfast.Holdfast, texts: str) -> None:
    if texts != "hash":
        clocked_store.policy_set(namespace="team", interaction_text=texts)
    kept = clocked_store.interaction_record(**EVERY)
    assert (kept.texts, kept.input, kept.output) == (texts, None, None)
    said = sha256(f"{kept.id}\0{EVERY['input']}".encode()).hexdigest()
    assert kept.input_digest == (said if texts == "hash" else None)
    with clocked_store.ctx.store.reading() as session:
        rows = [
            str(row) for name in ("interaction", "journal") for row in session.query_sql(f"select * from {name}", {})
        ]
    assert not any("rm -rf" in row for row in rows)


def test_a_secret_in_interaction_text_is_subject_to_the_policy(clocked_store: holdfast.Holdfast) -> None:
    clocked_store.policy_set(namespace="team", interaction_text="keep", secrets="redact")
    kept = clocked_store.interaction_record(status="ok", input="the key is AKIAIOSFODNN7EXAMPLE", namespace="team")
    assert "AKIA" not in kept.input


def test_interactions_are_listed_newest_first_and_counted_by_decision(
    clocked_store: holdfast.Holdfast, clock: Any
) -> None:
    for status, who in (("ok", "ann"), ("ok", "slack:U1"), ("denied", "bob"), ("error", "ann")):
        clocked_store.interaction_record(status=status, principal=who, channel="cli", reason=f"{status} {who}")
        clock.move(hours=1)
    found = clocked_store.interaction_list()
    assert [one.reason for one in found.interactions] == ["error ann", "denied bob", "ok slack:U1", "ok ann"]
    assert found.totals == {"denied": 1, "error": 1, "ok": 2}
    clocked_store.principal_merge(alias="slack:U1", principal="ann")
    assert clocked_store.interaction_list(principal=["slack:U1"]).totals == {"error": 1, "ok": 2}
    assert clocked_store.interaction_list(status=["denied"], channel="cli").count == 1
    early = clocked_store.interaction_list(until=clock.after(hours=-2), limit=1, offset=1)
    assert [one.reason for one in early.interactions] == ["ok ann"]


def test_an_interaction_repeated_under_its_key_is_recorded_once(clocked_store: holdfast.Holdfast) -> None:
    first, again = (clocked_store.interaction_record(status="ok", action="chat", unique_key="k") for _ in range(2))
    assert (first.id, again.recorded) == (again.id, False)
    with pytest.raises(Conflict):
        clocked_store.interaction_record(status="denied", action="chat", unique_key="k")


def test_an_interaction_cannot_be_undone_or_read_by_others(
    clocked_store: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    kept = clocked_store.interaction_record(**EVERY)
    (change,) = [one for one in clocked_store.events(limit=100).events if one.kind == "interaction"]
    with pytest.raises(Conflict, match="cannot be undone"):
        clocked_store.undo(change.seq)
    for snoop in (seen_by("ai:snoop@here", right="write"), seen_by("ai:snoop@here", namespaces=("open",))):
        with pytest.raises(NotFound):
            snoop.interaction_show(id=kept.id)
        assert snoop.interaction_list().totals == {}
        assert not [one for one in snoop.events(limit=100).events if one.kind == "interaction"]
    with pytest.raises(Forbidden):
        seen_by("ai:snoop@here", right="write").interaction_erase(older_than_days=0)


def test_old_text_is_erased_but_the_decision_remains(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    clocked_store.policy_set(namespace="team", interaction_text="keep")
    old = clocked_store.interaction_record(**EVERY)
    clock.move(days=40)
    new = clocked_store.interaction_record(**{**EVERY, "at": clock.after()})
    assert clocked_store.interaction_erase(older_than_days=30).erased == 1
    left = clocked_store.interaction_show(old.id)
    assert (left.status, left.at, left.erased, left.principal, left.input) == ("denied", old.at, True, None, None)
    assert clocked_store.interaction_show(new.id).input == EVERY["input"]
    assert clocked_store.verify().intact


def test_interactions_are_synced_and_included_in_trusted_exports(
    clocked_store: holdfast.Holdfast, tmp_path: Path
) -> None:
    clocked_store.policy_set(namespace="team", interaction_text="keep")
    kept = clocked_store.interaction_record(**EVERY)
    told = clocked_store.export()
    with holdfast.open(str(tmp_path / "other.db"), agent_id="ai:tester@here") as other:
        clocked_store.sync(str(tmp_path / "other.db"))
        assert other.interaction_show(kept.id).input == EVERY["input"]
        clocked_store.call("principal_purge", {"name": "ann"})
        clocked_store.sync(str(tmp_path / "other.db"))
        assert other.interaction_show(kept.id).erased
        assert other.verify().intact
    with holdfast.open(str(tmp_path / "third.db"), agent_id="ai:tester@here") as third:
        assert third.call("import", {"envelope": told, "trust_source": False}).rejected > 0
        third.call("import", {"envelope": told, "trust_source": True})
        assert third.interaction_show(kept.id).reason == EVERY["reason"]
        assert third.export()["interactions"] == told["interactions"]
        assert third.call("import", {"envelope": told, "trust_source": True}).rejected == 0


def test_a_denied_call_is_recorded_if_configured(tmp_path: Path) -> None:
    settings = load({"db": str(tmp_path / "memory.db"), "agent_id": "ai:tester@here", "access_log": "denied"})
    with holdfast.open(settings=settings) as hold:
        reader = Caller("ai:reader@here", right="read", namespaces=("open",), has_fixed_agent=True, source="http")
        with pytest.raises(Forbidden):
            hold.call("store", {"title": "x", "content": "secret words"}, caller=reader)
        with pytest.raises(Invalid):
            hold.call("store", {"title": "", "content": "x"})
        hold.store(title="x", content="y")
        (one,) = hold.interaction_list().interactions
        assert (one.status, one.principal, one.action, one.reason) == ("denied", "ai:reader@here", "store", "FORBIDDEN")
        assert (one.channel, one.input) == ("http", None)


def test_every_call_is_recorded_if_configured(tmp_path: Path) -> None:
    settings = load({"db": str(tmp_path / "memory.db"), "access_log": "all"})
    with holdfast.open(settings=settings) as hold:
        hold.store(title="x", content="y")
        with pytest.raises(NotFound):
            hold.get("no-such-memory")
        assert [(one.action, one.status) for one in hold.interaction_list().interactions] == [
            ("get", "error"),
            ("store", "ok"),
        ]


@pytest.mark.parametrize(
    "bad",
    [
        {"status": "maybe"},
        {"status": "ok", "principal": ""},
        {"status": "ok", "channel": "two\nlines"},
        {"status": "ok", "input": "x" * 10_000_000},
        {"status": "ok", "at": "yesterday"},
        {"status": "ok", "took_ms": -1},
        {"status": "ok", "namespace": "people/ann"},
    ],
    ids=["status", "nobody", "lines", "ten megabytes", "when", "time", "a person's place"],
)
def test_an_invalid_interaction_is_refused(clocked_store: holdfast.Holdfast, bad: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        clocked_store.interaction_record(**bad)
    assert clocked_store.interaction_list().count == 0
