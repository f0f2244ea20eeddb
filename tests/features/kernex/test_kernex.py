"""Kernex imports: every table, nothing twice, problems reported by row."""

import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from kernex_file import add, kernex_file

import holdfast
from engines import ENGINES_BY_RING
from holdfast.kernel.errors import Invalid, NotFound


@pytest.fixture(params=ENGINES_BY_RING)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return kernex_file(tmp_path / "theirs.db")


def counts(done: Any, *names: str) -> dict[str, Any]:
    names = names or ("stored",)
    return {one.table: tuple(getattr(one, name) for name in names) for one in done.tables}


def test_every_table_is_imported_once_and_the_file_is_only_read(hold: holdfast.Holdfast, path: Path) -> None:
    before = sha256(path.read_bytes()).hexdigest()
    tried = hold.import_kernex(path=str(path), dry_run=True)
    assert (hold.list().count, hold.task_list().count, hold.run_list().count) == (0, 0, 0)
    done = hold.import_kernex(path=str(path))
    assert tried.tables == done.tables
    assert counts(done, "rows", "stored", "left_out") == {
        "user_aliases": (1, 1, 0),
        "conversations": (2, 2, 0),
        "messages": (4, 4, 0),
        "facts": (3, 2, 1),
        "observations": (2, 2, 0),
        "outcomes": (1, 1, 0),
        "lessons": (1, 1, 0),
        "limitations": (1, 1, 0),
        "scheduled_tasks": (3, 3, 0),
        "task_runs": (3, 3, 0),
        "project_sessions": (1, 1, 0),
        "token_usage": (2, 2, 0),
        "phase_checkpoints": (2, 2, 0),
        "audit_log": (1, 1, 0),
    }
    assert (done.rejected, [problem.where for problem in done.problems]) == (0, ["scheduled_tasks row 3"])
    again = hold.import_kernex(path=str(path))
    assert (again.stored, again.rejected) == (0, 0)
    assert counts(again, "unchanged")["messages"] == (4,)
    assert sha256(path.read_bytes()).hexdigest() == before
    assert hold.verify().intact


def test_imported_data_matches_the_original(hold: holdfast.Holdfast, path: Path) -> None:
    hold.policy_set(namespace="kernex", interaction_text="keep")
    hold.import_kernex(path=str(path))
    whole = hold.conversation_show(id="c-1")
    assert [(turn.place, turn.role, turn.content) for turn in whole.turns] == [
        (1, "user", "The till is broken."),
        (2, "assistant", "Update the driver."),
    ]
    assert (whole.conversation.state, whole.conversation.summary) == ("closed", "The till was repaired.")
    assert (whole.conversation.namespace, whole.turns[0].at) == ("kernex/shop", datetime(2026, 3, 1, 10, tzinfo=UTC))
    other = hold.conversation_show(id="c-2")
    assert (other.conversation.state, [turn.place for turn in other.turns]) == ("closing", [1, 2, 3])
    assert "".join(turn.content for turn in other.turns[:2]) == "Long: " + "word " * 20_000
    assert hold.recall("what about the driver?").memories[0].content == "Update the driver."
    assert [(fact.key, fact.value) for fact in hold.fact_list(principal="U42").facts] == [("city", "Hamburg")]
    assert hold.fact_restore(key="pet", principal="ann").value == "cat"
    assert [(one.title, one.what, one.where) for one in hold.observation_search().observations] == [
        ("Receipts twice", "Two receipts", "till.py")
    ]
    assert hold.limitation_list().limitations[0].title == "No voice"
    assert [(one.score, one.what) for one in hold.outcome_list(principal=["ann"]).outcomes] == [(-1, "Too long")]
    assert [(one.rule, one.confidence) for one in hold.lesson_list().lessons] == [("Be brief", 0.8)]
    tasks = {one.id: (one.state, getattr(one, "repeat", None)) for one in hold.task_list(state=[], limit=10).tasks}
    assert tasks["task-0001"] == ("pending", "daily")
    assert tasks["task-0003"] == ("pending", "daily")
    ran = hold.task_runs(id="task-0002").runs
    assert sorted(run.status for run in ran) == ["completed", "completed", "failed"]
    assert hold.task_show(id="task-0002").state == "done"
    assert hold.session_get(channel="cli", principal="ann", namespace="kernex/shop").session.session_id == "sess-9"
    run = hold.run_show(id="run-1")
    assert [(phase.name, phase.state) for phase in run.phases] == [("plan", "completed"), ("code", "in_progress")]
    used = hold.usage_report(since="2026-01-01", until="2026-12-31").usage
    assert sorted((one.calls, one.input_tokens, one.output_tokens, one.cost) for one in used) == [
        (1, 40, 20, "0"),
        (1, 100, 0, "0.25"),
    ]
    (decided,) = hold.interaction_list(namespace="kernex").interactions
    assert (decided.status, decided.principal, decided.input, decided.output) == ("ok", "ann", "hi", "hello")
    assert decided.at == datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert hold.run_open(id="run-1", topology="build", phases=["plan", "code"], owner="me").resumed


def test_decisions_are_imported_as_the_policy_allows_and_losses_are_reported(
    hold: holdfast.Holdfast, path: Path
) -> None:
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(
            "insert into audit_log values ('a-2', '2026-03-02 10:00:00', 'cli', 'ann', 'Ann', ?, null, 'p', 'm', 7,"
            " 'denied', 'not hers')",
            ["word " * 20_000],
        )
    done = hold.import_kernex(path=str(path))
    (audit,) = (one for one in done.tables if one.table == "audit_log")
    assert (audit.stored, list(audit.reasons.values())) == (2, [2])
    assert ("audit_log row 2", "input_text: too long, only its first part is stored") in [
        (one.where, one.what) for one in done.problems
    ]
    found = {one.status: one for one in hold.interaction_list(namespace="kernex").interactions}
    assert (found["denied"].reason, found["denied"].took_ms, found["denied"].model) == ("not hers", 7, "m")
    assert (getattr(found["ok"], "input", None) or None, found["ok"].texts) == (None, "hash")
    assert hold.import_kernex(path=str(path)).stored == 0
    assert hold.verify().intact


def test_one_invalid_row_is_reported_by_position_and_stops_no_other(hold: holdfast.Holdfast, path: Path) -> None:
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("pragma ignore_check_constraints = on")
        for statement in (
            "insert into messages values ('m-5', 'c-1', 'robot', 'x', '2026-03-02 10:00:00', null)",
            "insert into messages values ('m-6', 'nowhere', 'user', 'x', '2026-03-02 10:00:00', null)",
            "insert into messages values ('m-7', 'c-1', 'user', cast(x'fffe' as text), '2026-03-02 10:00:00', null)",
            "insert into messages values ('m-8', 'c-1', 'user', '', 'soon', null)",
            "insert into facts values ('f-9', 'ann', '', 'x', null, 'x', 'x', null)",
            "insert into facts values ('f-8', 'ann', 'x', ' ', null, 'x', 'x', null)",
            "insert into outcomes values ('r-9', '2026-03-02 10:00:00', 'ann', 'mail', 2, 'x', 's', '')",
            "insert into observations (id, sender_id, type, title) values ('o-9', 'ann', 'rumour', 'x')",
            "insert into scheduled_tasks (id, channel, sender_id, reply_target, description, due_at)"
            " values ('task-0009', 'cli', 'ann', 'ann', 'x', 'tomorrow at nine')",
            "insert into task_runs values ('q-9', 'task-0009', '2026', '2026', 'completed', null, null, null)",
            "insert into token_usage (sender_id, session_id, model, tokens) values ('ann', 's', 'm', -5)",
            "insert into user_aliases values ('ann', 'U42')",
            "insert into phase_checkpoints (id, run_id, topology_name, phase_name, sender_id, status)"
            " values ('p-9', 'run-2', 't', 'x', 'ann', 'lost')",
            "create table extras (x)",
            "insert into extras values (1)",
        ):
            file.execute(statement)
    done = hold.import_kernex(path=str(path))
    assert [problem.where for problem in done.problems if problem.rejected] == [
        "user_aliases row 2",
        "messages row 7",
        "messages row 5",
        "messages row 6",
        "messages row 8",
        "facts row 4",
        "facts row 5",
        "observations row 3",
        "outcomes row 2",
        "scheduled_tasks row 4",
        "task_runs row 4",
        "token_usage row 3",
        "phase_checkpoints row 3",
    ]
    facts = [problem.what for problem in done.problems if problem.where.startswith("facts row ")]
    assert facts == ["key: must not be empty", "value: must not be empty"]
    assert done.rejected == 13
    assert done.stored == 26
    assert counts(done, "left_out")["extras"] == (1,)


def test_newer_rows_are_added_and_local_changes_are_kept(hold: holdfast.Holdfast, path: Path) -> None:
    hold.fact_set(key="city", value="Bremen", principal="ann")
    done = hold.import_kernex(path=str(path))
    assert counts(done, "left")["facts"] == (1,)
    assert hold.fact_get(key="city", principal="ann").value == "Bremen"
    hold.fact_delete(key="city", principal="ann")
    said = {"conversation_id": "c-1", "role": "user", "content": "Thanks.", "timestamp": "2026-03-02 08:00:00"}
    add(path, "messages", {"id": "m-9", **said})
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("update conversations set updated_at = '2026-03-02 08:00:00' where id = 'c-1'")
        file.execute("update lessons set occurrences = 4")
    again = hold.import_kernex(path=str(path))
    assert (again.stored, counts(again, "left")["lessons"]) == (1, (1,))
    assert [turn.content for turn in hold.conversation_show(id="c-1").turns][2:] == ["Thanks."]
    assert hold.conversation_show(id="c-1").conversation.turns == 3


def test_only_kernex_files_are_accepted_including_older_ones(
    hold: holdfast.Holdfast, path: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.db"
    other.write_bytes(b"no database at all")
    with pytest.raises(Invalid):
        hold.import_kernex(path=str(other))
    with closing(sqlite3.connect(tmp_path / "empty.db")) as file:
        file.execute("create table memories (id)")
    with pytest.raises(Invalid, match="is not a kernex store"):
        hold.import_kernex(path=str(tmp_path / "empty.db"))
    with pytest.raises(NotFound):
        hold.import_kernex(path=str(tmp_path / "none.db"))
    old = shutil.copy(path, tmp_path / "old.db")
    with closing(sqlite3.connect(old)) as file, file:
        for table in ("observations", "task_runs", "lessons", "phase_checkpoints", "token_usage"):
            file.execute(f"drop table {table}")
        file.execute("alter table facts drop column deleted_at")
        file.execute("alter table conversations drop column project")
    done = hold.import_kernex(path=str(old))
    assert (done.rejected, counts(done)["facts"]) == (0, (2,))
