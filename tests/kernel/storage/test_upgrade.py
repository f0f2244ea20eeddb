"""A store of an older version is migrated as if this version had written it, or not changed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest
from old_stores import write_old_store

import holdfast
from engines import raw_connection
from holdfast.app import Holdfast
from holdfast.features.memories.read_memories import EVERYTHING
from holdfast.features.recall import search_index
from holdfast.kernel.storage import data_migrations, migrations
from holdfast.kernel.storage.copy_destinations import tables
from holdfast.kernel.storage.index_terms import encode_terms
from holdfast.kernel.storage.open_by_address import open_store
from holdfast.kernel.storage.port import Store
from holdfast.kernel.storage.sqlite import engine as sqlite_engine
from holdfast.kernel.text import words
from holdfast.kernel.vector import Embedding, unit_vector

LATEST = migrations.load_migrations(*sqlite_engine.FOLDERS)[-1].number
ADDED = {f"memory.{name}" for name in ("thread_key", "position", "bigrams", "index_terms")}
ADDED |= {"embedding.begins", "embedding.ends"}
"""Columns that the third migration added, by their names of today."""

EMOJI = migrations.load_migrations(*sqlite_engine.FOLDERS)[24:25]

SAID: list[dict[str, Any]] = [
    {"title": "Plain", "content": "A note that nobody said."},
    {
        "title": "Turn 1",
        "content": "[2026-01-04 10:00] Ada: Where do we put the plums?",
        "thread": "kitchen",
        "place": 1,
    },
    {"title": "Turn 2", "content": "Ben: Into the oven, as always.", "thread": "kitchen", "place": 2},
    {"title": "Spoken", "content": "I said this on its own.", "speaker": "Ada"},
    {"title": "Timed", "content": "We met then.", "speaker": "Ben", "occurred_at": "2026-01-04T10:00:00Z"},
    {"title": "東京", "content": "東京は日本の首都です。", "tags": ["日本語", "city"]},
    {"title": "Long", "content": "A sentence of some words to be cut apart. " * 12, "tags": ["long"]},
    {"title": "Odd", "content": "tabs\tand\r\nlines\u2028 and <b>marks</b> ' \" \\ :x %s"},
]


def furnish(hold: Holdfast, more: int = 0) -> None:
    """Store memories of every sort, with vectors of whole texts, as older versions did."""
    kept = [hold.store(**said, tier="long", embedding=by(1, number)).id for number, said in enumerate(SAID)]
    hold.archive(ids=[kept[3]])
    hold.delete(id=kept[4])
    hold.link(source_id=kept[0], target_id=kept[1])
    hold.store(title="Without a vector", content="of its own")
    for first in range(0, more, 250):
        hold.bulk_store(
            memories=[
                {"title": f"Turn {number} of many", "content": "Ada: so it went on, 日本語. " * 20, "thread": "long"}
                for number in range(first, first + 250)
            ]
        )


def by(*numbers: float) -> dict[str, Any]:
    return {"model": "own", "vector": list(numbers)}


def everything(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    with store.reading() as session:
        return {table.name: table.rows(session, None) for table in tables()}


def open_address(address: str) -> Holdfast:
    return holdfast.open(address, agent_id="ai:tester@here")


@pytest.fixture
def new_place(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[], str]]:
    """Addresses of stores that do not exist yet."""
    with ExitStack() as stack:
        places = iter(range(99))

        def new_place() -> str:
            if engine == "sqlite":
                return str(tmp_path / f"place-{next(places)}" / "memory.db")
            return str(stack.enter_context(request.getfixturevalue("postgres").new_store()))

        yield new_place


@pytest.mark.parametrize("last", [1, 2])
def test_an_upgraded_store_equals_one_written_by_this_release(
    new_place: Callable[[], str], tmp_path: Path, last: int
) -> None:
    address = new_place()
    with open_address(new_place()) as new:
        furnish(new)
        expected = everything(new.ctx.store)
        write_old_store(new.ctx.store, address, last)
    if last == 1:
        expected["embedding"] = []
    for _ in range(2):
        with open_address(address) as hold:
            assert everything(hold.ctx.store) == expected
            assert hold.ctx.store.faults() == []
            assert hold.verify().intact


def test_a_store_of_the_second_release_is_searchable_by_later_features(
    new_place: Callable[[], str], tmp_path: Path
) -> None:
    address = new_place()
    with open_address(new_place()) as new:
        furnish(new)
        write_old_store(new.ctx.store, address, 2)
    with open_address(address) as hold:
        assert [hit.title for hit in hold.recall(context="日本の首都").memories][:1] == ["東京"]
        assert "Turn 2" in [hit.title for hit in hold.recall(context="where do we put the plums?").memories]
        with hold.ctx.reading() as session:
            asked, now = Embedding("own", unit_vector([1, 7])), hold.ctx.now()
            nearest = search_index.find_nearest(session, hold.ctx.caller, asked, EVERYTHING, now, limit=2)
            said = dict(session.query_sql("select id, content_hash from memory", {}))
            near = search_index.compute_nearness(session, asked, {id: said[id] for id, _ in nearest})
            assert [len(many) for many in near.values()] == [1, 1]
        assert [hold.get(id=id).title for id, _ in nearest] == ["Odd", "Long"]
        hold.store(title="Afterwards", content="Ada: And then?", thread="kitchen", place=3, embedding=by(1, 0))
        assert hold.verify().intact
        assert hold.ctx.store.faults() == []


def test_emoji_stored_before_they_were_indexed_are_found_after_the_upgrade(
    new_place: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [{"title": f"Party {sign}", "content": f"We had cake and tea and {sign} until late"} for sign in "🎉☕x"]

    def read_terms_and_bands(hold: Holdfast) -> list[Any]:
        with hold.ctx.reading() as session:
            texts = session.query_sql("select title, bigrams, index_terms from memory order by title", {})
            return [*texts, *session.query_sql("select band, exact from lsh_band order by band", {})]

    with open_address(new_place()) as new, open_address(new_place()) as old:
        new.bulk_store(memories=said)
        with monkeypatch.context() as patch:
            patch.setattr(words, "emoji_words", lambda text: [])
            encode_terms.cache_clear()
            old.bulk_store(memories=said)
        encode_terms.cache_clear()
        assert read_terms_and_bands(old) != read_terms_and_bands(new)
        with old.ctx.store.transaction() as session:
            data_migrations.apply_data_migrations(EMOJI, session)
        assert read_terms_and_bands(old) == read_terms_and_bands(new)
        assert [one.title for one in old.search("🎉").results] == ["Party 🎉"]
        assert old.verify().intact
        assert old.ctx.store.faults() == []


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_backup_of_the_store_before_the_upgrade_stays_beside_it(new_place: Callable[[], str], tmp_path: Path) -> None:
    address = new_place()
    with open_address(new_place()) as new:
        furnish(new)
        write_old_store(new.ctx.store, address, 2)
    open_address(address).close()
    (backup,) = Path(address).parent.glob("memory.db.before-v3-*")
    assert (state_of(str(backup)), state_of(address)) == (2, LATEST)


# Killed


OPEN = """
import sys, holdfast
from holdfast.kernel.storage.open_by_address import open_store
print("begun", flush=True)
open_store(sys.argv[1]).close()
"""


def killed_within(seconds: float | None, address: str) -> bool:
    """Migrate a store in another process and kill it after a while, unless it has finished before."""
    with subprocess.Popen([sys.executable, "-c", OPEN, address], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "begun\n"
        try:
            other.wait(seconds)
        except subprocess.TimeoutExpired:
            other.kill()
        return other.wait() != 0


def state_of(address: str) -> int:
    """Return the last migration of a store, after checking that exactly its additions exist."""
    if "://" in address:
        with raw_connection(address) as raw:
            ask = lambda sql: raw.execute(sql).fetchall()  # noqa: E731
            columns = ask(
                "select table_name || '.' || column_name from information_schema.columns "
                "where table_schema = current_schema"
            )
            return must_be_one(ask, {str(name) for (name,) in columns})
    with closing(apsw.Connection(address, flags=apsw.SQLITE_OPEN_READWRITE)) as raw:
        ask = lambda sql: raw.execute(sql).fetchall()  # noqa: E731
        columns = ask("select m.name || '.' || c.name from sqlite_schema m, pragma_table_info(m.name) c")
        assert ask("pragma integrity_check") == [("ok",)]
        return must_be_one(ask, {str(name) for (name,) in columns})


def must_be_one(ask: Callable[[str], list[Any]], columns: set[str]) -> int:
    last = int(ask("select max(number) from migration")[0][0])
    assert ADDED & columns == (set() if last == 2 else ADDED)
    if last == LATEST:
        assert ask("select count(*) from memory where state <> 'deleted' and index_terms = ''") == [(0,)]
        assert ask("select count(*) from memory where thread is not null and thread_key is null") == [(0,)]
        assert ask("select count(*) from memory where content like '%日本%' and bigrams = ''") == [(0,)]
        assert ask("select count(*) from embedding where ends = 0") == [(0,)]
    return last


@pytest.mark.full
def test_a_killed_upgrade_leaves_the_old_or_the_new_store(new_place: Callable[[], str], tmp_path: Path) -> None:
    """Kills are spread over the whole run, and it is restarted until it finishes; then another store is upgraded."""
    first, second, *others = (new_place() for _ in range(5))
    with open_address(new_place()) as new:
        furnish(new, more=250)
        expected = everything(new.ctx.store)
        for address in (first, second, *others):
            write_old_store(new.ctx.store, address, 2)
    begun = time.monotonic()
    assert not killed_within(None, first)
    lasts, random, killed = time.monotonic() - begun, Random(3), 0
    for _ in range(8):
        if state_of(second) == LATEST and others:
            second = others.pop()
        if state_of(second) == 2:
            killed += killed_within(lasts * random.uniform(0.05, 0.7), second)
            assert state_of(second) in (2, LATEST)
    assert killed >= 3
    with open_address(second) as hold:
        assert everything(hold.ctx.store) == expected
        assert hold.ctx.store.faults() == []
        assert hold.verify().intact


@contextmanager
def before_each_statement(act: Callable[[int], object]) -> Iterator[None]:
    """Call a function with the number of each statement before it runs, on connections opened inside the block."""
    numbers = count()

    def next_one(*_: object) -> bool:
        act(next(numbers))
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = next_one

    apsw.connection_hooks.append(watch)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(watch)


def killed_before(statement: int, path: Path) -> bool:
    """Open a store in a process that kills itself before a statement; return whether it did."""
    child = os.fork()
    if child == 0:
        try:
            with before_each_statement(lambda at: os.kill(os.getpid(), signal.SIGKILL) if at == statement else None):
                open_store(str(path))
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def said_in(path: Path) -> tuple[int, list[Any]]:
    """Return the version and all content of a file: tables, indexes, triggers and rows."""
    with closing(apsw.Connection(str(path))) as raw:
        assert raw.execute("pragma quick_check").fetchall() == [("ok",)]
        made = raw.execute("select type, name, sql from sqlite_schema order by type, name").fetchall()
        rows = [raw.execute(f'select * from "{name}"').fetchall() for type, name, _ in made if type == "table"]
        number = raw.pragma("user_version")
        assert isinstance(number, int)
        return number, [made, rows]


@pytest.mark.parametrize("engine", ["sqlite"])
def test_killing_an_upgrade_before_any_statement_leaves_all_or_nothing(
    new_place: Callable[[], str], tmp_path: Path
) -> None:
    """A kill leaves the files as they are: they are checked before each statement; some kills are real."""
    old = tmp_path / "old.db"
    with open_address(new_place()) as new:
        furnish(new)
        write_old_store(new.ctx.store, str(old), 1)
    before = said_in(old)

    def fresh(name: str) -> Path:
        for part in ("", ".key"):
            shutil.copy(f"{old}{part}", tmp_path / f"{name}.db{part}")
        return tmp_path / f"{name}.db"

    path = fresh("whole")

    def keep(number: int) -> None:
        for file in (path, Path(f"{path}-wal")):
            if file.exists():
                shutil.copy(file, tmp_path / file.name.replace("whole", f"at-{number}"))

    with before_each_statement(keep):
        open_store(str(path)).close()
    left = [said_in(tmp_path / f"at-{number}.db") for number in range(len(list(tmp_path.glob("at-*.db"))))]
    done = [number for number, found in enumerate(left) if found != before]
    assert {left[number][0] for number in done} <= {LATEST}
    assert len(left) - len(done) > 5 * LATEST
    for number in range(0, len(left), 20):
        killed = fresh(f"killed-{number}")
        assert killed_before(number, killed)
        assert said_in(killed)[0] == left[number][0]
        open_store(str(killed)).close()
        assert said_in(killed)[0] == LATEST
