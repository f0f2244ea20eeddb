"""What SQLite does for the statements that are asked often: it seeks, it never walks a whole table."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw
import pytest

from holdfast.app import Holdfast
from holdfast.storage.sqlite.engine import SqliteStore, connect

Statement = tuple[str, Any]
TABLES = r"(memory|journal|link|alias|memory_grant|agent|access|notice|api_key|[mjlag])"
"""Those that grow. A namespace has one standard, and SQLite looks through them only for a dangling reference."""


@contextmanager
def noted(store: SqliteStore) -> Iterator[list[Statement]]:
    """Every statement that the store runs meanwhile."""
    seen: list[Statement] = []

    def trace(cursor: apsw.Cursor, sql: str, bindings: Any) -> bool:
        seen.append((sql, bindings))
        return True

    def hook(connection: apsw.Connection) -> None:
        connection.exec_trace = trace

    apsw.connection_hooks.append(hook)
    store.close()
    try:
        yield seen
    finally:
        apsw.connection_hooks.remove(hook)
        store.close()


def walks(store: SqliteStore, seen: list[Statement]) -> list[str]:
    """The steps that go through a whole table, or sort one."""
    connection = connect(store._file, "")
    found = []
    for sql, bindings in seen:
        if not re.match(r"\s*(select|update|delete|insert|with)\b", sql):
            continue
        for *_, step in connection.execute(f"explain query plan {sql}", bindings):
            if re.match(rf"SCAN {TABLES}\b", step) and "VIRTUAL TABLE" not in step:
                found.append(f"{step}: {' '.join(sql.split())[:160]}")
    connection.close()
    return found


ASKED: dict[str, dict[str, Any]] = {
    "get": {"id": "ID"},
    "get by prefix": {"id": "PREFIX"},
    "get as known": {"id": "ID", "known_at": "2100-01-01"},
    "list in a namespace": {"namespace": "team"},
    "search": {"query": "tuesdays"},
    "recall": {"context": "when do we deploy?", "namespace": "team"},
    "recall by source": {"context": "deploy", "source_uri_prefix": "doc:"},
    "search by source": {"source_uri": "doc:x"},
    "store": {"title": "Deploy day", "content": "We deploy on Mondays.", "namespace": "team"},
    "update": {"id": "ID", "title": "Deploy days", "priority": 9},
    "promote": {"id": "ID"},
    "history": {"id": "ID"},
    "events": {"after": 0},
    "gc": {},
    "undo": {"change": 1},
    "link": {"source_id": "ID", "target_id": "OTHER", "relation": "related_to"},
    "get_links": {"id": "ID"},
    "inbox": {},
    "delete": {"id": "ID"},
}


@pytest.mark.parametrize("what", ASKED)
def test_what_is_asked_often_is_found_by_index(store: SqliteStore, hold: Holdfast, what: str) -> None:
    one = hold.store(title="Deploy day", content="We deploy on Tuesdays.", namespace="team", source_uri="doc:x").id
    other = hold.store(title="Lunch", content="We eat at noon.", namespace="team").id
    words = {"ID": one, "PREFIX": one[:20], "OTHER": other}
    arguments = {name: words.get(value, value) for name, value in ASKED[what].items()}
    with noted(store) as seen:
        hold.call(what.split(" ")[0], arguments)
    assert seen
    assert walks(store, seen) == []


def test_a_page_of_all_memories_follows_the_index_of_its_order(store: SqliteStore, hold: Holdfast) -> None:
    with noted(store) as seen:
        hold.list(limit=20)
    steps = walks(store, seen)
    assert all(step.startswith("SCAN m USING INDEX memory_order: ") for step in steps), steps
    with noted(store) as seen:
        hold.list(limit=20)
    assert not any("TEMP B-TREE" in step for step in plans(store, seen))


def plans(store: SqliteStore, seen: list[Statement]) -> list[str]:
    connection = connect(store._file, "")
    found = [
        step
        for sql, bindings in seen
        if sql.lstrip().startswith("select")
        for *_, step in connection.execute(f"explain query plan {sql}", bindings)
    ]
    connection.close()
    return found
