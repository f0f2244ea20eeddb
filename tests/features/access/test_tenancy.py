"""Every statement that reads memories filters by the key's namespaces."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import holdfast
from diverging_stores import disagree
from engines import Postgres
from holdfast.kernel.context import Caller
from holdfast.operations import REGISTRY, Effect, Operation

CONFINED = Caller("ai:key@here", right="admin", namespaces=("open", "shared/team", "people"))


@pytest.fixture
def engine() -> str:
    return "postgres"


@contextmanager
def listening_in(postgres: Postgres) -> Iterator[list[str]]:
    """Collect the statements in the server log meanwhile."""
    heard: list[str] = []
    with postgres.admin() as connection:
        ((folder,),) = connection.execute("show data_directory").fetchall()
        connection.execute(f"alter database {postgres.database} set log_statement = 'all'")
        log = Path(str(folder)) / "log"
        start = log.stat().st_size
        try:
            yield heard
        finally:
            connection.execute(f"alter database {postgres.database} reset log_statement")
    entries = re.split(r"\n(?=\d{4}-\d\d-\d\d )", log.read_bytes()[start:].decode())
    heard += [entry for entry in entries if re.search(r"LOG:  (execute|statement)", entry)]


def shows_memories(statement: str) -> bool:
    """Return whether a statement reads or counts memories or skills."""
    return bool(re.search(r"\bm\.content\b|\b(from|join) (memory|skill_version) m\b", statement))


def is_confined(statement: str) -> bool:
    reach = r"m\.namespace = \$\d+ or \(m\.namespace >= \$\d+ \|\| '/' and m\.namespace < \$\d+ \|\| '0'\)"
    return len(re.findall(reach, statement)) >= len(CONFINED.namespaces)


WORDS = {"id": "x", "source_id": "x", "target_id": "x", "context": "deploy", "query": "deploy", "alias": "Ada"}
WORDS |= {"resource_path": "SKILL.md", "event": "pre_store"}
SKILL = "---\nname: deploy\ndescription: How.\ncomposes_with_reflections:\n  - namespace: open\n---\nOn Tuesdays.\n"
OF_THE_WHOLE = {"verify", "doctor", "backup_list", "sync_digest", "quarantine", "quarantine_show"}
OF_THE_WHOLE |= {"principal_forgotten", "peer_list", "peer_token", "peer_feed", "sync_status", "sync_export_bundle"}
"""They look at the store and tell of no memory; but for the first they are not for a key that is confined."""
WITHOUT_MEMORIES = {
    "curate_runs",
    "curate_proposals",
    "capabilities",
    "agent_list",
    "inbox",
    "interaction_list",
    "interaction_show",
    "key_list",
    "llm_usage",
    "policy_get",
    "pending_list",
    "pipelines",
    "principal_show",
    "principal_list",
    "project_which",
    "project_list",
    "lesson_suggest",
    "outcome_list",
    "run_list",
    "run_show",
    "session_get",
    "task_list",
    "task_show",
    "task_runs",
    "usage_report",
    "price_list",
    "budget_list",
    "hooks_list",
    "hooks_test",
    "subscription_list",
    "subscription_deliveries",
}
READING = [op for op in REGISTRY if op.effect is Effect.READ and op.name not in OF_THE_WHOLE]


def asked_for(op: Operation) -> list[str]:
    one_of = ("id",) if op.name == "graph" else op.at_least_one
    return [field.encode_name for field in op.fields if field.required] + [*one_of[:1]]


def test_every_statement_reading_memories_filters_by_the_namespaces_of_the_key(
    postgres: Postgres, tmp_path: Path
) -> None:
    unconfined, reading = {}, set()
    for op in READING:
        with postgres.empty_store() as db:
            read = memory_statements(postgres, db, op, tmp_path)
        if read:
            reading.add(op.name)
        if wide := [statement for statement in read if not is_confined(statement)]:
            unconfined[op.name] = wide
    assert unconfined == {}
    assert reading == {op.name for op in READING} - set(WITHOUT_MEMORIES)


def memory_statements(postgres: Postgres, db: str, op: Operation, folder: Path) -> list[str]:
    """Return the statements that read memories when a confined caller runs an operation."""
    with holdfast.open(db, agent_id="ai:tester@here") as hold:
        needed = prepare(hold, op, folder)
    with holdfast.open(db) as fresh, listening_in(postgres) as heard:
        fresh.call(op.name, needed, caller=CONFINED)
    return [statement for statement in heard if shows_memories(statement)]


def prepare(hold: holdfast.Holdfast, op: Operation, folder: Path) -> dict[str, Any]:
    """Store what an operation reads, and return its arguments."""
    inside = hold.call("store", {"title": "in", "content": "deploy", "namespace": "open"})
    hold.call("store", {"title": "out", "content": "deploy", "namespace": "closed"})
    words: dict[str, Any] = {**WORDS, "id": inside.id, "source_id": inside.id, "target_id": inside.id}
    words |= {"skill_id": hold.call("skill_register", {"inline_skill": SKILL, "namespace": "open"}).id}
    drawn = {"source_ids": [inside.id], "title": "drawn", "content": "deploy"}
    words |= {"memory_id": hold.call("reflect", drawn).id, "out_dir": str(folder / "out"), "file": str(folder / "x")}
    words |= {"id_a": inside.id, "id_b": words["memory_id"], "entity_id": "deploy"}
    needed = {name: words.get(name, "open") for name in asked_for(op)}
    hold.call("namespace_set_standard", {"namespace": "open", "id": inside.id})
    if op.name == "conflicts_show":
        disagree(hold, inside.id, "otherwise", owner=hold.ctx.caller.agent)
        needed = {"id": hold.conflicts().conflicts[0].id}
    hold.call("fact_set", {"key": "open", "value": "x", "principal": CONFINED.agent})
    if op.name in ("task_show", "task_runs"):
        needed = {"id": hold.call("task_add", {"title": "x", "due_at": "2030-01-01", "namespace": "open"}).task.id}
    if op.name == "conversation_show":
        said = {"turns": [{"role": "user", "content": "x"}], "namespace": "open"}
        needed = {"id": hold.call("conversation_say", said).conversation_id}
    if op.name == "interaction_show":
        needed = {"id": hold.call("interaction_record", {"status": "ok", "namespace": "open"}).id}
    if op.name == "run_show":
        needed = {"id": hold.call("run_open", {"topology": "x", "phases": ["x"], "namespace": "open"}).run.id}
    return needed
