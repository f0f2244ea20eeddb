"""The contract of every embedder, local or remote."""

import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Barrier

import pytest
from providers import honest, provider

from holdfast.app import choose_embedder
from holdfast.kernel.embedder import Embedder
from holdfast.kernel.vector import Vector
from holdfast.settings import Settings

TEXTS = [
    "We deploy on Tuesdays, after the stand-up.",
    "",
    "我们星期二部署。",
    " \n\t ",
    "x",
    "naïve café \U0001f600 \x00 \ud800",
    "word " * 3000,
    "We deploy on Tuesdays, after the stand-up!",
]


@pytest.fixture(params=["minilm", "openai", "ollama"])
def embedder(request: pytest.FixtureRequest) -> Iterator[Embedder]:
    with ExitStack() as stack:
        url = stack.enter_context(provider(honest)).url
        found = choose_embedder(Settings(embedder=request.param, embedding_url=url, embedding_model="m"))
        assert found
        yield found


def likeness(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(floats(one), floats(other), strict=True))


def floats(vector: Vector) -> tuple[float, ...]:
    return struct.unpack(f"<{vector.dim}f", vector)


def test_every_text_has_an_embedding_of_unit_length(embedder: Embedder) -> None:
    vectors = embedder.embed(TEXTS)
    assert len(vectors) == len(TEXTS)
    assert {type(vector) for vector in vectors} == {Vector}
    assert [likeness(vector, vector) for vector in vectors] == pytest.approx([1] * len(TEXTS), abs=1e-4)


def test_no_texts_give_no_embeddings(embedder: Embedder) -> None:
    assert embedder.embed([]) == []


def test_a_text_has_the_same_embedding_alone_and_among_others(embedder: Embedder) -> None:
    together = embedder.embed(TEXTS)
    alone = [embedder.embed([text])[0] for text in TEXTS]
    assert together == alone


def test_embeddings_are_returned_in_the_order_of_any_number_of_texts(embedder: Embedder) -> None:
    texts = [f"text {number}" for number in range(150)]
    assert embedder.embed(texts) == embedder.embed(texts[::-1])[::-1]
    assert len(set(embedder.embed(texts))) == len(texts)


def test_the_model_has_a_name_and_every_embedding_its_dimension(embedder: Embedder) -> None:
    vectors = embedder.embed(TEXTS)
    assert embedder.model
    assert {vector.dim for vector in vectors} == {embedder.dim}


def test_many_threads_get_the_same_result_as_one(embedder: Embedder) -> None:
    together = Barrier(8)

    def embed_together(number: int) -> list[Vector]:
        together.wait()
        return embedder.embed([f"text {number}", *TEXTS])

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(embed_together, range(8)))
    assert found == [embedder.embed([f"text {number}", *TEXTS]) for number in range(8)]


def test_warming_up_is_possible_at_any_time_and_repeatedly(embedder: Embedder) -> None:
    embedder.warm()
    embedder.warm()
    before = embedder.embed(["x"])
    embedder.warm()
    assert embedder.is_loaded
    assert embedder.embed(["x"]) == before
