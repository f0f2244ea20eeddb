"""`verify` detects direct edits of the database's tables."""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import psycopg
import pytest
from tampering import JOURNALLED, KEPT_OUTSIDE_THE_JOURNAL, live_through_everything, same, smallest_changes

import holdfast
from engines import Postgres, raw_connection
from holdfast import Holdfast
from holdfast.features.history import service as history
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.journal import new_key
from holdfast.kernel.storage.postgres.engine import PostgresSession

Raw = psycopg.Connection[tuple[Any, ...]]
UNSIGNED = "the head is not signed by this node's key: the journal was edited or rebuilt"


@pytest.fixture
def engine() -> str:
    return "postgres"


@pytest.fixture(scope="module")
def journalled_store(postgres: Postgres) -> Iterator[tuple[Holdfast, Raw]]:
    """Yield a store with journal entries of every kind, and a direct connection to it."""
    with postgres.new_store() as url, holdfast.open(url, agent_id="ai:tester@here") as hold, raw_connection(url) as raw:
        live_through_everything(hold)
        yield hold, raw


@pytest.fixture
def spoilt(db: str) -> Iterator[tuple[Holdfast, Raw]]:
    """Yield another one, to be damaged permanently."""
    with holdfast.open(db, agent_id="ai:tester@here") as hold, raw_connection(db) as raw:
        live_through_everything(hold)
        yield hold, raw


@contextmanager
def tamper(raw: Raw, sql: str, *values: Any) -> Iterator[None]:
    with raw.transaction(force_rollback=True):
        raw.execute(sql, values)
        yield


def findings(hold: Holdfast, raw: Raw) -> list[str]:
    return [found.message for found in history.verify(hold.ctx, PostgresSession(raw))]


def columns_of(raw: Raw, table: str) -> list[str]:
    found = "select column_name from information_schema.columns where table_schema = current_schema and table_name = %s"
    return [str(name) for (name,) in raw.execute(found, (table,)).fetchall()]


def edits(raw: Raw, table: str) -> Iterator[tuple[str, Any, Any]]:
    """Return for every column up to six random rows, each with a different value."""
    chance = Random(table)
    for column in columns_of(raw, table):
        rows = raw.execute(f"select ctid::text, {column} from {table}").fetchall()
        changes = [(ctid, new) for ctid, old in rows for new in smallest_changes(old) if not same(new, old)]
        if (table, column) not in KEPT_OUTSIDE_THE_JOURNAL:
            for ctid, new in chance.sample(changes, min(4, len(changes))):
                yield column, ctid, new


def test_an_untouched_store_has_no_findings(journalled_store: tuple[Holdfast, Raw]) -> None:
    assert findings(*journalled_store) == []


@pytest.mark.parametrize("table", ["journal", "journal_head", *JOURNALLED])
def test_tampering_with_any_column_is_found(journalled_store: tuple[Holdfast, Raw], table: str) -> None:
    hold, raw = journalled_store
    missed, tried = [], set()
    for column, ctid, value in edits(raw, table):
        try:
            with tamper(raw, f"update {table} set {column} = %s where ctid = %s::tid", value, ctid):
                tried.add(column)
                if not findings(hold, raw):
                    missed.append((column, value))
        except (psycopg.IntegrityError, psycopg.DataError, psycopg.ProgrammingError):
            continue  # the tables do not take it
    assert missed == []
    assert len(tried) >= len(columns_of(raw, table)) - 2


@pytest.mark.parametrize("column", ["public_key", "since", "origin"])
def test_tampering_with_the_signer_record_is_found(journalled_store: tuple[Holdfast, Raw], column: str) -> None:
    changed: Any = 99 if column == "since" else b"x" * 32 if column == "public_key" else "elsewhere"
    with tamper(journalled_store[1], f"update signer set {column} = %s", changed):
        assert findings(*journalled_store)
    with tamper(journalled_store[1], "delete from signer"):
        assert findings(*journalled_store)


@pytest.mark.parametrize("table", ["journal", *JOURNALLED])
def test_every_dropped_row_is_found(journalled_store: tuple[Holdfast, Raw], table: str) -> None:
    hold, raw = journalled_store
    for (ctid,) in raw.execute(f"select ctid::text from {table}").fetchall():
        unchecked = "set local session_replication_role = replica"
        with tamper(raw, unchecked):
            raw.execute(f"delete from {table} where ctid = %s::tid", (ctid,))
            assert findings(hold, raw), f"{ctid} of {table}"


def test_a_row_inserted_without_the_journal_is_found(journalled_store: tuple[Holdfast, Raw]) -> None:
    columns = ", ".join(name for name in columns_of(journalled_store[1], "memory") if name not in ("rowno", "id"))
    forged = (
        f"insert into memory (id, {columns}) select 'forged', {columns} from memory where state = 'deleted' limit 1"
    )
    with tamper(journalled_store[1], forged):
        assert findings(*journalled_store) == ["the memory forged was added to its table without a journal entry"]


def put_head_right(raw: Raw) -> None:
    """Rebuild the head from the journal, as an attacker without the key can."""
    raw.execute(
        """update journal_head set
        seq = coalesce((select max(seq) from journal), 0),
        n = coalesce((select max(n) from journal where journal.origin = journal_head.origin), 0),
        hash = coalesce((select hash from journal order by seq desc limit 1), ''),
        recorded_at = coalesce((select max(recorded_at) from journal), 0)"""
    )


@pytest.mark.parametrize("head", ["as it was", "put right without the key"])
def test_a_truncated_journal_is_found(journalled_store: tuple[Holdfast, Raw], head: str) -> None:
    with tamper(journalled_store[1], "delete from journal where seq = (select max(seq) from journal)"):
        if head != "as it was":
            put_head_right(journalled_store[1])
        assert findings(*journalled_store)


def rebuild(raw: Raw) -> None:
    """Recompute every digest and hash as Holdfast does."""
    previous = journal.GENESIS
    for entry in list(journal.iter_entries(PostgresSession(raw))):
        digest = entry.digest if entry.body is None else journal.content_digest(entry.body, entry.delta)
        previous = journal.chain_hash(previous, entry[: journal.BODY_INDEX], digest)
        raw.execute("update journal set digest = %s, hash = %s where seq = %s", (digest, previous, entry.seq))
    put_head_right(raw)


def test_a_hash_chain_rebuilt_without_the_key_is_found(journalled_store: tuple[Holdfast, Raw]) -> None:
    with tamper(journalled_store[1], "update journal set actor = 'mallory' where seq = 1"):
        rebuild(journalled_store[1])
        assert findings(*journalled_store) == [UNSIGNED]


def test_a_truncation_stays_found_after_later_writes(spoilt: tuple[Holdfast, Raw]) -> None:
    hold, raw = spoilt
    kept = hold.store(title="Kept", content="Before the cut.").id
    hold.store(title="Cut", content="Nobody is to know.")
    raw.execute("delete from journal where seq = (select max(seq) from journal)")
    raw.execute("delete from memory_text where rowno = (select rowno from memory where title = 'Cut')")
    raw.execute("delete from memory where title = 'Cut'")
    put_head_right(raw)
    hold.update(id=kept, priority=7)
    hold.store(title="Later", content="As if nothing had happened.")
    assert findings(hold, raw) == [UNSIGNED]


def test_an_emptied_store_stays_found_after_later_writes(spoilt: tuple[Holdfast, Raw]) -> None:
    hold, raw = spoilt
    emptied = [f"delete from {table}" for table in (*JOURNALLED, "memory_text", "memory_access", "journal", "signer")]
    zero = "seq = 0, n = 0, hash = '', recorded_at = 0, signature = '', public_key = '', identity = ''"
    with raw.transaction():
        raw.execute("set local session_replication_role = replica")
        for statement in (*emptied, f"update journal_head set {zero}"):
            raw.execute(statement)
    assert findings(hold, raw)
    hold.store(title="Later", content="As if nothing had happened.")
    assert findings(hold, raw)


def test_a_removed_key_is_reported(spoilt: tuple[Holdfast, Raw]) -> None:
    spoilt[1].execute("delete from node_key")
    assert findings(*spoilt) == ["the node's key is missing: the signature of the head cannot be checked"]


def test_a_replaced_key_stays_reported_after_later_writes(spoilt: tuple[Holdfast, Raw]) -> None:
    hold, raw = spoilt
    raw.execute("update node_key set secret = %s", (new_key(),))
    assert findings(hold, raw) == ["the head's key differs from the store's key"]
    hold.store(title="Later", content="As if nothing had happened.")
    assert findings(hold, raw) == [UNSIGNED]
