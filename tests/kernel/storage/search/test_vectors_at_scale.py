"""Searches among many embeddings use the index, and miss hardly anything."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy
import pytest
from vector_store import ME, cosine, direct, directions, near, store_with_vector

import holdfast
from engines import ENGINES, Postgres
from holdfast import Holdfast
from holdfast.features.embeddings import passage_vectors as vectors
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import EVERYTHING, Filter
from holdfast.kernel.context import Caller
from holdfast.kernel.storage.port import Session
from holdfast.kernel.storage.postgres.engine import STATEMENTS, PostgresSession, join_sql
from holdfast.kernel.storage.postgres.vectors import MAX_EXACT
from holdfast.kernel.storage.statements import load_statements
from holdfast.kernel.vector import Vector, unit_vector
from holdfast.settings import Settings


class Crowd(NamedTuple):
    """A store with many clustered vectors and a few others."""

    hold: Holdfast
    engine: str
    kept: dict[str, Vector]
    few: set[str]


MANY = 20_000


FAR = 1_500
"""More than few: found by the index, which has to search far."""


DIM = 384


@pytest.fixture(scope="module", params=ENGINES)
def crowd(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    if request.param == "sqlite":
        with open_address(str(tmp_path_factory.mktemp("crowd") / "memory.db")) as hold:
            yield fill_store(hold, request.param)
        return
    server: Postgres = request.getfixturevalue("postgres")
    with server.new_store() as url, open_address(url) as hold:
        yield fill_store(hold, request.param)


def open_address(address: str) -> Holdfast:
    return holdfast.open(settings=Settings(db=address, agent_id=ME.agent, embedder="none"))


def fill_store(hold: Holdfast, engine: str) -> Crowd:
    few = {
        store_with_vector(hold, f"Few {n}", vector, namespace="few") for n, vector in enumerate(directions(6, 5, DIM))
    }
    template = hold.store(title="Template", content="noise", namespace="noise").id
    noise = {f"noise-{n:05}": vector for n, vector in enumerate(directions(7, MANY, DIM, clusters=200))}
    with hold.ctx.store.transaction() as session:
        clone_rows(session, template, MANY)
        if engine == "postgres":
            ((made,),) = direct(session, "select pg_get_indexdef(cast('embedding_384' as regclass))")
            direct(session, "drop index embedding_384")  # made in one go it is quicker
        vectors.put_embeddings(
            session, [vectors.PassageEmbedding(id, "one", 0, 5, DIM, id, 0, vector) for id, vector in noise.items()]
        )
        if isinstance(session, PostgresSession):
            session.send_queued()
            direct(session, made)
            direct(session, "analyze memory")
            direct(session, "analyze embedding")
    return Crowd(hold, engine, noise, few)


def clone_rows(session: Session, template: str, many: int) -> None:
    """Clone a row many times, the first far away: for query plans of a large store, without journal entries."""
    columns = re.findall(
        r"\w+", re.findall(r"insert into memory \((.*?)\)", load_statements(*STATEMENTS)["memory_put"], re.S)[0]
    )
    own = {
        "id": "n.id",
        "title": "n.id",
        "visible_as": "n.id",
        "content_hash": "n.id",
        "namespace": f"case when n.id < 'noise-{FAR:05}' then 'far' else 'noise' end",
    }
    values = ", ".join(own.get(column, f"m.{column}") for column in columns)
    numbers = f"with recursive k(i) as (select 0 union all select i + 1 from k where i < {many - 1})"
    named = f"{numbers} select 'noise-' || substr(cast(100000 + i as text), 2) as id from k"
    rows = f"select {values} from memory m, ({named}) n where m.id = '{template}'"
    direct(session, f"insert into memory ({', '.join(columns)}) {rows}")


@pytest.mark.full
def test_a_small_namespace_among_many_memories_is_found_completely(crowd: Crowd) -> None:
    asked = crowd.kept["noise-10000"]
    assert set(near(crowd.hold, asked, Filter(namespace="few"), limit=50)) == crowd.few
    assert set(near(crowd.hold, asked, by=Caller(ME.agent, namespaces=("few",)), limit=50)) == crowd.few


@pytest.mark.full
def test_a_filter_matching_only_distant_memories_returns_as_many_as_requested(crowd: Crowd) -> None:
    assert FAR > MAX_EXACT
    asked = crowd.kept["noise-10000"]
    found = near(crowd.hold, asked, Filter(namespace="far"), limit=50)
    far = [id for id in crowd.kept if id < f"noise-{FAR:05}"]
    expected = sorted(far, key=lambda id: -cosine(crowd.kept[id], asked))[:50]
    assert len(found) == 50
    assert set(found) <= set(far)
    # None of these is near: their bits say little about which is nearest.
    least = 25 if crowd.engine == "sqlite" else 45
    assert (found[0], len(set(found) & set(expected)) >= least) == (expected[0], True)


@pytest.mark.full
def test_hardly_any_of_the_ten_nearest_among_many_is_missed(crowd: Crowd) -> None:
    ids, table = list(crowd.kept), numpy.array([numpy.frombuffer(vector, "<f4") for vector in crowd.kept.values()])
    random = numpy.random.default_rng(8)
    hits = 0
    for number in random.integers(0, MANY, 20).tolist():
        asked = unit_vector((table[number] + 0.03 * random.standard_normal(DIM)).tolist())
        best = numpy.argsort(-(table @ numpy.frombuffer(asked, "<f4")))[:10].tolist()
        hits += len({ids[place] for place in best} & set(near(crowd.hold, asked, limit=10)))
    assert hits >= (200 if crowd.engine == "sqlite" else 190)


@pytest.mark.full
def test_a_search_with_too_few_index_results_falls_back_to_a_scan(crowd: Crowd) -> None:
    if crowd.engine == "postgres":
        with crowd.hold.ctx.reading() as session:
            for setting in ("hnsw.max_scan_tuples = 1", "enable_sort = off", "enable_seqscan = off"):
                direct(session, f"set local {setting}")
            parts, params = memories.filter_clauses(ME, Filter(namespace="far"), crowd.hold.ctx.now())
            params |= {"model": "one", "vector": crowd.kept["noise-10000"], "limit": 1000}
            session.rows("embedding_tune_index", breadth=1000)
            assert len(session.select(("embedding_nearest", *parts, "embedding_nearest.by_384"), params)) < 1000
            assert len(near(crowd.hold, crowd.kept["noise-10000"], Filter(namespace="far"), limit=1000)) == 1000


@pytest.mark.full
@pytest.mark.parametrize(("namespace", "walks"), [("few", None), ("far", "strict_order")])
def test_a_selective_filter_skips_the_index(crowd: Crowd, namespace: str, walks: str | None) -> None:
    if crowd.engine == "postgres":
        with crowd.hold.ctx.reading() as session:
            near(crowd.hold, crowd.kept["noise-10000"], Filter(namespace=namespace))
            ((setting,),) = direct(session, "select current_setting('hnsw.iterative_scan', true)")
        assert setting == walks or (walks is None and setting in ("", "off"))


def plan(hold: Holdfast, which: Filter, then: str, dim: int, *, limit: int = 50) -> str:
    parts, params = memories.filter_clauses(ME, which, hold.ctx.now())
    params |= {"model": "one", "vector": unit_vector([1.0] * dim), "limit": limit}
    with hold.ctx.reading() as session:
        assert isinstance(session, PostgresSession)
        direct(session, "set local enable_seqscan = off")
        rows = session._connection.execute(
            "explain " + join_sql(("embedding_nearest", *parts, then)), params
        ).fetchall()
    return "\n".join(line for (line,) in rows)


@pytest.mark.full
def test_without_a_filter_the_index_of_the_dimension_is_used(crowd: Crowd) -> None:
    if crowd.engine == "postgres":
        steps = plan(crowd.hold, EVERYTHING, "embedding_nearest.by_384", DIM)
        assert "Index Scan using embedding_384" in steps
        assert "Seq Scan" not in steps
        assert "embedding_384" not in plan(crowd.hold, EVERYTHING, "embedding_nearest.exact", DIM)
