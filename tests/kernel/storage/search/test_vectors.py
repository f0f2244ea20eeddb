"""Vectors: stored exactly, found by cosine among visible memories, the same on every engine."""

from collections.abc import Sequence
from random import Random

import pytest
from vector_store import ME, cosine, direct, directions, near, put, store_with_vector

from holdfast import Holdfast
from holdfast.features.embeddings import passage_vectors as vectors
from holdfast.features.memories.read_memories import EVERYTHING, Filter, filter_clauses
from holdfast.features.recall import search_index
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal.kinds import MEMORY, content_hash
from holdfast.kernel.storage.port import Session
from holdfast.kernel.storage.postgres.vectors import INDEXED
from holdfast.kernel.vector import Embedding, unit_vector
from stored_embeddings import read_embeddings

# Storage


@pytest.mark.parametrize("dim", [1, 2, 384, 2000])
def test_an_embedding_is_stored_bit_for_bit(hold: Holdfast, dim: int) -> None:
    (vector,) = directions(1, 1, dim)
    id = store_with_vector(hold, "One", vector)
    with hold.ctx.reading() as session:
        (kept,) = read_embeddings(session)
    assert kept == vectors.PassageEmbedding(id, "one", 0, len("about One"), dim, kept.text_hash, kept.made_at, vector)


@pytest.mark.parametrize(
    "numbers",
    [[1e308, 1e308, -1e308], [5e-324, 5e-324], [1.0, 1e-30, -1e-45], [-0.0, 3.0], [10**300, 1]],
    ids=["huge", "tiny", "of all sizes", "with a negative zero", "whole numbers"],
)
def test_numbers_of_every_size_are_stored_as_a_direction(hold: Holdfast, numbers: list[float]) -> None:
    id = store_with_vector(hold, "One", unit_vector(numbers))
    with hold.ctx.reading() as session:
        (kept,) = read_embeddings(session)
        asked = Embedding("one", unit_vector(numbers))
        (found,) = search_index.find_nearest(session, ME, asked, EVERYTHING, hold.ctx.now(), limit=1)
    assert kept.vector == unit_vector(numbers)
    assert found == (id, pytest.approx(1))


def test_a_new_embedding_replaces_only_the_old_one_of_its_model(hold: Holdfast) -> None:
    id = store_with_vector(hold, "One", unit_vector([1, 0]))
    put(hold, id, unit_vector([1, 1, 1]), "other")
    put(hold, id, unit_vector([0, 1]))
    with hold.ctx.reading() as session:
        kept = {one.model: one.vector for one in read_embeddings(session)}
    assert kept == {"one": unit_vector([0, 1]), "other": unit_vector([1, 1, 1])}


def test_an_embedding_row_of_another_store_can_be_stored(hold: Holdfast) -> None:
    id = hold.store(title="One", content="first").id
    kept = vectors.PassageEmbedding(id, "one", 0, 5, 2, "of an older text", 7, unit_vector([3, 4]))
    with hold.ctx.transaction() as write:
        vectors.put_embeddings(write.session, [kept._replace(vector=bytes(kept.vector))])  # type: ignore[arg-type]
    with hold.ctx.reading() as session:
        assert read_embeddings(session) == [kept]


def test_all_embeddings_of_a_memory_are_dropped_together(hold: Holdfast) -> None:
    one, other = (store_with_vector(hold, title, unit_vector([1, 0])) for title in ("One", "Other"))
    put(hold, one, unit_vector([1]), "second")
    with hold.ctx.transaction() as write:
        vectors.drop_embeddings(write.session, one)
    with hold.ctx.reading() as session:
        assert [kept.memory for kept in read_embeddings(session)] == [other]


def test_embeddings_are_counted_by_model_among_visible_memories(hold: Holdfast) -> None:
    ids = [
        store_with_vector(hold, f"Number {number}", unit_vector([1, number]), namespace="team") for number in range(3)
    ]
    store_with_vector(hold, "Private", unit_vector([1, 0]), scope="private")
    put(hold, ids[0], unit_vector([1, 2, 3]), "other")
    hold.update(id=ids[0], content="something else")
    hold.delete(id=ids[1])
    other, narrow = Caller("ai:other@here"), Caller("ai:tester@here", namespaces=("elsewhere",))
    with hold.ctx.reading() as session:
        now = hold.ctx.now()
        assert vectors.count_by_model(session, filter_clauses(ME, EVERYTHING, now)) == [
            ("one", 2, 3, 3, 1),
            ("other", 3, 1, 1, 1),
        ]
        assert vectors.count_by_model(session, filter_clauses(other, EVERYTHING, now)) == [
            ("one", 2, 2, 2, 1),
            ("other", 3, 1, 1, 1),
        ]
        assert vectors.count_by_model(session, filter_clauses(narrow, EVERYTHING, now)) == []


# Search


@pytest.mark.parametrize("dim", [3, 384])
def test_the_nearest_match_an_exhaustive_search_in_order(hold: Holdfast, dim: int) -> None:
    kept = {
        store_with_vector(hold, f"Number {number}", vector): vector
        for number, vector in enumerate(directions(3, 60, dim))
    }
    for asked in directions(4, 5, dim):
        expected = sorted(kept, key=lambda id: -cosine(kept[id], asked))
        assert near(hold, asked, limit=20) == expected[:20]
        with hold.ctx.reading() as session:
            now = hold.ctx.now()
            found = search_index.find_nearest(session, ME, Embedding("one", asked), EVERYTHING, now, limit=100)
        assert dict(found) == pytest.approx({id: cosine(vector, asked) for id, vector in kept.items()}, abs=1e-6)


def test_equally_near_memories_are_ordered_by_id(hold: Holdfast) -> None:
    ids = sorted(str(hold.store(title=f"Number {n}", content="equal", tier="long").id) for n in range(30))
    for id in Random(10).sample(ids, 30):
        hold.update(id=id, tags=["moved"])
        put(hold, id, unit_vector([2, 1]))
    assert near(hold, unit_vector([1, 1]), limit=20) == ids[:20]


def test_embeddings_of_two_models_are_never_compared(hold: Holdfast) -> None:
    one = store_with_vector(hold, "One", unit_vector([1, 0]))
    store_with_vector(hold, "Other", unit_vector([1, 0]), "other")
    store_with_vector(hold, "Third", unit_vector([1, 0, 0]), "third")
    assert near(hold, unit_vector([1, 0])) == [one]
    assert near(hold, unit_vector([1, 0]), model="unknown") == []


def test_an_embedding_of_a_former_text_does_not_count(hold: Holdfast) -> None:
    id = store_with_vector(hold, "One", unit_vector([1, 0]))
    hold.update(id=id, priority=9, tags=["x"])
    assert near(hold, unit_vector([1, 0])) == [id]
    hold.update(id=id, content="something else")
    assert near(hold, unit_vector([1, 0])) == []
    hold.update(id=id, content="about One")
    assert near(hold, unit_vector([1, 0])) == [id]
    hold.update(id=id, title="Another title")
    assert near(hold, unit_vector([1, 0])) == []
    put(hold, id, unit_vector([1, 1]))
    assert near(hold, unit_vector([1, 0])) == [id]


@pytest.mark.parametrize("dim", [3, 384])
def test_filters_apply_before_the_limit(hold: Holdfast, dim: int) -> None:
    asked, *noise = directions(5, 41, dim)
    for number in range(40):
        store_with_vector(hold, f"Noise {number}", asked, namespace="noise")
    few = {
        store_with_vector(hold, f"Few {number}", noise[number], namespace="few", tags=["rare"]) for number in range(5)
    }
    for which in (
        Filter(namespace="few"),
        Filter(under="few"),
        Filter(tags=("rare",)),
        Filter(namespaces=("few", "x")),
    ):
        assert set(near(hold, asked, which, limit=10)) == few
        assert set(near(hold, asked, which, limit=3)) < few
    assert set(near(hold, asked, by=Caller("ai:tester@here", namespaces=("few",)))) == few


def test_an_invisible_memory_is_never_near(hold: Holdfast) -> None:
    secret = store_with_vector(hold, "Secret", unit_vector([1, 0]), scope="private")
    shared = store_with_vector(hold, "Shared", unit_vector([0, 1]))
    assert near(hold, unit_vector([1, 0])) == [secret, shared]
    assert near(hold, unit_vector([1, 0]), by=Caller("ai:other@here")) == [shared]


def test_archived_deleted_and_expired_memories_are_never_near(hold: Holdfast) -> None:
    live, archived, deleted = (
        store_with_vector(hold, title, unit_vector([1, 0])) for title in ("Live", "Archived", "Deleted")
    )
    short = store_with_vector(hold, "Short", unit_vector([1, 0]), ttl_secs=60)
    hold.archive(ids=[archived])
    hold.delete(id=deleted)
    later = hold.ctx.now() + 61_000_000
    with hold.ctx.reading() as session:
        found = search_index.find_nearest(
            session, ME, Embedding("one", unit_vector([1, 0])), EVERYTHING, later, limit=9
        )
    assert found == [(live, pytest.approx(1))]
    assert near(hold, unit_vector([1, 0])) == sorted([live, short])
    assert near(hold, unit_vector([1, 0]), Filter(archived=True)) == sorted([live, short, archived])


def content_hashes(session: Session, ids: Sequence[str]) -> dict[str, str]:
    """Return the content hashes of some memories."""
    known = dict(session.query_sql("select id, content_hash from memory", {}))
    return {id: known[id] for id in ids}


def test_similarity_is_computed_for_given_memories_with_a_current_embedding(hold: Holdfast) -> None:
    ids = [
        store_with_vector(hold, title, unit_vector(vector))
        for title, vector in (("A", [1, 0]), ("B", [1, 1]), ("C", [0, 1]))
    ]
    bare = str(hold.store(title="Bare", content="without").id)
    hold.update(id=ids[2], content="something else")
    asked = Embedding("one", unit_vector([1, 0]))
    with hold.ctx.reading() as session:
        found = search_index.compute_nearness(session, asked, content_hashes(session, [*ids, bare]))
        assert search_index.compute_nearness(session, asked, {}) == {}
        assert search_index.compute_nearness(session, asked._replace(model="other"), content_hashes(session, ids)) == {}
        known = search_index.read_vectors(session, [ids[0], ids[2]], "one")
        assert search_index.compute_nearness(session, asked, content_hashes(session, [*ids, bare]), known) == found
    assert {id: list(passages.values()) for id, passages in found.items()} == {
        ids[0]: [pytest.approx(1.0)],
        ids[1]: [pytest.approx(0.5**0.5)],
    }


# Passages


def cut(hold: Holdfast, id: str, *given: tuple[int, int, list[float]], model: str = "one") -> None:
    """Store the vectors of a memory's passages."""
    with hold.ctx.transaction() as write:
        memory = write.get(MEMORY, id)
        assert memory is not None
        text_hash = content_hash(memory.title, memory.content)
        kept = [
            vectors.PassageEmbedding(id, model, begins, ends, len(numbers), text_hash, write.now, unit_vector(numbers))
            for begins, ends, numbers in given
        ]
        vectors.put_embeddings(write.session, kept)


def test_a_memory_is_as_near_as_its_nearest_passage_and_found_once(hold: Holdfast) -> None:
    ids = [str(hold.store(title=f"Long {number}", content="of many passages", tier="long").id) for number in range(3)]
    cut(hold, ids[0], (vectors.TITLE, vectors.TITLE, [0, 1]), (0, 7, [1, 1]), (8, 16, [1, 2]))
    cut(hold, ids[1], (0, 7, [-1, 0]), (8, 16, [1, 0]))
    cut(hold, ids[2], (0, 7, [1, 3]))
    with hold.ctx.reading() as session:
        asked = Embedding("one", unit_vector([1, 0]))
        found = search_index.find_nearest(session, ME, asked, EVERYTHING, hold.ctx.now(), limit=10)
        spans = search_index.compute_nearness(session, asked, content_hashes(session, ids[:1]))
    assert found == [(ids[1], pytest.approx(1)), (ids[0], pytest.approx(0.5**0.5)), (ids[2], pytest.approx(0.1**0.5))]
    assert list(spans[ids[0]]) == [(-1, -1), (0, 7), (8, 16)]
    assert near(hold, unit_vector([1, 0]), limit=2) == [ids[1], ids[0]]


@pytest.mark.parametrize("dim", [3, 384])
def test_a_memory_with_many_passages_does_not_displace_others(hold: Holdfast, dim: int) -> None:
    long = str(hold.store(title="Long", content="x" * 200, tier="long").id)
    cut(hold, long, *((at, at + 1, [1.0, at / 1e4, *[0.0] * (dim - 2)]) for at in range(100)))
    others = {
        store_with_vector(hold, f"Other {n}", vector, namespace="b") for n, vector in enumerate(directions(11, 4, dim))
    }
    found = near(hold, unit_vector([1.0, *[0.0] * (dim - 1)]), limit=5)
    assert (found[0], set(found)) == (long, {long, *others})


def test_new_passages_replace_all_old_ones_of_their_model(hold: Holdfast) -> None:
    id = str(hold.store(title="Long", content="of many passages").id)
    cut(hold, id, (vectors.TITLE, vectors.TITLE, [1, 0]), (0, 7, [0, 1]), (8, 16, [1, 1]))
    cut(hold, id, (0, 16, [1, 0, 0]), model="other")
    cut(hold, id, (0, 16, [1, 3]))
    with hold.ctx.reading() as session:
        kept = [(one.model, one.begins, one.ends, one.vector) for one in read_embeddings(session)]
        assert [
            (one.model, one.memories, one.passages)
            for one in vectors.count_by_model(session, filter_clauses(ME, EVERYTHING, hold.ctx.now()))
        ] == [("one", 1, 1), ("other", 1, 1)]
    assert kept == [("one", 0, 16, unit_vector([1, 3])), ("other", 0, 16, unit_vector([1, 0, 0]))]


def test_a_query_embedding_of_another_dimension_is_refused_for_its_model(hold: Holdfast) -> None:
    store_with_vector(hold, "One", unit_vector([1, 0]))
    with hold.ctx.reading() as session:
        vectors.check_model_dimension(session, Embedding("one", unit_vector([0, 1])))
        vectors.check_model_dimension(session, Embedding("other", unit_vector([0, 1, 1])))
        with pytest.raises(Invalid, match="have 2 numbers, got 3"):
            vectors.check_model_dimension(session, Embedding("one", unit_vector([0, 1, 1])))


def test_embeddings_of_another_dimension_are_not_stored_for_a_model(hold: Holdfast) -> None:
    first = store_with_vector(hold, "First", unit_vector([1, 0]))
    id = str(hold.store(title="Long", content="of many passages").id)
    with pytest.raises(Invalid, match="'one' in this store have 2 numbers, got 3"):
        cut(hold, id, (0, 7, [1, 0]), (8, 16, [1, 0, 0]))
    with hold.ctx.reading() as session:
        assert [(one.memory, one.dim) for one in read_embeddings(session)] == [(first, 2)]


# Missing vectors


def test_memories_without_a_current_embedding_are_due_in_row_order(hold: Holdfast) -> None:
    bare = [str(hold.store(title=f"Bare {number}", content="of it", tier="long").id) for number in range(4)]
    store_with_vector(hold, "Done", unit_vector([1, 0]))
    changed = store_with_vector(hold, "Changed", unit_vector([1, 0]))
    hold.update(id=changed, content="since then")
    hold.delete(id=bare[0])
    with hold.ctx.reading() as session:
        due = vectors.list_due_after(session, "one", 0, 10)
        assert [one.id for one in due] == [*bare[1:], changed]
        assert vectors.list_due_after(session, "one", 0, 2) == due[:2]
        assert vectors.list_due_after(session, "one", due[1].row, 10) == due[2:]
        assert [one.id for one in vectors.filter_due(session, "one", [changed, bare[0], bare[2]])] == [bare[2], changed]
        assert len(vectors.list_due_after(session, "other", 0, 10)) == 5
        assert vectors.filter_due(session, "one", []) == []
    assert (due[-1].title, due[-1].content) == ("Changed", "since then")


def test_embedding_progress_is_stored_by_model(hold: Holdfast) -> None:
    with hold.ctx.transaction() as write:
        assert vectors.get_watermark(write.session, "one") is None
        vectors.set_watermark(write.session, "one", vectors.Watermark(7, 3))
        vectors.set_watermark(write.session, "other", vectors.Watermark(1, 2, whole=True))
        vectors.set_watermark(write.session, "one", vectors.Watermark(9, 3))
    with hold.ctx.reading() as session:
        assert vectors.get_watermark(session, "one") == vectors.Watermark(9, 3)
        assert vectors.get_watermark(session, "other") == vectors.Watermark(1, 2, whole=True)


def test_memories_changed_after_a_journal_position_are_listed_once(hold: Holdfast) -> None:
    one, other = (str(hold.store(title=title, content="of it").id) for title in ("One", "Other"))
    hold.link(source_id=one, target_id=other)
    hold.update(id=one, content="since then")
    hold.update(id=one, content="and again")
    with hold.ctx.reading() as session:
        assert sorted(vectors.list_changed(session, 0, 100)) == sorted([one, other])
        assert vectors.list_changed(session, 2, 100) == [one]
        assert vectors.list_changed(session, 1, 1) == [other]
        assert vectors.list_changed(session, 5, 100) == []


# Many vectors


# PostgreSQL's index


@pytest.mark.parametrize("engine", ["postgres"])
@pytest.mark.parametrize("dim", INDEXED)
def test_every_dimension_declared_as_indexed_has_an_index(hold: Holdfast, dim: int) -> None:
    with hold.ctx.transaction() as write:
        rows = direct(write.session, f"select indexdef from pg_indexes where indexname = 'embedding_{dim}'")
        ((made,), *_) = rows
    assert f"vector({dim})" in made
    assert f"(dim = {dim})" in made
    ids = sorted(store_with_vector(hold, f"Number {n}", vector) for n, vector in enumerate(directions(9, 3, dim)))
    assert sorted(near(hold, unit_vector([1.0] * dim), limit=3)) == ids
