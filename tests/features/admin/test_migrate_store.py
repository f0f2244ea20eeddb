"""Migrate a store between any two engines: nothing is lost, and an unfinished target is never used as a store."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import psycopg
import pytest
from store_with_everything import NEAR, furnish, open_at

import holdfast
from engines import ENGINES, Postgres
from holdfast.kernel.context import Caller, Progress
from holdfast.kernel.errors import Forbidden, HoldfastError, OperationCancelled
from holdfast.kernel.storage.copy_destinations import tables
from holdfast.kernel.storage.open_by_address import open_store
from holdfast.kernel.storage.postgres.address import parse_address


class Pair(NamedTuple):
    """The source and target addresses of a migration."""

    source: str
    target: str


@pytest.fixture(params=["postgres", pytest.param("sqlite", marks=pytest.mark.full)])
def target_engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


EACH_WAY = pytest.mark.parametrize(
    ("engine", "target_engine"), [ENGINES, pytest.param(*ENGINES[::-1], marks=pytest.mark.full)], indirect=True
)
"""For rejected migrations and dry runs: each engine is the source once and the target once."""


@pytest.fixture
def new_place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[str], str]]:
    """Return unused addresses."""
    numbers = count(1)
    with ExitStack() as stack:

        def new_place(engine: str) -> str:
            if engine == "postgres":
                server: Postgres = request.getfixturevalue("postgres")
                return stack.enter_context(server.new_store())
            return str(tmp_path / f"place-{next(numbers)}" / "memory.db")

        yield new_place


@pytest.fixture
def pair(engine: str, target_engine: str, new_place: Callable[[str], str]) -> Pair:
    return Pair(new_place(engine), new_place(target_engine))


@pytest.fixture
def source(pair: Pair) -> Iterator[holdfast.Holdfast]:
    with open_at(pair.source) as hold:
        furnish(hold)
        yield hold


def everything(hold: holdfast.Holdfast) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every table."""
    with hold.ctx.store.reading() as session:
        return {table.name: table.rows(session, None) for table in tables()}


def read_views(hold: holdfast.Holdfast) -> dict[str, Any]:
    """Read everything that users see of a store."""
    return {
        "export": {**hold.export(), "exported_at": ""},
        "events": hold.events(after=0, limit=1000).events,
        "keys": hold.key_list().keys,
        "inbox": hold.inbox().messages,
        "archive": hold.archive_list(),
        "policies": [hold.policy_get(namespace=place) for place in ("global", "team", "else")],
        "waiting": hold.pending_list().pending,
        "offers": hold.reflect_suggest(again=True, dry_run=True).suggestions,
        "stale": hold.invalidations().invalidations,
        "skills": hold.skill_list(),
        "found": {found.title for found in hold.search(query="number many").results},
        "near": {found.title for found in hold.recall(context="of", embedding=NEAR, limit=50).memories},
        "spans": hold.recall(context="of", embedding={**NEAR, "model": "passages"}, limit=1).memories,
        "vectors": hold.stats().embeddings,
    }


def must_be_well(hold: holdfast.Holdfast) -> None:
    assert hold.verify().intact
    assert hold.ctx.store.faults() == []
    assert [one for one in hold.doctor().sections if one.severity == "critical"] == []


def stopping(after: int, before: Callable[[], None] = lambda: None) -> Progress:
    """Return a progress that cancels after a number of reports."""
    stop, seen = threading.Event(), []

    def report(done: int, total: int, what: str) -> None:
        seen.append(done)
        if len(seen) == after:
            before()
            stop.set()

    return Progress(report, stop)


def test_a_migrated_store_has_everything(pair: Pair, source: holdfast.Holdfast) -> None:
    before = everything(source)
    assert [name for name, rows in before.items() if not rows] == []
    answer = source.migrate(to=pair.target)
    assert {one.table: one.rows for one in answer.tables} == {name: len(rows) for name, rows in before.items()}
    assert (answer.moved, answer.resumed, answer.rows) == (True, False, sum(map(len, before.values())))
    with open_at(pair.target) as moved:
        assert everything(moved) == before == everything(source)
        assert read_views(moved) == read_views(source)
        must_be_well(moved)


@pytest.mark.full
def test_a_migrated_store_continues_as_a_new_incarnation_with_the_same_key(
    pair: Pair, source: holdfast.Holdfast
) -> None:
    source.migrate(to=pair.target)
    last = source.events(after=0, limit=1000).events[-1]
    with open_at(pair.target) as moved:
        made = moved.store(title="Afterwards", content="written in the new place")
        change = moved.events(after=last.seq).events[0]
        assert (change.seq, change.number, change.origin != last.origin) == (last.seq + 1, 1, True)
        assert [found.id for found in moved.search(query="afterwards").results] == [made.id]
        must_be_well(moved)
        assert moved.verify().node == source.verify().node
        with moved.ctx.reading() as there, source.ctx.reading() as here:
            assert moved.ctx.store.signing_key(there) == source.ctx.store.signing_key(here)


@pytest.mark.full
def test_a_store_migrated_there_and_back_is_the_same(
    pair: Pair, source: holdfast.Holdfast, new_place: Callable[[str], str], engine: str
) -> None:
    back = new_place(engine)
    there = source.migrate(to=pair.target)
    with open_at(pair.target) as moved:
        assert moved.migrate(to=back).sha256 == there.sha256
    with open_at(back) as again:
        assert read_views(again) == read_views(source)
        must_be_well(again)


@EACH_WAY
def test_a_dry_run_reports_what_would_be_migrated_and_leaves_no_trace(
    pair: Pair, source: holdfast.Holdfast, tmp_path: Path
) -> None:
    files = sorted(map(str, tmp_path.rglob("*")))
    answer = source.migrate(to=pair.target, dry_run=True)
    assert {one.table: one.rows for one in answer.tables} == {n: len(rows) for n, rows in everything(source).items()}
    assert (answer.moved, answer.dry_run, answer.resumed) == (False, True, False)
    assert sorted(map(str, tmp_path.rglob("*"))) == files
    with pytest.raises(HoldfastError) as refused:
        source.migrate(**{"from": pair.target, "to": pair.target + "x"})
    assert refused.value.code == "STORE_NOT_FOUND"


@pytest.mark.parametrize(
    "after", [pytest.param(2, marks=pytest.mark.full), 20, pytest.param(40, marks=pytest.mark.full)]
)
def test_an_interrupted_migration_is_not_a_store_and_resumes(pair: Pair, source: holdfast.Holdfast, after: int) -> None:
    with pytest.raises(OperationCancelled):
        source.call("migrate", {"to": pair.target}, progress=stopping(after))
    with pytest.raises(HoldfastError) as refused:
        open_at(pair.target)
    assert (refused.value.code, "run it again" in refused.value.message) == ("NOT_A_STORE", True)
    with pytest.raises(HoldfastError):
        source.migrate(**{"from": pair.target, "to": pair.target + "x"})
    change(source)
    assert source.migrate(to=pair.target, dry_run=True).resumed
    assert source.migrate(to=pair.target).resumed
    with open_at(pair.target) as moved:
        assert everything(moved) == everything(source)
        must_be_well(moved)


def change(hold: holdfast.Holdfast) -> None:
    """Make changes that an unfinished copy must not keep: moved titles, removed tags and embeddings."""
    one, other = (hold.search(query=f"Memory {number}").results[0].id for number in (12, 17))
    hold.update(one, title="Aside")
    hold.update(other, title="Memory 12", tags=[], content="it has another's title")
    hold.update(one, title="Memory 17")
    hold.delete(hold.search(query="Memory 13").results[0].id)
    hold.store(title="New", content="came between")


def test_writes_during_a_migration_are_migrated_too(pair: Pair, source: holdfast.Holdfast) -> None:
    written, first = list[str](), source.search(query="Odd").results[0].id

    def write(done: int, total: int, what: str) -> None:
        if len(written) < 12:
            with open_at(pair.source) as other:
                written.append(other.store(title=f"Meanwhile {len(written)}", content=what, tags=[what]).id)
                other.link(source_id=written[-1], target_id=first)

    source.call("migrate", {"to": pair.target}, progress=Progress(write))
    with open_at(pair.target) as moved:
        assert everything(moved) == everything(source)
        assert {row["id"] for row in moved.export()["memories"]}.issuperset(written)
        must_be_well(moved)


@pytest.mark.full
def test_a_store_restored_during_a_migration_is_migrated_as_it_is_now(pair: Pair, source: holdfast.Holdfast) -> None:
    snapshot = source.backup().snapshot
    for number in range(5):
        source.store(title=f"Undone {number}", content="taken back", embedding=NEAR, tags=["undone"])
    with pytest.raises(OperationCancelled):
        source.call("migrate", {"to": pair.target}, progress=stopping(40))
    source.restore(snapshot)
    for number in range(3):
        source.store(title=f"Instead {number}", content="under the same row number")
    source.migrate(to=pair.target)
    with open_at(pair.target) as moved:
        assert everything(moved) == everything(source)
        assert moved.search(query="undone").results == []
        must_be_well(moved)


@pytest.mark.full
def test_the_latest_of_two_migrations_continues_and_the_other_ends(pair: Pair, source: holdfast.Holdfast) -> None:
    def begin_another() -> None:
        with open_at(pair.source) as other, pytest.raises(OperationCancelled):
            other.call("migrate", {"to": pair.target}, progress=stopping(2))

    with pytest.raises(HoldfastError) as ended:
        source.call("migrate", {"to": pair.target}, progress=Progress(once(begin_another)))
    assert ended.value.code == "STORE_BUSY"
    source.migrate(to=pair.target)
    with open_at(pair.target) as moved:
        assert everything(moved) == everything(source)


def once(act: Callable[[], None]) -> Callable[[int, int, str], None]:
    left = [act]

    def report(done: int, total: int, what: str) -> None:
        if left:
            left.pop()()

    return report


def run_in(address: str, sql: str) -> None:
    """Run SQL without the store."""
    if "://" not in address:
        with closing(apsw.Connection(address)) as connection:
            connection.execute(sql).fetchall()
    else:
        where = parse_address(address, Path())
        with psycopg.connect(where.conninfo, autocommit=True) as connection:
            connection.execute(f"set search_path = {where.schema}")
            connection.execute(sql)


def test_a_differing_copy_is_found_and_is_not_a_store(pair: Pair, source: holdfast.Holdfast) -> None:
    def spoil(done: int, total: int, what: str) -> None:
        if done == 2 * total // 3 and not spoilt:
            run_in(pair.target, "update memory_access set uses = uses + 1")
            spoilt.append(what)

    spoilt = list[str]()
    with pytest.raises(HoldfastError) as found:
        source.call("migrate", {"to": pair.target}, progress=Progress(spoil))
    assert (len(spoilt), found.value.code, "memory_access" in found.value.message) == (1, "STORE_DAMAGED", True)
    with pytest.raises(HoldfastError) as refused:
        open_at(pair.target)
    assert refused.value.code == "NOT_A_STORE"
    source.migrate(to=pair.target)
    with open_at(pair.target) as moved:
        assert everything(moved) == everything(source)


@EACH_WAY
def test_a_target_with_memories_is_refused_unchanged(pair: Pair, source: holdfast.Holdfast) -> None:
    with open_at(pair.target) as there:
        there.store(title="Mine", content="was here first")
        before = everything(there)
        for dry_run in (True, False):
            with pytest.raises(HoldfastError) as refused:
                source.migrate(to=pair.target, dry_run=dry_run)
            assert refused.value.code == "CONFLICT"
        assert everything(there) == before
        must_be_well(there)


@EACH_WAY
def test_a_store_cannot_be_migrated_onto_itself(pair: Pair, source: holdfast.Holdfast) -> None:
    before = everything(source)
    with pytest.raises(HoldfastError) as refused:
        source.migrate(to=pair.source)
    assert refused.value.code == "VALIDATION_FAILED"
    assert everything(source) == before


@EACH_WAY
def test_an_unfinished_migration_of_another_store_is_left_unchanged(
    pair: Pair, source: holdfast.Holdfast, new_place: Callable[[str], str]
) -> None:
    with open_at(new_place("sqlite")) as other:
        other.store(title="Theirs", content="not done yet")
        with pytest.raises(OperationCancelled):
            other.call("migrate", {"to": pair.target}, progress=stopping(3))
        with pytest.raises(HoldfastError) as refused:
            source.migrate(to=pair.target)
        assert refused.value.code == "CONFLICT"
        other.migrate(to=pair.target)
        with open_at(pair.target) as moved:
            assert everything(moved) == everything(other)


@EACH_WAY
def test_data_of_another_program_at_the_target_is_refused_unchanged(pair: Pair, source: holdfast.Holdfast) -> None:
    if "://" in pair.target:
        run_in(pair.target, f"create schema {parse_address(pair.target, Path()).schema}")
    else:
        Path(pair.target).parent.mkdir()
    run_in(pair.target, "create table theirs (x text)")
    for dry_run in (True, False):
        with pytest.raises(HoldfastError) as refused:
            source.migrate(to=pair.target, dry_run=dry_run)
        assert refused.value.code == "NOT_A_STORE"
    run_in(pair.target, "insert into theirs values ('still there')")


@EACH_WAY
def test_a_missing_source_is_not_created(pair: Pair) -> None:
    for _ in range(2):
        with open_at(pair.target) as other, pytest.raises(HoldfastError) as refused:
            other.migrate(**{"from": pair.source, "to": pair.source + "x"})
        assert refused.value.code == "STORE_NOT_FOUND"


@pytest.mark.full
def test_a_store_migrated_without_its_key_makes_one_at_the_next_write(pair: Pair, source: holdfast.Holdfast) -> None:
    if "://" in pair.source:
        run_in(pair.source, "delete from node_key")
    else:
        Path(pair.source + ".key").unlink()
    source.migrate(to=pair.target)
    with open_at(pair.target) as moved:
        assert everything(moved) == everything(source)
        moved.store(title="Afterwards", content="under a new key")
        must_be_well(moved)


def test_an_existing_key_at_the_target_is_not_overwritten(source: holdfast.Holdfast, tmp_path: Path) -> None:
    (tmp_path / "new.db.key").write_bytes(b"k" * 64)
    with pytest.raises(HoldfastError) as refused:
        source.migrate(to=str(tmp_path / "new.db"))
    assert refused.value.code == "CONFLICT"
    assert ((tmp_path / "new.db.key").read_bytes(), (tmp_path / "new.db").exists()) == (b"k" * 64, False)


@EACH_WAY
def test_migration_requires_a_local_caller_with_full_rights(pair: Pair, source: holdfast.Holdfast) -> None:
    for caller in (
        Caller(agent="ai:far@away", source="api"),
        Caller(agent="ai:writer@here", right="write"),
        Caller(agent="ai:some@here", namespaces=("team",)),
    ):
        with pytest.raises(Forbidden):
            source.call("migrate", {"to": pair.target}, caller=caller)


@pytest.mark.full
def test_a_migrated_store_numbers_its_next_memory_after_all_others(pair: Pair, source: holdfast.Holdfast) -> None:
    source.migrate(to=pair.target)
    with open_at(pair.target) as moved, closing(open_store(pair.target)) as store:
        with store.reading() as session:
            before = session.rows("memory_last_row")[0][0]
        moved.store(title="Next", content="one more")
        with store.reading() as session:
            assert session.rows("memory_last_row")[0][0] > before
