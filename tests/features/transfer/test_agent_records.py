"""Local tables in exports and imports: nothing lost or duplicated, no leases."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest
from envelopes import Clock, import_envelope, text_of

import holdfast
from holdfast.features.transfer.local_table_rows import list_formats
from holdfast.features.transfer.schema_v1 import ARRAYS
from holdfast.kernel.context import Caller
from holdfast.kernel.timestamps import DAY
from holdfast.surfaces import error_responses

LOCAL_TABLES = list_formats()
TURNS = [{"role": "user", "content": "When do we deploy?"}, {"role": "assistant", "content": "On Tuesdays."}]


@pytest.fixture
def busy(db: str, clock: Clock) -> Iterator[holdfast.Holdfast]:
    """A store with records of every local table."""
    with holdfast.open(db, agent_id="ai:tester@here", now=clock) as hold:
        _talk(hold)
        _plan(hold, clock)
        _spend(hold)
        _work(hold)
        yield hold


def _talk(hold: holdfast.Holdfast) -> None:
    hold.principal_merge(alias="slack:U1", principal="ann")
    said = hold.conversation_say(turns=TURNS, principal="ann", channel="cli", namespace="team/a")
    hold.conversation_close(id=said.conversation_id, summary="They deploy on Tuesdays.")
    hold.conversation_say(turns=TURNS, principal="slack:U1", channel="slack")
    learned = hold.lesson_add(rule="Run the migration on a copy first.", domain="databases", namespace="team/a")
    hold.outcome_record(
        what="It failed.", domain="databases", score=-1, lesson_id=learned.lesson.id, namespace="team/a"
    )
    hold.outcome_record(what="Smaller steps went well.", domain="planning", score=1, principal="ann")
    hold.onboarding_tell(principal="ann", step="introduce")
    hold.interaction_record(status="denied", principal="ann", action="shell", reason="Not allowed.", input="rm -rf /")
    hold.conversation_say(turns=TURNS, principal="bob", channel="cli")
    hold.principal_purge(name="bob")


def _plan(hold: holdfast.Holdfast, clock: Clock) -> None:
    due = {"due_at": "2026-01-31T09:00", "zone": "Europe/Berlin"}
    hold.task_add(title="Pay the rent", repeat="monthly", payload={"b": [1, None], "a": "ü"}, **due)
    hold.task_add(title="Ask Ann", due_at="2026-02-01", namespace="team/a", principal="ann", unique_key="k")
    hold.task_add(title="Back up", handler="job", target="backup", **due)
    (claimed,) = hold.task_claim(limit=1, seconds=3600).claimed
    hold.task_finish(id=claimed.task.id, token=claimed.token, result="Paid.", tokens_used=12)
    (failed, *_) = hold.task_claim(limit=1, seconds=3600).claimed
    hold.task_finish(id=failed.task.id, token=failed.token, error="Nobody there.")
    clock.at += DAY
    assert hold.task_claim(limit=5, seconds=3600).claimed


def _spend(hold: holdfast.Holdfast) -> None:
    hold.price_set(model="sonnet-*", input="3", output="15", cache_read="0.30")
    hold.budget_set(principal="ann", cost="2.5", period="month")
    hold.budget_set(principal="*", model="sonnet-4", tokens=10**12)
    hold.usage_record(model="sonnet-4", input_tokens=999_999_999, cache_read_tokens=1, principal="ann", unique_key="u")
    hold.usage_record(model="unknown", output_tokens=5, session="s", at="2026-01-01T10:00:00Z")
    hold.usage_reserve(model="sonnet-4", output_tokens=10)


def _work(hold: holdfast.Holdfast) -> None:
    opened = hold.run_open(topology="release", phases=["build", "test"], id="r-1", inputs={"tag": "v2"}, seconds=3600)
    hold.run_step(id="r-1", token=opened.token, phase="build", state="in_progress")
    hold.run_step(id="r-1", token=opened.token, phase="build", state="completed", output="wheel")
    hold.session_keep(session_id="abc", provider="one", channel="cli", principal="ann", namespace="team/a")
    found = hold.recall(context="migration copy")
    hold.feedback(recall_id=found.recall_id, verdict="used", ids=[found.memories[0].id])
    hold.capture_turn(host_session_id="c", host_turn_index=0, role="user", content="Remember the milk.")


@pytest.fixture
def fresh(engine: str, tmp_path: Path, clock: Clock, request: pytest.FixtureRequest) -> Iterator[holdfast.Holdfast]:
    """An empty store on the other engine."""
    file = str(tmp_path / "fresh.db")
    place = nullcontext(file) if engine == "postgres" else request.getfixturevalue("postgres").empty_store()
    with place as address, holdfast.open(address, agent_id="ai:other@there", now=clock) as hold:
        yield hold


def test_every_array_of_agent_records_survives_a_round_trip_through_the_other_engine(
    busy: holdfast.Holdfast, fresh: holdfast.Holdfast
) -> None:
    exported = busy.export()
    assert {name: len(exported[name]) for name in LOCAL_TABLES} == {
        "conversations": 2,
        "outcomes": 2,
        "tasks": 3,
        "task_runs": 2,
        "usage": 2,
        "prices": 1,
        "budgets": 2,
        "runs": 1,
        "provider_sessions": 1,
        "onboarding": 1,
        "forgotten": 1,
        "mined": 1,
        "feedback": 1,
    }
    sent = error_responses.encode(exported)
    answer = import_envelope(fresh, msgspec.json.decode(sent))
    assert (answer.errors, answer.kept) == ([], [])
    assert text_of(fresh.export()) == text_of(exported)
    again = import_envelope(fresh, msgspec.json.decode(sent))
    assert all((one.imported, one.merged, one.older) == (0, 0, 0) for one in again.arrays.values())
    assert text_of(fresh.export()) == text_of(exported)


def test_leased_tasks_and_runs_are_free_after_an_import(busy: holdfast.Holdfast, fresh: holdfast.Holdfast) -> None:
    import_envelope(fresh, busy.export())
    (claimed,) = fresh.task_claim(limit=5).claimed
    assert (claimed.task.title, claimed.task.attempts, claimed.token) == ("Ask Ann", 3, 3)
    assert fresh.run_open(topology="release", phases=["build", "test"], id="r-1", inputs={"tag": "v2"}).next == "test"
    assert [one.principal for one in fresh.budget_list().budgets] == ["*", "ann"]
    assert [(one.calls, one.cost) for one in fresh.usage_report().usage] == [(1, "2999.9999973")]
    summary = fresh.conversation_list(principal=["slack:U1"], state="closed").conversations[0].summary
    assert summary == "They deploy on Tuesdays."


def test_an_import_never_takes_a_leased_task(busy: holdfast.Holdfast, clock: Clock) -> None:
    exported = busy.export()
    assert import_envelope(busy, exported).arrays["tasks"].unchanged == 3
    (row,) = [row for row in exported["tasks"] if row["title"] == "Ask Ann"]
    later = {**row, "title": "Ask Bob", "updated_at": "2027-01-01T00:00:00Z"}
    answer = import_envelope(busy, {"memories": [], "tasks": [later]})
    assert [(one.array, one.index, one.code) for one in answer.errors] == [("tasks", 0, "CONFLICT")]
    assert busy.task_finish(id=row["id"], token=2).task.state == "done"
    assert import_envelope(busy, {"memories": [], "tasks": [later, row]}).arrays["tasks"].older == 1


def test_a_key_limited_to_a_namespace_exports_and_imports_only_its_records(
    busy: holdfast.Holdfast, fresh: holdfast.Holdfast
) -> None:
    confined = Caller(agent="ai:admin@here", namespaces=("team",))
    exported = busy.call("export", {}, caller=confined)
    held = {name: len(exported[name]) for name in LOCAL_TABLES if exported[name]}
    assert held == {
        "conversations": 1,
        "outcomes": 1,
        "tasks": 1,
        "task_runs": 1,
        "provider_sessions": 1,
        "feedback": 1,
    }
    assert {name: len(rows) for name, rows in busy.export(namespace="team").items() if name in held} == held
    whole = {name: rows for name, rows in busy.export().items() if name in {*LOCAL_TABLES, "principals"}}
    answer = fresh.call("import", {"envelope": {**exported, **whole}}, caller=confined)
    assert {name: answer.arrays[name].imported for name in LOCAL_TABLES if answer.arrays[name].imported} == held
    assert {(one.array, one.code) for one in answer.errors} == {
        *((name, "FORBIDDEN") for name in whole.keys() - {"task_runs", "provider_sessions", "feedback"}),
        ("task_runs", "NOT_FOUND"),
    }


def test_untrusted_records_belong_to_the_importer_and_run_nothing(
    busy: holdfast.Holdfast, fresh: holdfast.Holdfast
) -> None:
    exported = busy.export()
    answer = import_envelope(fresh, exported, trust_source=False)
    refused = {(one.array, one.code) for one in answer.errors if one.array in LOCAL_TABLES}
    assert refused == {("tasks", "FORBIDDEN")}
    names = {
        row.get("agent_id") or row["set_by"] for name in ("tasks", "usage", "prices") for row in fresh.export()[name]
    }
    assert names == {"ai:other@there"}
    assert fresh.task_list().count == 2
    again = import_envelope(fresh, exported, trust_source=False)
    assert sum(again.arrays[name].imported + again.arrays[name].merged for name in LOCAL_TABLES) == 0


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("conversations", {"covered": 9}, "VALIDATION_FAILED"),
    ("conversations", {"state": "open"}, "VALIDATION_FAILED"),
    ("conversations", {"namespace": "a//b"}, "VALIDATION_FAILED"),
    ("outcomes", {"score": 2}, "VALIDATION_FAILED"),
    ("tasks", {"repeat": "0 0 31 2 *"}, "VALIDATION_FAILED"),
    ("tasks", {"zone": "Mars/Base"}, "VALIDATION_FAILED"),
    ("tasks", {"due_at": "tomorrow"}, "VALIDATION_FAILED"),
    ("tasks", {"agent_id": "no agent"}, "VALIDATION_FAILED"),
    ("tasks", {"id": "another", "unique_key": "k", "principal": "ann"}, "CONFLICT"),
    ("tasks", {"handler": "none", "target": "another"}, "CONFLICT"),
    ("task_runs", {"task": "no-such-task"}, "NOT_FOUND"),
    ("task_runs", {"id": "another", "final": True}, "CONFLICT"),
    ("usage", {"cost": "much"}, "VALIDATION_FAILED"),
    ("usage", {"cost": "1e30"}, "VALIDATION_FAILED"),
    ("usage", {"id": "another", "agent_id": "ai:tester@here", "unique_key": "u"}, "CONFLICT"),
    ("usage", {"input_tokens": 1}, "CONFLICT"),
    ("prices", {"input": "-1"}, "VALIDATION_FAILED"),
    ("budgets", {"tokens": None, "cost": None}, "VALIDATION_FAILED"),
    ("runs", {"phases": []}, "VALIDATION_FAILED"),
    ("runs", {"topology_hash": "0" * 64}, "CONFLICT"),
    ("provider_sessions", {"session": ""}, "VALIDATION_FAILED"),
    ("onboarding", {"step": "dance"}, "VALIDATION_FAILED"),
    ("forgotten", {"counts": {"memories": -1}}, "VALIDATION_FAILED"),
    ("mined", {"route": "stolen"}, "VALIDATION_FAILED"),
    ("feedback", {"verdict": "fine"}, "VALIDATION_FAILED"),
    ("feedback", {"memory": "no-such-memory"}, "NOT_FOUND"),
]


_STORE_ONLY = {"tasks": {"unique_key"}, "task_runs": {"result"}, "usage": {"unique_key"}}
"""Columns that must be unique, removed before rows are modified."""


def test_an_invalid_row_is_named_by_its_position_and_changes_nothing(busy: holdfast.Holdfast) -> None:
    exported = busy.export()
    given: dict[str, list[Any]] = {}
    for name, change, _ in BAD:
        good = next(row for row in exported[name] if _STORE_ONLY.get(name, set()) <= row.keys())
        given.setdefault(name, [good]).append({**good, **change})
    answer = import_envelope(busy, {"memories": [], **given})
    wanted = sorted(
        (name, place, code)
        for name in given
        for place, code in enumerate((code for array, _, code in BAD if array == name), 1)
    )
    assert sorted((one.array, one.index, one.code) for one in answer.errors) == wanted
    assert text_of(busy.export()) == text_of(exported)


def test_the_later_of_two_states_of_a_record_stays(busy: holdfast.Holdfast, fresh: holdfast.Holdfast) -> None:
    before = busy.export()
    import_envelope(fresh, before)
    busy.price_set(model="sonnet-*", input="4", output="16")
    busy.session_keep(session_id="def", provider="one", channel="cli", principal="ann", namespace="team/a")
    busy.conversation_say(turns=TURNS, principal="slack:U1", channel="slack")
    after = busy.export()
    merged = {name: counts.merged for name, counts in import_envelope(fresh, after).arrays.items() if counts.merged}
    assert merged == {"conversations": 1, "prices": 1, "provider_sessions": 1}
    assert text_of(fresh.export()) == text_of(after)
    older = {name: counts.older for name, counts in import_envelope(fresh, before).arrays.items() if counts.older}
    assert (older, text_of(fresh.export())) == (merged, text_of(after))


def test_fields_of_a_later_release_are_preserved_or_refused_by_name(
    busy: holdfast.Holdfast, fresh: holdfast.Holdfast
) -> None:
    exported = busy.export()
    exported["tasks"][0]["colour"] = {"a": "red", "b": 1}
    exported["prices"][0]["tier"] = "batch"
    exported["boards"] = [{"id": "b-1"}]
    assert import_envelope(fresh, exported).kept == ["boards"]
    assert {**fresh.export(), "exported_at": ""} == {**exported, "exported_at": ""}
    exported["runs"][0]["phases"][0]["colour"] = "red"
    (refused,) = import_envelope(fresh, exported).errors
    assert (refused.array, refused.index, "colour" in refused.error) == ("runs", 0, True)


def test_rows_preserved_unread_by_an_earlier_release_are_exported(fresh: holdfast.Holdfast) -> None:
    said = {"id": "o-1", "at": "2026-01-01T00:00:00.000000Z", "score": 1}
    with fresh.ctx.store.transaction() as session:
        session.do("meta_put", name="/outcomes", body=msgspec.json.encode([said]).decode())
    assert fresh.export()["outcomes"] == [said]


def test_every_exported_array_can_be_imported(fresh: holdfast.Holdfast) -> None:
    assert {name for name, value in fresh.export().items() if isinstance(value, list)} == {*ARRAYS}
    assert tuple(LOCAL_TABLES) == ARRAYS[-len(LOCAL_TABLES) :]
