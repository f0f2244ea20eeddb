"""Query plans of executed statements, on both engines."""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any, NamedTuple

import apsw
import psycopg
import pytest

import holdfast
from engines import raw_connection
from holdfast.app import Holdfast
from holdfast.features.memories.read_memories import SqlPart
from holdfast.kernel.context import Caller
from holdfast.kernel.storage.postgres.engine import PLANNER_SETTINGS
from holdfast.kernel.storage.postgres.engine import connect as connect_postgres
from holdfast.kernel.storage.postgres.store import PostgresStore
from holdfast.kernel.storage.sqlite.connection import connect as connect_sqlite
from holdfast.kernel.storage.sqlite.engine import SqliteStore
from holdfast.settings import Settings

ME = Caller("ai:tester@here")
Statement = tuple[str, Any]
GROWING = (
    "memory|memory_text|journal|link|alias|memory_grant|agent|memory_access|notice|api_key|embedding|invalidation|"
    "ingest|ingest_segment"
)
"""A namespace has one standard, and SQLite looks through them only for a dangling reference."""
NEWEST = re.compile(r"order by rowno desc limit :limit$")
"""What begins with the last row and ends when it has enough."""
ASKS = re.compile(r"\s*(select|update|delete|insert|with)\b")


class SqlitePlans:
    """SQLite's query plans."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store

    @contextmanager
    def record_statements(self) -> Iterator[list[Statement]]:
        """Record every statement that the store runs inside the block."""
        seen: list[Statement] = []

        def trace(cursor: apsw.Cursor, sql: str, bindings: Any) -> bool:
            seen.append((sql, bindings))
            return True

        def hook(connection: apsw.Connection) -> None:
            connection.exec_trace = trace

        apsw.connection_hooks.append(hook)
        self.store.close()
        try:
            yield seen
        finally:
            apsw.connection_hooks.remove(hook)
            self.store.close()

    def steps(self, seen: list[Statement]) -> list[str]:
        with closing(connect_sqlite(self.store._file, "")) as connection:
            return [
                step
                for sql, bindings in seen
                if ASKS.match(sql)
                for *_, step in connection.execute(f"explain query plan {sql}", bindings)
            ]

    def walks(self, seen: list[Statement]) -> list[str]:
        """Return the steps that scan a whole table or index."""
        scan = re.compile(rf"SCAN ({GROWING}|[mjlag])\b")
        asked = [one for one in seen if not NEWEST.search(one[0])]
        return [step for one in asked for step in self._scans(self.steps([one])) if scan.match(step)]

    def _scans(self, steps: list[str]) -> list[str]:
        found = {f"SCAN {step.split()[-1]}" for step in steps if step.startswith(("CO-ROUTINE", "MATERIALIZE"))}
        return [step for step in steps if step not in found and "VIRTUAL TABLE" not in step]


class PostgresPlans:
    """PostgreSQL's query plans, with sequential scans discouraged."""

    def __init__(self, store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = store
        self.monkeypatch = monkeypatch

    @contextmanager
    def record_statements(self) -> Iterator[list[Statement]]:
        seen: list[Statement] = []
        execute, executemany = psycopg.Cursor.execute, psycopg.Cursor.executemany

        def one(cursor: Any, sql: Any, params: Any = None, **more: Any) -> Any:
            seen.append((sql, params))
            return execute(cursor, sql, params, **more)

        def many(cursor: Any, sql: Any, params: Any, **more: Any) -> None:
            seen.extend((sql, each) for each in params)
            executemany(cursor, sql, params, **more)

        with self.monkeypatch.context() as patched:
            patched.setattr(psycopg.Cursor, "execute", one)
            patched.setattr(psycopg.Cursor, "executemany", many)
            yield seen

    def nodes(self, seen: list[Statement]) -> Iterator[dict[str, Any]]:
        """Yield every node of every plan."""
        with connect_postgres(self.store._address) as connection, connection.transaction():
            connection.execute(
                "; ".join((*PLANNER_SETTINGS, self.store._address.path_setting, "set local enable_seqscan = off"))
            )
            for sql, params in seen:
                if ASKS.match(sql):
                    ((explained,),) = connection.execute(f"explain (format json) {sql}", params).fetchall()
                    yield from within(explained[0]["Plan"])

    def steps(self, seen: list[Statement]) -> list[str]:
        return [describe_node(node) for node in self.nodes(seen)]

    def walks(self, seen: list[Statement]) -> list[str]:
        return [
            describe_node(node)
            for node in self.nodes(seen)
            if node.get("Relation Name") in GROWING.split("|") and "Scan" in node["Node Type"] and not seeks(node)
        ]


def within(node: dict[str, Any], above: str = "") -> Iterator[dict[str, Any]]:
    yield {**node, "above": above}
    for below in node.get("Plans", ()):
        yield from within(below, node["Node Type"])


def seeks(node: dict[str, Any]) -> bool:
    """Or reads an index in its order until there is enough. A bitmap is filled by nodes below, which seek."""
    ordered = "Index" in node["Node Type"] and node["above"] == "Limit"
    return "Index Cond" in node or ordered or node["Node Type"] == "Bitmap Heap Scan"


def describe_node(node: dict[str, Any]) -> str:
    words = [node["Node Type"], *(node[key] for key in ("Index Name", "Relation Name", "Index Cond") if key in node)]
    return " ".join(words)


Plans = SqlitePlans | PostgresPlans


def plans_of(store: Any, monkeypatch: pytest.MonkeyPatch) -> Plans:
    return SqlitePlans(store) if isinstance(store, SqliteStore) else PostgresPlans(store, monkeypatch)


class OpenStore(NamedTuple):
    hold: Holdfast
    address: str


@contextmanager
def one_store(engine: str, paths: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[OpenStore]:
    """Open an empty store for all tests of a file."""
    with ExitStack() as stack:
        address = str(paths.mktemp("plans") / "memory.db")
        if engine == "postgres":
            address = stack.enter_context(request.getfixturevalue("postgres").new_store())
        settings = Settings(db=address, agent_id=ME.agent, embedder="none")
        yield OpenStore(stack.enter_context(holdfast.open(settings=settings)), address)


def ran(plans: Plans, hold: Holdfast, parts: Sequence[SqlPart], params: dict[str, Any]) -> list[Statement]:
    """Return the statements that the engine runs for a statement joined from parts."""
    with plans.record_statements() as seen, hold.ctx.store.reading() as session:
        session.select(parts, params)
    return [statement for statement in seen if ASKS.match(statement[0])][-1:]


def fill(hold: Holdfast, address: str) -> None:
    """Insert enough memories for realistic PostgreSQL plans."""
    if isinstance(hold.ctx.store, PostgresStore):
        for batch in range(10):
            places = [f"n{number}/{batch}" for number in range(60)]
            hold.bulk_store(
                memories=[{"title": place, "content": "some thing", "namespace": place} for place in places]
            )
        with raw_connection(address) as raw:
            raw.execute(LINKED)
            raw.execute(TOLD)
            raw.execute("analyze")


LINKED = """insert into link (id, source, target, relation, valid_from, agent, created_at, updated_at, origin, version,
  state, field_versions) select 'link ' || m.id, m.id, n.id, 'related_to', 1, 'ai:x@here', 1, 1, 'x', 1, 'live', ''
  from memory m join memory n on n.rowno = m.rowno + 1"""
"""Written without journal entries, which do not affect plans."""
TOLD = """insert into invalidation (id, invalidated, invalidating, dependent, hop, cause, status, created_at,
  updated_at, origin, version, state, field_versions)
  select 'told ' || m.id, n.id, n.id, m.id, 1, 'deleted', 'open', 1, 1, 'x', 1, 'live', ''
  from memory m join memory n on n.rowno = m.rowno + 1"""
