"""A process that searches little does not load numpy, which is slow, and finds the same."""

import json
import subprocess
import sys
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Holdfast
from holdfast.kernel.storage.sqlite.vectors import BinaryIndex, Search
from holdfast.kernel.vector import MAX_WITHOUT_NUMPY, PlainCosine, cosines, signs_of, unit_vector

NUMBERS = st.lists(st.floats(-1, 1, width=32), min_size=5, max_size=5).filter(any)
ASK = """
import json, sys, holdfast
from holdfast.settings import load
with holdfast.open(settings=load({"db": sys.argv[1], "embedder": "none"})) as hold:
    for _ in range(int(sys.argv[3])):
        found = hold.recall("?", embedding={"model": "own", "vector": json.loads(sys.argv[2])}, explain=True)
    print(json.dumps([[one.title, one.why.cosine] for one in found.memories] + ["numpy" in sys.modules]))
"""


def keep(hold: Holdfast, many: int) -> list[float]:
    """Memories with vectors, and a query vector."""
    random = Random(1)
    vectors = [[random.gauss(1, 1) for _ in range(24)] for _ in range(many + 1)]
    for number, vector in enumerate(vectors[:-1]):
        given = {"model": "own", "vector": vector}
        hold.call("store", {"title": f"{number}", "content": f"Number {number}.", "embedding": given})
    return vectors[-1]


def search_in_process(db: str, vector: Sequence[float], times: int) -> list[object]:
    """Return another process's last result, and whether it loaded numpy."""
    command = [sys.executable, "-c", ASK, db, json.dumps(vector), str(times)]
    return list(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_few_queries_find_the_same_without_numpy(hold: Holdfast, db: str) -> None:
    vector = keep(hold, 60)
    *once, loaded = search_in_process(db, vector, 1)
    *twice, loaded_then = search_in_process(db, vector, 2)
    *often, loaded_at_last = search_in_process(db, vector, 30)
    assert (loaded, loaded_then, loaded_at_last) == (False, False, True)
    assert len(once) == 10
    assert once == twice == often


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@pytest.mark.parametrize("rows", [None, [3, 5, 8, 40, 999], []], ids=["all", "some", "none"])
def test_both_implementations_scan_the_embeddings_in_the_same_steps(hold: Holdfast, rows: list[int] | None) -> None:
    vector = unit_vector(keep(hold, 45))
    with hold.ctx.reading() as session:
        search = Search(session, "own", signs_of(vector), rows)  # type: ignore[arg-type]
        scanned = [step for step in search.scan(BinaryIndex(), 4) if step]
        assert list(search.scan_without_numpy(4)) == scanned
    assert sum(map(len, scanned)) == (45 if rows is None else 4 if rows else 0)


@given(NUMBERS, st.lists(NUMBERS, max_size=8))
def test_cosines_are_the_same_in_both_implementations(vector: list[float], others: list[list[float]]) -> None:
    kept = [unit_vector(other) for other in others]
    assert PlainCosine().cosines(unit_vector(vector), kept) == pytest.approx(
        cosines(unit_vector(vector), kept), abs=1e-12
    )


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_one_process_scans_only_a_few_embeddings_without_numpy(hold: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(hold, 3)
    monkeypatch.setattr("holdfast.kernel.storage.sqlite.vectors.numpy_loaded", lambda: False)
    monkeypatch.setattr("holdfast.kernel.storage.sqlite.vectors.MAX_WITHOUT_NUMPY", 7)
    index = BinaryIndex()
    with hold.ctx.reading() as session:
        assert [index.can_search_without_numpy(session) for _ in range(4)] == [True, True, False, False]  # type: ignore[arg-type]


def test_one_process_compares_only_a_few_embeddings_without_numpy() -> None:
    plain = PlainCosine()
    assert [plain.can_take(MAX_WITHOUT_NUMPY // 2) for _ in range(4)] == [True, True, False, False]
