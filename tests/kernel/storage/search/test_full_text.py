"""After any changes, the full-text index has exactly the words of memories that are not deleted."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

import holdfast
from engines import Postgres, raw_connection
from holdfast.features.history import service as history
from holdfast.kernel.errors import HoldfastError, StoreError
from holdfast.kernel.journal import journal
from holdfast.kernel.storage.port import SearchTexts
from holdfast.kernel.storage.postgres.full_text import to_tsvector
from holdfast.kernel.storage.sqlite.connection import MAX_WAL_BYTES

WORDS = ["deploy", "Tuesday", "café", "naïve", "running", "ran", "run", "日本語", "x1", "don't", "C++", "e-mail"]
TEXT = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
TAGS = st.lists(st.sampled_from(["a", "b", "deploy"]), max_size=2, unique=True)


NewStore = Callable[[], AbstractContextManager[str]]
TextFaults = Callable[[str], list[str]]


class AnyHistory(RuleBasedStateMachine):
    """A store with random changes in any order."""

    def __init__(self, new_store: NewStore, text_faults: TextFaults) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.address = self.stack.enter_context(new_store())
        self.hold = self.stack.enter_context(holdfast.open(self.address, agent_id="ai:tester@here"))
        self.text_faults = text_faults
        self.ids: list[str] = []

    def teardown(self) -> None:
        with self.hold.ctx.reading() as session:
            assert history.verify(self.hold.ctx, session) == []
        assert self.hold.ctx.store.faults() == []
        self.stack.close()

    def attempt(self, operation: str, **arguments: Any) -> Any:
        try:
            return self.hold.call(operation, arguments)
        except StoreError:
            raise
        except HoldfastError:
            return None

    def one(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(self.ids))

    @rule(title=TEXT, content=TEXT, tags=TAGS, mode=st.sampled_from(["merge", "version", "error"]))
    def store(self, title: str, content: str, tags: list[str], mode: str) -> None:
        if stored := self.attempt("store", title=title, content=content, tags=tags, on_conflict=mode):
            self.ids.append(stored.id)

    @rule(items=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=3))
    def store_many(self, items: list[tuple[str, str]]) -> None:
        stored = self.attempt("bulk_store", memories=[{"title": t, "content": c} for t, c in items])
        self.ids += stored.ids

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), content=TEXT, tags=TAGS)
    def update(self, data: st.DataObject, content: str, tags: list[str]) -> None:
        self.attempt("update", id=self.one(data), content=content, tags=tags)

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), tags=TAGS)
    def retag(self, data: st.DataObject, tags: list[str]) -> None:
        self.attempt("update", id=self.one(data), tags=tags)

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), title=TEXT)
    def rename(self, data: st.DataObject, title: str) -> None:
        self.attempt("update", id=self.one(data), title=title)

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), how=st.sampled_from(["delete", "archive", "archive_restore", "archive_purge"]))
    def put_away(self, data: st.DataObject, how: str) -> None:
        id = self.one(data)
        self.attempt(how, **({"ids": [id]} if how in ("archive", "archive_purge") else {"id": id}))

    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        with self.hold.ctx.reading() as session:
            last = journal.get_head(session).seq
        if last:
            self.attempt("undo", change=data.draw(st.integers(1, last)))

    @invariant()
    def the_index_equals_the_rows(self) -> None:
        assert self.text_faults(self.address) == []


@contextmanager
def new_file() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield str(Path(folder) / "memory.db")


def fts5_faults(path: str) -> list[str]:
    """Run FTS5's own comparison of index and rows."""
    with closing(apsw.Connection(path)) as raw:
        try:
            raw.execute("begin immediate; insert into memory_text (memory_text, rank) values ('integrity-check', 1)")
        except apsw.Error as error:
            return [str(error)]
        finally:
            raw.execute("rollback")
    return []


def tsvector_faults(url: str) -> list[str]:
    """Find memories with wrong words, and words without a memory."""
    with raw_connection(url) as raw:
        rows = raw.execute(
            "select rowno, title, content, tags, bigrams from memory where state <> 'deleted'"
        ).fetchall()
        words = dict(raw.execute("select rowno, words::text from memory_text").fetchall())
        for rowno, *texts in rows:
            ((expected,),) = raw.execute("select %s::tsvector::text", (to_tsvector(SearchTexts(*texts)),)).fetchall()
            if words.pop(rowno, None) == expected:
                continue
            words[rowno] = "not the words of its texts"
    return [f"{rowno}: {found}" for rowno, found in words.items()]


@pytest.mark.full
def test_the_index_matches_the_rows_after_any_history(engine: str, request: pytest.FixtureRequest) -> None:
    if engine == "sqlite":
        new_store, text_faults, examples = new_file, fts5_faults, 30
    else:
        new_store, text_faults, examples = request.getfixturevalue("postgres").new_store, tsvector_faults, 10
    run_state_machine_as_test(
        lambda: AnyHistory(new_store, text_faults),
        settings=settings(
            max_examples=examples, stateful_step_count=25, suppress_health_check=list(HealthCheck), derandomize=True
        ),
    )


CANARIES = {"titlecanary", "contentcanary", "valuecanary", "oldcanary", "uricanary"}


def purge_canaries(address: str) -> None:
    """Store a memory with a history, then purge it."""
    with holdfast.open(address, agent_id="ai:tester@here") as hold:
        for number in range(40):
            hold.store(title=f"Ordinary {number}", content="ordinary words " * 20)
        id = hold.store(
            title="titlecanary",
            content="oldcanary " * 300,
            tags=["tagcanary"],
            metadata={"keycanary": "valuecanary"},
            source_uri="doc:uricanary",
        ).id
        hold.update(id=id, content="contentcanary " * 300)
        hold.recall(context="contentcanary")
        hold.archive(ids=[id], reason="no longer true")
        hold.archive_purge(ids=[id])


def test_a_purge_leaves_no_text_in_the_file(tmp_path: Path) -> None:
    """Except for field names: peers need tags and metadata keys to delete them too."""
    path = tmp_path / "memory.db"
    purge_canaries(str(path))
    found = {
        file.name: {word for word in CANARIES if word.encode() in file.read_bytes()} for file in tmp_path.iterdir()
    }
    assert found == {"memory.db": set(), "memory.db.key": set()}
    assert fts5_faults(str(path)) == []


def test_a_purge_leaves_no_text_in_the_tables(postgres: Postgres) -> None:
    with postgres.new_store() as url:
        purge_canaries(url)
        with raw_connection(url) as raw:
            tables = raw.execute("select tablename from pg_tables where schemaname = current_schema").fetchall()
            rows = [row for (table,) in tables for row in raw.execute(f"select t::text from {table} t").fetchall()]
        assert {word for word in CANARIES for (row,) in rows if word in str(row)} == set()
        assert len(rows) > 40
        assert tsvector_faults(url) == []


@pytest.mark.full
def test_a_log_grown_by_a_long_reader_shrinks_when_the_reader_ends(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    log = Path(f"{path}-wal")
    with holdfast.open(str(path)) as hold, holdfast.open(str(path)) as reader:
        with reader.ctx.reading() as session:
            session.rows("meta_list")
            while log.stat().st_size < 2 * MAX_WAL_BYTES:
                hold.bulk_store(
                    memories=[{"title": f"{log.stat().st_size}-{n}", "content": "x" * 60_000} for n in range(20)]
                )
        for number in range(3):
            hold.store(title=f"After {number}", content="The reader ended.")
        assert log.stat().st_size <= MAX_WAL_BYTES
