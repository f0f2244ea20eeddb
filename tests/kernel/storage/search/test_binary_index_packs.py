"""The binary index is loaded from packed blocks: a new process sees exactly the rows."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import numpy
import pytest
from old_stores import write_old_store
from plans import SqlitePlans

import holdfast
from holdfast.app import Holdfast
from holdfast.features.embeddings import store as vectors
from holdfast.kernel.storage.sqlite.binary_index import BLOCK_SIZE, LoadedIndex
from holdfast.kernel.storage.sqlite.connection import open_database
from holdfast.kernel.storage.sqlite.engine import SqliteSession, SqliteStore
from holdfast.kernel.vector import Vector, signs_of
from holdfast.settings import Settings

MANY = 2 * BLOCK_SIZE + 300
Read = list[tuple[int, int, bytes]]


def open_file(file: Path) -> Holdfast:
    return holdfast.open(settings=Settings(db=str(file), agent_id="ai:tester@here", embedder="none"))


def store_numbered(hold: Holdfast, many: int) -> list[str]:
    told = [{"title": f"Number {n}", "content": f"number {n}"} for n in range(many)]
    return [id for first in range(0, many, 1000) for id in hold.bulk_store(memories=told[first : first + 1000]).ids]


def keep(hold: Holdfast, ids: list[str], model: str = "one") -> None:
    """Replace the vectors of memories."""
    table = numpy.random.default_rng(len(ids)).standard_normal((len(ids), 64)).astype("<f4")
    with hold.ctx.store.transaction() as session:
        hashes = {one.id: one.text_hash for one in vectors.filter_due(session, "none yet", ids)}
        rows = [Vector(row.tobytes()) for row in table / numpy.linalg.norm(table, axis=1, keepdims=True)]
        made = zip(ids, rows, strict=True)
        vectors.put_embeddings(
            session, [vectors.PassageEmbedding(id, model, 0, 5, 64, hashes[id], 0, row) for id, row in made]
        )


def drop(hold: Holdfast, ids: list[str]) -> None:
    with hold.ctx.store.transaction() as session:
        for id in ids:
            vectors.drop_embeddings(session, id)


def read(hold: Holdfast, signs: LoadedIndex, model: str = "one") -> Read:
    with hold.ctx.reading() as session:
        assert isinstance(session, SqliteSession)
        table = signs.current(session, model, 8)
    columns = (table.numbers[: table.used], table.rows[: table.used], table.words[:, : table.used].T)
    return [(int(number), int(row), words.tobytes()) for number, row, words in zip(*columns, strict=True)]


def rows(hold: Holdfast, model: str = "one") -> Read:
    sql = "select number, rowno, bits from binary_index where model = :model order by number"
    with hold.ctx.reading() as session:
        return [tuple(row) for row in session.query_sql(sql, {"model": model})]


def packs(hold: Holdfast) -> dict[int, bytes]:
    with hold.ctx.reading() as session:
        return dict(session.query_sql("select block, packed from binary_index_pack where model = 'one'", {}))


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    file = tmp_path_factory.mktemp("crowd") / "memory.db"
    with open_file(file) as hold:
        ids = store_numbered(hold, MANY)
        keep(hold, ids)
    return file, ids


@pytest.fixture
def many(crowd: tuple[Path, list[str]], tmp_path: Path) -> Iterator[Holdfast]:
    with open_file(crowd[0]) as hold:
        hold.ctx.store.snapshot(tmp_path / "memory.db")
    with open_file(tmp_path / "memory.db") as hold:
        yield hold


@pytest.fixture
def ids(crowd: tuple[Path, list[str]]) -> list[str]:
    return crowd[1]


def test_full_blocks_are_packed_and_only_the_others_are_read_by_row(many: Holdfast) -> None:
    store = many.ctx.store
    assert isinstance(store, SqliteStore)
    assert sorted(packs(many)) == [0, 1]
    with SqlitePlans(store).record_statements() as seen:
        assert read(many, LoadedIndex()) == rows(many)
    assert [given["after"] for sql, given in seen if "number > :after" in sql and "rowno" in sql] == [2 * BLOCK_SIZE]


def test_new_and_old_processes_know_the_rows_after_any_additions_and_removals(many: Holdfast, ids: list[str]) -> None:
    random, old = Random(7), LoadedIndex()
    for _ in range(10):
        keep(many, random.sample(ids, 90))
        drop(many, random.sample(ids, 60))
        keep(many, random.sample(ids, 40), "two")
        for model in ("one", "two"):
            assert read(many, LoadedIndex(), model) == rows(many, model)
        assert set(read(many, old)) >= set(rows(many))
        assert len(set(read(many, old))) == len(read(many, old))
    assert sum(map(len, packs(many).values())) // 24 > len(rows(many)) // 2


def test_a_long_idle_process_reads_only_what_was_added_since(many: Holdfast, ids: list[str]) -> None:
    old = LoadedIndex()
    before = read(many, old)
    keep(many, ids)
    assert read(many, old) == before + rows(many)


def test_a_mostly_deleted_block_is_packed_again(many: Holdfast, ids: list[str]) -> None:
    drop(many, ids[:100])
    keep(many, ids[-128:])
    assert len(packs(many)[0]) == BLOCK_SIZE * 24
    drop(many, ids[100:128])
    keep(many, ids[-128:])
    assert len(packs(many)[0]) == (BLOCK_SIZE - 128) * 24
    assert read(many, LoadedIndex()) == rows(many)


def test_a_model_without_embeddings_leaves_no_packs(many: Holdfast, ids: list[str]) -> None:
    with many.ctx.store.transaction() as session:
        session.do("embedding_delete_model", model="one")
    keep(many, ids[:256], "two")
    assert packs(many) == {}
    assert read(many, LoadedIndex()) == []
    assert read(many, LoadedIndex(), "two") == rows(many, "two")


def test_purged_embeddings_are_in_no_pack(many: Holdfast, ids: list[str]) -> None:
    ((number, _, signs), *_) = rows(many)
    assert signs in packs(many)[0]
    many.archive(ids=[ids[0]])
    many.archive_purge(ids=[ids[0]])
    assert number not in {one for one, _, _ in rows(many)}
    assert signs not in packs(many)[0]
    assert read(many, LoadedIndex()) == rows(many)


def test_an_older_store_is_packed_when_it_is_opened(many: Holdfast, tmp_path: Path) -> None:
    file, before = tmp_path / "old" / "memory.db", packs(many)
    write_old_store(many.ctx.store, str(file), 28)
    with open_file(file) as again:
        assert packs(again) == before
        assert read(again, LoadedIndex()) == rows(again)


def test_rows_are_packed_in_the_order_of_their_numbers() -> None:
    with closing(open_database(":memory:")) as plain:
        one, other = signs_of(Vector(bytes(256))), signs_of(Vector(b"\xff" * 256))
        told = [(2, 7, one), (1, 9, other)]
        sql = "select signs_packed(column1, column2, column3) from (values (?, ?, ?), (?, ?, ?))"
        ((value,),) = plain.execute(sql, [cell for row in told for cell in row])
    assert value == b"".join(number.to_bytes(8, "little") for number in (1, 2, 9, 7)) + other + one
