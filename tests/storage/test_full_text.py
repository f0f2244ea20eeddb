"""Whatever happens to memories, the full-text index holds the words of those that are not deleted, and no others."""

import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import holdfast
from holdfast.domain.errors import HoldfastError, StoreError
from holdfast.services import history
from holdfast.storage import journal
from holdfast.storage.sqlite.engine import LOG_LIMIT

WORDS = ["deploy", "Tuesday", "café", "naïve", "running", "ran", "run", "日本語", "x1", "don't", "C++", "e-mail"]
TEXT = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
TAGS = st.lists(st.sampled_from(["a", "b", "deploy"]), max_size=2, unique=True)


class AnyHistory(RuleBasedStateMachine):
    """A store to which anything may happen in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.hold = holdfast.open(str(Path(self.folder.name) / "memory.db"), agent_id="ai:tester@here")
        self.ids: list[str] = []

    def teardown(self) -> None:
        with self.hold.hold.reading() as session:
            assert history.verify(self.hold.hold, session) == []
        assert self.hold.hold.store.faults() == []
        self.hold.close()
        self.folder.cleanup()

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
        with self.hold.hold.reading() as session:
            last = journal.head_of(session).seq
        if last:
            self.attempt("undo", change=data.draw(st.integers(1, last)))

    @invariant()
    def the_index_equals_the_rows(self) -> None:
        assert text_faults(Path(self.hold.hold.store.path)) == []


def text_faults(path: Path) -> list[str]:
    """What FTS5 itself finds when it compares its index with the rows."""
    with closing(apsw.Connection(str(path))) as raw:
        try:
            raw.execute("begin immediate; insert into memory_text (memory_text, rank) values ('integrity-check', 1)")
        except apsw.Error as error:
            return [str(error)]
        finally:
            raw.execute("rollback")
    return []


TestAnyHistory = pytest.mark.slow(AnyHistory.TestCase)
TestAnyHistory.settings = settings(
    max_examples=30, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


def test_nothing_of_a_purged_memory_is_left_in_the_file(tmp_path: Path) -> None:
    """But the names of its cells: a tag and a key of the metadata must be known for others to forget them too."""
    path = tmp_path / "memory.db"
    words = {"titlecanary", "contentcanary", "valuecanary", "oldcanary", "uricanary"}
    with holdfast.open(str(path), agent_id="ai:tester@here") as hold:
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
    found = {file.name: {word for word in words if word.encode() in file.read_bytes()} for file in tmp_path.iterdir()}
    assert found == {"memory.db": set(), "memory.db.key": set()}
    assert text_faults(path) == []


@pytest.mark.slow
def test_a_log_that_a_long_reader_let_grow_shrinks_when_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    log = Path(f"{path}-wal")
    with holdfast.open(str(path)) as hold, holdfast.open(str(path)) as reader:
        with reader.hold.reading() as session:
            session.rows("kept_all")
            while log.stat().st_size < 2 * LOG_LIMIT:
                hold.bulk_store(
                    memories=[{"title": f"{log.stat().st_size}-{n}", "content": "x" * 60_000} for n in range(20)]
                )
        for number in range(3):
            hold.store(title=f"After {number}", content="The reader ended.")
        assert log.stat().st_size <= LOG_LIMIT
