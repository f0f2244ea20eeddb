"""Search by the in-memory binary index: no misses, no deleted vectors."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans import SqlitePlans

import holdfast
from holdfast.app import Holdfast
from holdfast.features.embeddings import passage_vectors as vectors
from holdfast.features.memories.read_memories import EVERYTHING, Filter
from holdfast.features.recall import search_index
from holdfast.kernel.context import Caller
from holdfast.kernel.storage.sqlite.engine import SqliteStore
from holdfast.kernel.storage.sqlite.vectors import MIN_MEASURED
from holdfast.kernel.vector import Embedding, Vector, signs_of, unit_vector
from holdfast.settings import Settings

ME = Caller("ai:tester@here")


@pytest.fixture(params=["sqlite"])
def engine(request: pytest.FixtureRequest) -> str:
    """PostgreSQL has its own index; the tests of restores and other processes apply there too."""
    return str(request.param)


def mixture(seed: int, many: int, dim: int, clusters: int) -> "numpy.ndarray[Any, Any]":
    """Return vectors around some centres, like texts around topics."""
    random = numpy.random.default_rng(seed)
    found = 0.6 * random.standard_normal((many, dim))
    found += random.standard_normal((clusters, dim))[random.integers(0, clusters, many)]
    return (found / numpy.linalg.norm(found, axis=1, keepdims=True)).astype("<f4")


def put_vectors(hold: Holdfast, ids: list[str], table: "numpy.ndarray[Any, Any]", model: str = "one") -> None:
    """Store the vectors of memories."""
    with hold.ctx.store.transaction() as session:
        due = {one.id: one for one in vectors.filter_due(session, model, ids)}
        vectors.put_embeddings(
            session,
            [
                vectors.PassageEmbedding(id, model, 0, 5, table.shape[1], due[id].text_hash, 0, Vector(row.tobytes()))
                for id, row in zip(ids, table, strict=True)
            ],
        )


def store_numbered(hold: Holdfast, many: int, **more: Any) -> list[str]:
    ids: list[str] = []
    for first in range(len(ids), many, 500):
        told = [
            {"title": f"{more.get('namespace', '')} {n}", "content": f"number {n}", **more}
            for n in range(first, min(first + 500, many))
        ]
        ids += hold.bulk_store(memories=told).ids
    return ids


def near(
    hold: Holdfast, vector: Vector, which: Filter = EVERYTHING, *, limit: int = 10, model: str = "one"
) -> list[str]:
    with hold.ctx.reading() as session:
        found = search_index.find_nearest(session, ME, Embedding(model, vector), which, hold.ctx.now(), limit=limit)
    return [id for id, _ in found]


def open_address(address: str) -> Holdfast:
    return holdfast.open(settings=Settings(db=address, agent_id=ME.agent, embedder="none"))


# Bits


@given(st.integers(1, 200).flatmap(lambda dim: st.lists(st.floats(-1, 1), min_size=dim, max_size=dim).filter(any)))
def test_every_component_has_a_bit_and_padding_is_constant(numbers: list[float]) -> None:
    bits = numpy.frombuffer(signs_of(unit_vector(numbers)), numpy.uint8)
    expected = [numpy.signbit(number) for number in numpy.frombuffer(unit_vector(numbers), "<f4")]
    found = numpy.unpackbits(bits, bitorder="little").tolist()
    assert len(bits) == -(-len(numbers) // 64) * 8
    assert found == [*reversed(expected), *[0] * (len(found) - len(expected))]


@given(st.integers(1, 130), st.integers(0, 2**32))
def test_the_hamming_distance_counts_components_with_different_signs(dim: int, seed: int) -> None:
    one, other = numpy.random.default_rng(seed).standard_normal((2, dim)).astype("<f4")
    both = int.from_bytes(signs_of(one.tobytes())) ^ int.from_bytes(signs_of(other.tobytes()))
    assert both.bit_count() == int((numpy.signbit(one) != numpy.signbit(other)).sum())


# Against an exhaustive search

MANY = 3000
FEW = 40


@pytest.fixture(scope="module", params=[384, 100], ids="{} numbers".format)
def crowd(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Holdfast, list[str], "numpy.ndarray[Any, Any]"]]:
    """Many memories, the first few apart from the others. 100 is not a multiple of the word size."""
    with open_address(str(tmp_path_factory.mktemp("crowd") / "memory.db")) as hold:
        ids = store_numbered(hold, FEW, namespace="few", tags=["rare"]) + store_numbered(
            hold, MANY - FEW, namespace="many"
        )
        table = mixture(request.param, MANY, request.param, 20)
        put_vectors(hold, ids, table)
        put_vectors(hold, ids[::2], mixture(1, MANY // 2, 256, 20), "other")
        yield hold, ids, table


def questions(table: "numpy.ndarray[Any, Any]", many: int) -> Iterator["numpy.ndarray[Any, Any]"]:
    random = numpy.random.default_rng(5)
    for place in random.integers(0, len(table), many):
        asked = table[place] + 0.03 * random.standard_normal(table.shape[1]).astype("<f4")
        yield asked / numpy.linalg.norm(asked)


def best_of(table: "numpy.ndarray[Any, Any]", asked: "numpy.ndarray[Any, Any]", many: int) -> list[int]:
    return [int(place) for place in numpy.argsort(-(table @ asked), kind="stable")[:many]]


Crowd = tuple[Holdfast, list[str], "numpy.ndarray[Any, Any]"]


def test_at_least_nine_of_the_ten_nearest_are_found_nearest_first(crowd: Crowd) -> None:
    hold, ids, table = crowd
    shares = []
    for asked in questions(table, 20):
        found, expected = near(hold, unit_vector(asked.tolist())), [ids[at] for at in best_of(table, asked, 10)]
        assert found[0] == expected[0]
        shares.append(len(set(found) & set(expected)))
    assert sum(shares) >= 9 * len(shares)
    assert min(shares) >= 7


@pytest.mark.parametrize("which", [Filter(namespace="few"), Filter(under="few"), Filter(tags=("rare",))], ids=str)
def test_a_selective_filter_finds_what_an_exhaustive_search_finds(crowd: Crowd, which: Filter) -> None:
    assert FEW < MIN_MEASURED
    hold, ids, table = crowd
    for asked in questions(table, 10):
        expected = [ids[at] for at in best_of(table[:FEW], asked, FEW)]
        assert near(hold, unit_vector(asked.tolist()), which, limit=5) == expected[:5]
        assert near(hold, unit_vector(asked.tolist()), which, limit=100) == expected


def test_all_rows_are_found_on_request(crowd: Crowd) -> None:
    hold, ids, table = crowd
    asked = next(questions(table, 1))
    assert near(hold, unit_vector(asked.tolist()), limit=2 * MANY) == [ids[at] for at in best_of(table, asked, MANY)]


def test_embeddings_of_another_model_are_never_returned(crowd: Crowd) -> None:
    hold, ids, table = crowd
    other = mixture(1, MANY // 2, 256, 20)
    for asked in questions(other, 5):
        found = near(hold, unit_vector(asked.tolist()), model="other")
        assert found[0] == ids[::2][best_of(other, asked, 1)[0]]
        assert set(found) <= set(ids[::2])
    assert near(hold, unit_vector([1.0] * table.shape[1]), model="nobody's") == []


def test_rows_added_by_another_model_are_read_once_and_not_per_query(hold: Holdfast) -> None:
    ids = store_numbered(hold, 20)
    put_vectors(hold, ids, mixture(1, 20, 64, 2))
    put_vectors(hold, ids, mixture(2, 20, 64, 2), "other")
    store = hold.ctx.store
    assert isinstance(store, SqliteStore)
    asked = unit_vector([1.0] * 64)
    before = near(hold, asked)
    with SqlitePlans(store).record_statements() as seen:
        assert near(hold, asked) == before
    assert [sql for sql, _ in seen if "number > :after" in sql] == []


@pytest.mark.parametrize("dim", [1, 2, 3, 63, 64, 65, 127, 129])
def test_embeddings_of_any_dimension_are_found_in_order(hold: Holdfast, dim: int) -> None:
    ids, table = store_numbered(hold, 30), mixture(dim, 30, dim, 3)
    put_vectors(hold, ids, table)
    for asked in mixture(9, 3, dim, 3):
        found = near(hold, Vector(asked.tobytes()), limit=30)
        cosines = {id: float(row @ asked) for id, row in zip(ids, table, strict=True)}
        assert [cosines[id] for id in found] == pytest.approx(sorted(cosines.values(), reverse=True), abs=1e-6)


# Current state of the store


CHANGE = """
import sys, holdfast
with holdfast.open(sys.argv[1], agent_id="ai:tester@here") as hold:
    match sys.argv[2]:
        case "store":
            print(hold.store(title="New", content="by another", embedding={"model": "one", "vector": [1, 0, 0]}).id)
        case "turn":
            hold.update(id=sys.argv[3], content="of now", embedding={"model": "one", "vector": [-1, 0, 0]})
        case "change":
            hold.update(id=sys.argv[3], content="something else")
        case "delete":
            hold.delete(id=sys.argv[3])
"""


@pytest.fixture
def other_process(address: str) -> Callable[..., str]:
    def change(*words: str) -> str:
        told = [sys.executable, "-c", CHANGE, address, *words]
        return subprocess.run(told, capture_output=True, text=True, check=True).stdout.strip()

    return change


@pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)
def test_changes_of_another_process_are_visible_to_the_next_query(
    hold: Holdfast, other_process: Callable[..., str]
) -> None:
    ids = store_numbered(hold, 3)
    put_vectors(hold, ids, numpy.array([[0.9, 0.4, 0], [0, 1, 0], [-0.9, 0.4, 0]], "<f4"))
    asked = unit_vector([1, 0, 0])
    assert near(hold, asked, limit=1) == ids[:1]
    new = other_process("store")
    assert near(hold, asked, limit=1) == [new]
    other_process("turn", new)
    assert near(hold, asked) == [ids[0], ids[1], ids[2], new]
    other_process("change", new)
    assert near(hold, asked) == ids
    other_process("delete", ids[0])
    assert near(hold, asked) == ids[1:]


def read_binary_index(hold: Holdfast) -> dict[int, bytes]:
    """Return the bits in memory by number."""
    store = hold.ctx.store
    assert isinstance(store, SqliteStore)
    return {
        int(number): column.tobytes()
        for table in store._binary_index().load()._tables.values()
        for number, column in zip(table.numbers[: table.used], table.words[:, : table.used].T, strict=True)
    }


def in_the_file(hold: Holdfast) -> dict[int, bytes]:
    with hold.ctx.reading() as session:
        return dict(session.query_sql("select number, bits from binary_index", {}))


def test_deleted_rows_are_released_from_memory(hold: Holdfast) -> None:
    ids, table = store_numbered(hold, 300), mixture(3, 300, 64, 3)
    put_vectors(hold, ids, table)
    near(hold, Vector(table[0].tobytes()))
    assert len(read_binary_index(hold)) == 300
    with hold.ctx.store.transaction() as session:
        for id in ids[20:]:
            vectors.drop_embeddings(session, id)
    assert set(near(hold, Vector(table[0].tobytes()), limit=20)) == set(ids[:20])
    assert read_binary_index(hold) == in_the_file(hold)
    put_vectors(hold, ids[20:40], table[20:40])
    assert near(hold, Vector(table[30].tobytes()), limit=1) == [ids[30]]
    assert read_binary_index(hold) == in_the_file(hold)


def test_a_recomputed_embedding_is_found_only_by_its_new_vector(hold: Holdfast) -> None:
    ids, table = store_numbered(hold, 200), mixture(4, 200, 64, 4)
    put_vectors(hold, ids, table)
    near(hold, Vector(table[0].tobytes()))
    with hold.ctx.store.transaction() as session:
        (one,) = vectors.filter_due(session, "none yet", [ids[7]])
        vectors.put_embeddings(
            session, [vectors.PassageEmbedding(one.id, "one", 0, 5, 64, one.text_hash, 0, unit_vector([1.0] * 64))]
        )
    with hold.ctx.reading() as session:
        asked = Embedding("one", unit_vector([1.0] * 64))
        ((first, cosine), *_) = search_index.find_nearest(session, ME, asked, EVERYTHING, hold.ctx.now(), limit=1)
        assert (first, cosine) == (ids[7], pytest.approx(1))
        ((_, before),) = search_index.find_nearest(
            session, ME, Embedding("one", Vector(table[7].tobytes())), EVERYTHING, hold.ctx.now(), limit=1
        )
    assert before < 0.999


def test_rows_of_a_rolled_back_writer_are_not_cached(hold: Holdfast) -> None:
    (one, other) = store_numbered(hold, 2)
    put_vectors(hold, [other], numpy.array([[0, 1, 0]], "<f4"))

    def put(session: Any, numbers: list[float]) -> None:
        (due,) = vectors.filter_due(session, "one", [one])
        vectors.put_embeddings(
            session, [vectors.PassageEmbedding(one, "one", 0, 5, 3, due.text_hash, 0, unit_vector(numbers))]
        )

    with suppress(ZeroDivisionError), hold.ctx.store.transaction() as session:
        put(session, [1, 0, 0])
        asked = Embedding("one", unit_vector([1, 0, 0]))
        assert search_index.find_nearest(session, ME, asked, EVERYTHING, hold.ctx.now(), limit=1)[0][0] == one
        raise ZeroDivisionError
    assert near(hold, unit_vector([1, 0, 0])) == [other]
    with hold.ctx.store.transaction() as session:
        put(session, [-1, 0, 0])
    near(hold, unit_vector([-1, 0, 0]))
    assert read_binary_index(hold) == in_the_file(hold)


@pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)
def test_a_restored_store_returns_no_embeddings_of_the_previous_one(hold: Holdfast, address: str) -> None:
    ids, table = store_numbered(hold, 160), mixture(6, 160, 64, 8)
    put_vectors(hold, ids[:80], table[:80])
    with open_address(address) as other:
        snapshot = hold.backup().snapshot
        with hold.ctx.store.transaction() as session:
            for id in ids[:80]:
                vectors.drop_embeddings(session, id)
        put_vectors(hold, ids[80:], table[80:])
        for one in (hold, other):
            assert near(one, Vector(table[100].tobytes()), limit=1) == [ids[100]]
            assert set(near(one, Vector(table[0].tobytes()), limit=200)) == set(ids[80:])
        hold.restore(snapshot)
        for one in (hold, other):
            assert set(near(one, Vector(table[100].tobytes()), limit=200)) == set(ids[:80])
            assert near(one, Vector(table[7].tobytes()), limit=1) == [ids[7]]
        put_vectors(hold, ids[80:], table[:79:-1])
        for one in (hold, other):
            assert near(one, Vector(table[100].tobytes()), limit=1) == [ids[80 + 159 - 100]]


def test_a_replaced_file_is_read_again(hold: Holdfast, db: str, tmp_path: Path) -> None:
    ids, table = store_numbered(hold, 160), mixture(7, 160, 64, 8)
    put_vectors(hold, ids[:80], table[:80])
    near(hold, Vector(table[0].tobytes()))
    copy = tmp_path / "copy.db"
    hold.ctx.store.snapshot(copy)
    put_vectors(hold, ids[80:], table[80:])
    assert near(hold, Vector(table[100].tobytes()), limit=1) == [ids[100]]
    with open_address(str(copy)) as aside:
        put_vectors(aside, ids[80:], table[:79:-1])
    for left in ("-wal", "-shm"):
        Path(f"{db}{left}").unlink(missing_ok=True)
    copy.rename(db)
    assert near(hold, Vector(table[100].tobytes()), limit=1) == [ids[80 + 159 - 100]]
    assert read_binary_index(hold) == in_the_file(hold)


def test_many_threads_search_while_one_writes(hold: Holdfast) -> None:
    ids, table = store_numbered(hold, 400), mixture(8, 400, 64, 8)
    put_vectors(hold, ids[:100], table[:100])
    begin, done = threading.Barrier(5), threading.Event()

    def search(number: int) -> int:
        begin.wait()
        asked = 0
        while not done.is_set() or asked < 3:
            at = (number + 4 * asked) % 100
            assert near(hold, Vector(table[at].tobytes()), limit=3)[0] == ids[at]
            asked += 1
        return asked

    with ThreadPoolExecutor(4) as threads:
        searching = [threads.submit(search, number) for number in range(4)]
        begin.wait()
        try:
            for first in range(100, 400, 20):
                put_vectors(hold, ids[first : first + 20], table[first : first + 20])
                with hold.ctx.store.transaction() as session:
                    for id in ids[first : first + 10]:
                        vectors.drop_embeddings(session, id)
        finally:
            done.set()
        assert all(one.result() >= 3 for one in searching)
    live = set(ids[:100]) | {id for first in range(110, 400, 20) for id in ids[first : first + 10]}
    assert set(near(hold, Vector(table[0].tobytes()), limit=400)) == live
