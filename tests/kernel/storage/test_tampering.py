"""`verify` detects direct edits of a store: any column or row, the end, a rebuilt chain."""

import random
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw
import pytest
from tampering import JOURNALLED, KEPT_OUTSIDE_THE_JOURNAL, live_through_everything, same, smallest_changes

import holdfast
from holdfast.features.history import service as history
from holdfast.kernel import errors
from holdfast.kernel.journal import journal, verify_chain
from holdfast.kernel.journal.journal import new_key, public_key_of, sign
from holdfast.kernel.storage.sqlite.engine import SqliteSession


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with journal entries of every kind."""
    path = tmp_path_factory.mktemp("tampering") / "memory.db"
    with holdfast.open(str(path), agent_id="ai:tester@here") as hold:
        live_through_everything(hold)
    return path


@pytest.fixture
def hold(path: Path) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(str(path), agent_id="ai:tester@here") as opened:
        yield opened


@pytest.fixture
def raw(path: Path) -> Iterator[apsw.Connection]:
    """A direct connection to the file."""
    with closing(apsw.Connection(str(path))) as connection:
        yield connection


@contextmanager
def tamper(raw: apsw.Connection, *statements: tuple[str, tuple[Any, ...]]) -> Iterator[None]:
    raw.execute("begin immediate")
    try:
        for sql, values in statements:
            raw.execute(sql, values)
        yield
    finally:
        raw.execute("rollback")


def edit(table: str, rowid: int, column: str, value: Any) -> tuple[str, tuple[Any, ...]]:
    return f"update {table} set {column} = ? where rowid = ?", (value, rowid)


def findings(hold: holdfast.Holdfast, raw: apsw.Connection) -> list[verify_chain.JournalFault]:
    return history.verify(hold.ctx, SqliteSession(raw))


def chain_breaks(hold: holdfast.Holdfast, raw: apsw.Connection) -> list[verify_chain.JournalFault]:
    """Return the faults of the journal alone, without the rows."""
    session = SqliteSession(raw)
    key = hold.ctx.store.signing_key(session)
    return list(verify_chain.verify_chain(session, public_key_of(key) if key else None))


def cells_of(raw: apsw.Connection, table: str) -> list[tuple[int, str, Any]]:
    """Iterate over all values of a table."""
    columns = [row[1] for row in raw.execute(f"pragma table_info({table})")]
    rows = raw.execute(f"select rowid, {', '.join(columns)} from {table}").fetchall()
    return [(row[0], name, value) for row in rows for name, value in zip(columns, row[1:], strict=True)]


def mutations(raw: apsw.Connection, table: str) -> list[tuple[str, int, str, Any]]:
    return [
        (table, rowid, column, changed)
        for rowid, column, value in cells_of(raw, table)
        if (table, column) not in KEPT_OUTSIDE_THE_JOURNAL
        for changed in smallest_changes(value)
        if not same(changed, value)
    ]


def find_unnoticed(hold: holdfast.Holdfast, raw: apsw.Connection, tables: tuple[str, ...]) -> tuple[list[Any], int]:
    """Return edits that the tables accept and `verify` misses, and the number of edits tried."""
    missed, tried = [], 0
    for table, rowid, column, value in [each for name in tables for each in mutations(raw, name)]:
        try:
            with tamper(raw, edit(table, rowid, column, value)):
                tried += 1
                if not findings(hold, raw):
                    missed.append((table, rowid, column, value))
        except (apsw.ConstraintError, apsw.MismatchError):
            continue
    return missed, tried


def test_an_untouched_store_has_no_findings(hold: holdfast.Holdfast, raw: apsw.Connection) -> None:
    assert findings(hold, raw) == []


def test_tampering_with_any_column_of_any_journal_entry_is_found(hold: holdfast.Holdfast, raw: apsw.Connection) -> None:
    missed, tried = find_unnoticed(hold, raw, ("journal",))
    assert missed == []
    assert tried > 700


def test_tampering_with_any_column_of_the_head_is_found(hold: holdfast.Holdfast, raw: apsw.Connection) -> None:
    assert find_unnoticed(hold, raw, ("journal_head",))[0] == []


def test_tampering_with_any_column_of_any_journalled_row_is_found(
    hold: holdfast.Holdfast, raw: apsw.Connection
) -> None:
    missed, tried = find_unnoticed(hold, raw, JOURNALLED)
    assert missed == []
    assert tried > 700


@pytest.mark.parametrize("table", ["journal", *JOURNALLED])
def test_every_dropped_row_is_found(hold: holdfast.Holdfast, raw: apsw.Connection, table: str) -> None:
    for (rowid,) in raw.execute(f"select rowid from {table}").fetchall():
        with tamper(raw, (f"delete from {table} where rowid = ?", (rowid,))):
            assert findings(hold, raw), f"row {rowid} of {table}"


@pytest.mark.parametrize("table", ["journal", "journal_head"])
def test_values_impossible_in_our_tables_are_found(hold: holdfast.Holdfast, raw: apsw.Connection, table: str) -> None:
    """As after file damage, or in tables recreated without constraints."""
    columns = {name for _, name, _ in cells_of(raw, table)} - {name for _, name in KEPT_OUTSIDE_THE_JOURNAL}
    lax = [(f"create table lax as select * from {table}", ()), (f"drop table {table}", ())]
    lax.append((f"alter table lax rename to {table}", ()))
    for column in columns - {"about", "delta"}:
        for value in (None, "x", b"x", 1.5):
            wrong = (f"update {table} set {column} = ? where {column} is not null", (value,))
            with tamper(raw, *lax, wrong):
                assert findings(hold, raw), f"{table}.{column} = {value!r}"


def test_a_row_inserted_without_the_journal_is_found(hold: holdfast.Holdfast, raw: apsw.Connection) -> None:
    columns = ", ".join(row[1] for row in raw.execute("pragma table_info(memory)") if row[1] not in ("rowno", "id"))
    forged = (
        f"insert into memory (id, {columns}) select 'forged', {columns} from memory where state = 'deleted' limit 1"
    )
    with tamper(raw, (forged, ())):
        assert findings(hold, raw) == [
            verify_chain.JournalFault(0, "the memory forged was added to its table without a journal entry")
        ]


def test_two_swapped_entries_are_found_anywhere(hold: holdfast.Holdfast, raw: apsw.Connection) -> None:
    last = raw.execute("select max(seq) from journal").fetchall()[0][0]
    for one in range(1, last):
        swap = [
            ("update journal set seq = -1 where seq = ?", (one,)),
            ("update journal set seq = ? where seq = ?", (one, one + 1)),
            ("update journal set seq = ? where seq = -1", (one + 1,)),
        ]
        with tamper(raw, *swap):
            assert chain_breaks(hold, raw), f"entries {one} and {one + 1}"


@pytest.mark.parametrize("head", ["as it was", "put right without the key"])
def test_a_journal_truncated_anywhere_is_found(hold: holdfast.Holdfast, raw: apsw.Connection, head: str) -> None:
    for last in range(raw.execute("select max(seq) from journal").fetchall()[0][0]):
        with tamper(raw, ("delete from journal where seq > ?", (last,))):
            if head != "as it was":
                put_head_right(raw)
            assert chain_breaks(hold, raw), f"cut after {last}"


def put_head_right(raw: apsw.Connection) -> None:
    """Rebuild the head from the journal, as an attacker without the key can."""
    raw.execute(
        """update journal_head set
        seq = coalesce((select max(seq) from journal), 0),
        n = coalesce((select max(n) from journal where journal.origin = journal_head.origin), 0),
        hash = coalesce((select hash from journal order by seq desc limit 1), x''),
        recorded_at = coalesce((select max(recorded_at) from journal), 0)"""
    )


def rebuild(raw: apsw.Connection, start: int) -> None:
    """Recompute every digest and hash from an entry on, as Holdfast does."""
    session = SqliteSession(raw)
    row = session.row("journal_one", seq=start - 1)
    previous = journal.Entry(*row).hash if row else journal.GENESIS
    for entry in [entry for entry in journal.iter_entries(session) if entry.seq >= start]:
        digest = entry.digest if entry.body is None else journal.content_digest(entry.body, entry.delta)
        previous = journal.chain_hash(previous, entry[: journal.BODY_INDEX], digest)
        raw.execute("update journal set digest = ?, hash = ? where seq = ?", (digest, previous, entry.seq))
    put_head_right(raw)


def test_a_hash_chain_rebuilt_without_the_key_from_any_entry_is_found(
    hold: holdfast.Holdfast, raw: apsw.Connection
) -> None:
    for start in range(1, raw.execute("select max(seq) from journal").fetchall()[0][0] + 1):
        with tamper(raw, ("update journal set actor = 'mallory' where seq = ?", (start,))):
            rebuild(raw, start)
            assert [found.message for found in findings(hold, raw)] == [
                "the head is not signed by this node's key: the journal was edited or rebuilt"
            ]


def test_a_hash_chain_rebuilt_under_another_key_is_found(hold: holdfast.Holdfast, raw: apsw.Connection) -> None:
    with tamper(raw, ("update journal set actor = 'mallory' where seq = 1", ())):
        rebuild(raw, 1)
        sign_head(raw, new_key())
        assert "the head's key differs from the store's key" in [found.message for found in findings(hold, raw)]


def test_a_hash_chain_rebuilt_under_another_key_stays_found_after_later_writes(copy: Path) -> None:
    with closing(apsw.Connection(str(copy))) as raw:
        raw.execute("update journal set actor = 'mallory' where seq = 1")
        rebuild(raw, 1)
        other = new_key()
        sign_head(raw, other)
        raw.execute("update signer set public_key = ?", (public_key_of(other),))
        with holdfast.open(str(copy), agent_id="ai:tester@here") as hold:
            hold.store(title="Later", content="As if nothing had happened.")
            assert "the head is not signed by this node's key: the journal was edited or rebuilt" in [
                found.message for found in findings(hold, raw)
            ]


def test_an_emptied_store_stays_found_after_later_writes(copy: Path) -> None:
    emptied = (
        "pragma foreign_keys=off",
        *(f"delete from {table}" for table in (*JOURNALLED, "memory_access", "journal", "signer")),
        "update journal_head set seq = 0, n = 0, hash = x'', recorded_at = 0, signature = x'', public_key = x'',"
        " identity = ''",
    )
    with holdfast.open(str(copy), agent_id="ai:tester@here") as hold, closing(apsw.Connection(str(copy))) as raw:
        for statement in emptied:
            raw.execute(statement)
        assert findings(hold, raw)
        hold.store(title="Later", content="As if nothing had happened.")
        assert findings(hold, raw)


@pytest.mark.parametrize("column", ["public_key", "since", "origin"])
def test_tampering_with_the_signer_record_is_found(hold: holdfast.Holdfast, raw: apsw.Connection, column: str) -> None:
    changed: Any = 99 if column == "since" else b"x" * 32 if column == "public_key" else "elsewhere"
    with tamper(raw, (f"update signer set {column} = ?", (changed,))):
        assert findings(hold, raw)
    with tamper(raw, ("delete from signer", ())):
        assert findings(hold, raw)


def sign_head(raw: apsw.Connection, key: bytes) -> None:
    head = journal.get_head(SqliteSession(raw))
    raw.execute("update journal_head set public_key = ?", (public_key_of(key),))
    raw.execute("update journal_head set signature = ?", (sign(key, journal.signed_bytes(head)),))


def test_an_erased_entry_without_a_matching_purge_is_found(hold: holdfast.Holdfast, raw: apsw.Connection) -> None:
    for seq, body in raw.execute("select seq, body from journal").fetchall():
        with tamper(raw, ("update journal set body = null, delta = null where seq = ?", (seq,))):
            assert bool(findings(hold, raw)) == (body is not None), f"entry {seq}"


@pytest.mark.full
def test_thousands_of_single_flipped_bits_are_all_found(hold: holdfast.Holdfast, raw: apsw.Connection) -> None:
    bits, missed, tried = random.Random(20260728), [], 0
    values = [
        (table, rowid, column, value)
        for table in ("journal", "memory", "link", "agent")
        for rowid, column, value in cells_of(raw, table)
        if isinstance(value, str | bytes) and value and (table, column) not in KEPT_OUTSIDE_THE_JOURNAL
    ]
    for _ in range(2500):
        table, rowid, column, value = bits.choice(values)
        at, bit = bits.randrange(len(value)), 1 << bits.randrange(7)
        if isinstance(value, str):
            changed: Any = value[:at] + chr(ord(value[at]) ^ bit) + value[at + 1 :]
        else:
            changed = value[:at] + bytes([value[at] ^ bit]) + value[at + 1 :]
        with suppress(apsw.ConstraintError), tamper(raw, edit(table, rowid, column, changed)):
            tried += 1
            if not same(value, changed) and not findings(hold, raw):
                missed.append((table, rowid, column, value, changed))
    assert missed == []
    assert tried > 2400


@pytest.fixture
def copy(path: Path, tmp_path: Path) -> Path:
    """A copy of the store and its key, to be damaged permanently."""
    for name in (path.name, f"{path.name}.key"):
        shutil.copy(path.with_name(name), tmp_path / name)
    return tmp_path / path.name


def test_a_truncation_stays_found_after_later_writes(copy: Path) -> None:
    with holdfast.open(str(copy), agent_id="ai:tester@here") as hold, closing(apsw.Connection(str(copy))) as raw:
        kept = hold.store(title="Kept", content="Before the cut.").id
        hold.store(title="Cut", content="Nobody is to know.")
        raw.execute("delete from journal where seq = (select max(seq) from journal)")
        raw.execute("delete from memory_tag where memory = (select id from memory where title = 'Cut')")
        raw.execute("delete from memory where title = 'Cut'")
        put_head_right(raw)
        hold.update(id=kept, priority=7)
        hold.store(title="Later", content="As if nothing had happened.")
        assert [found.message for found in findings(hold, raw)] == [
            "the head is not signed by this node's key: the journal was edited or rebuilt"
        ]


def test_a_truncation_stays_found_in_a_copy_that_continues(copy: Path, tmp_path: Path) -> None:
    with closing(apsw.Connection(str(copy))) as raw:
        raw.execute("delete from journal where seq = (select max(seq) from journal)")
        put_head_right(raw)
    shutil.copy(copy, tmp_path / "elsewhere.db")
    elsewhere = str(tmp_path / "elsewhere.db")
    with holdfast.open(elsewhere, agent_id="ai:tester@here") as hold, closing(apsw.Connection(elsewhere)) as raw:
        hold.store(title="Later", content="As if nothing had happened.")
        assert "the head is not signed by this node's key: the journal was edited or rebuilt" in [
            found.message for found in findings(hold, raw)
        ]


def test_a_removed_key_is_reported(copy: Path) -> None:
    with holdfast.open(str(copy), agent_id="ai:tester@here") as hold, closing(apsw.Connection(str(copy))) as raw:
        copy.with_name(f"{copy.name}.key").unlink()
        assert [found.message for found in findings(hold, raw)] == [
            "the node's key is missing: the signature of the head cannot be checked"
        ]


@pytest.mark.parametrize("table", ["journal", "memory"])
def test_bytes_that_are_not_text_are_found(hold: holdfast.Holdfast, raw: apsw.Connection, table: str) -> None:
    column = "actor" if table == "journal" else "content"
    with (
        tamper(raw, (f"update {table} set {column} = cast(x'ff' as text) where rowid = 1", ())),
        pytest.raises(errors.StoreDamaged),
    ):
        findings(hold, raw)
