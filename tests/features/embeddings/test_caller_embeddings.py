"""Embeddings given by a caller: stored with a memory, used by recall, stale after a change of the text."""

from collections.abc import Callable
from math import inf, nan
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.features.embeddings import passage_vectors as vectors
from holdfast.kernel.errors import Invalid
from stored_embeddings import read_embeddings


def by(*numbers: float, model: str = "own") -> dict[str, Any]:
    return {"model": model, "vector": list(numbers)}


def recall_titles(hold: Holdfast, *numbers: float, context: str = "nothing of these words", **more: Any) -> list[str]:
    found = hold.recall(context=context, embedding=by(*numbers), **more)
    return [memory.title for memory in found.memories]


def count_embeddings(hold: Holdfast) -> list[vectors.PassageEmbedding]:
    with hold.ctx.reading() as session:
        return read_embeddings(session)


# Given embeddings


def test_a_memory_is_found_by_its_embedding_alone(hold: Holdfast) -> None:
    hold.store(title="East", content="sunrise", embedding=by(1, 0))
    hold.store(title="North", content="cold", embedding=by(0, 1))
    hold.store(title="Nowhere", content="no vector")
    found = hold.recall(context="quelle direction", embedding=by(1, 0.1))
    assert [memory.title for memory in found.memories] == ["East"]
    assert (found.mode, found.meta.recall_mode, bool(found.meta.degraded)) == ("hybrid", "hybrid", False)


def test_keywords_and_similarity_count_together(hold: Holdfast) -> None:
    hold.store(title="Both", content="the harbour at dawn", embedding=by(1, 0.2))
    hold.store(title="Words", content="the harbour at night", embedding=by(-1, 0))
    hold.store(title="Near", content="ships and tides", embedding=by(1, 0))
    assert recall_titles(hold, 1, 0, context="harbour")[0] == "Both"
    assert set(recall_titles(hold, 1, 0, context="harbour")) == {"Both", "Words", "Near"}


def test_an_embedding_of_the_whole_text_counts_despite_a_speaker_prefix(hold: Holdfast) -> None:
    hold.store(title="Said", content="Anna: the harbour at dawn", embedding=by(1, 0))
    (hit,) = hold.recall(context="harbour", embedding=by(1, 0), explain=True).memories
    assert (hit.why.cosine, hit.why.terms) == (pytest.approx(1), ["harbour"])


def test_a_query_without_an_embedding_uses_keywords(hold: Holdfast) -> None:
    hold.store(title="East", content="sunrise", embedding=by(1, 0))
    found = hold.recall(context="sunrise")
    assert (found.mode, found.meta.recall_mode, found.count) == ("keyword", "keyword_only", 1)
    assert not found.meta.degraded


def test_an_update_takes_an_embedding_of_the_new_text(hold: Holdfast) -> None:
    id = hold.store(title="East", content="sunrise").id
    before = hold.history(id=id).changes
    assert hold.update(id=id, embedding=by(1, 0)).version == 1
    assert hold.history(id=id).changes == before, "a vector is no change of the memory"
    assert recall_titles(hold, 1, 0) == ["East"]
    hold.update(id=id, content="evening", embedding=by(-1, 0))
    assert recall_titles(hold, 1, 0) == []
    assert recall_titles(hold, -1, 0) == ["East"]


def test_storing_again_with_an_embedding_adds_it_to_the_memory_of_the_title(hold: Holdfast) -> None:
    hold.store(title="East", content="sunrise", tier="long", embedding=by(0, 1))
    again = hold.store(title="East", content="sunrise", embedding=by(1, 0))
    assert again.outcome == "unchanged"
    assert recall_titles(hold, 1, 0) == ["East"]
    hold.store(title="East", content="more of it", on_conflict="version", embedding=by(-1, 0))
    assert recall_titles(hold, -1, 0) == ["East (2)"]


def test_many_are_stored_with_embeddings_and_only_an_invalid_one_is_refused(hold: Holdfast) -> None:
    done = hold.bulk_store(
        memories=[
            {"title": "East", "content": "sunrise", "embedding": by(1, 0)},
            {"title": "Longer", "content": "three numbers", "embedding": by(1, 0, 0)},
            {"title": "Zero", "content": "points nowhere", "embedding": by(0, 0)},
            {"title": "North", "content": "cold", "embedding": by(0, 1)},
        ]
    )
    assert [one.outcome for one in done.outcomes] == ["created", "rejected", "rejected", "created"]
    assert "embedding.vector" in done.outcomes[1].error
    assert len(count_embeddings(hold)) == 2
    assert hold.list().count == 2


# Stale


def test_a_changed_text_makes_its_embedding_stale_until_replaced(hold: Holdfast) -> None:
    id = hold.store(title="East", content="sunrise", embedding=by(1, 0)).id
    hold.store(title="South", content="noon", embedding=by(0.9, 0.4))
    hold.update(id=id, priority=9, tags=["x"], namespace="elsewhere")
    assert recall_titles(hold, 1, 0) == ["East", "South"]
    hold.update(id=id, content="evening")
    assert recall_titles(hold, 1, 0) == ["South"]
    assert [(one.model, one.dim, one.count, one.stale) for one in hold.stats().embeddings] == [("own", 2, 2, 1)]
    hold.undo(change=hold.history(id=id).changes[-1].seq)
    assert recall_titles(hold, 1, 0) == ["East", "South"], "the text is again what was embedded"


def test_a_stale_embedding_does_not_affect_a_keyword_hit(hold: Holdfast) -> None:
    id = hold.store(title="East", content="sunrise", embedding=by(1, 0)).id
    hold.store(title="South", content="sunrise at noon", embedding=by(0.9, 0.4))
    hold.update(id=id, content="sunrise and more of it")
    assert recall_titles(hold, 1, 0, context="sunrise")[0] == "South"


# Models


def test_an_unknown_model_falls_back_to_keywords_and_is_reported(hold: Holdfast) -> None:
    hold.store(title="East", content="sunrise", embedding=by(1, 0))
    found = hold.recall(context="sunrise", embedding=by(1, 0, 0, model="another"))
    assert [memory.title for memory in found.memories] == ["East"]
    assert (found.mode, found.meta.recall_mode) == ("keyword", "keyword_only")
    assert "from keywords only" in found.meta.degraded


def test_two_models_coexist(hold: Holdfast) -> None:
    id = hold.store(title="East", content="sunrise", embedding=by(1, 0)).id
    hold.update(id=id, embedding=by(0, 0, 1, model="another"))
    assert [(one.model, one.dim, one.count) for one in hold.stats().embeddings] == [("another", 3, 1), ("own", 2, 1)]
    assert recall_titles(hold, 1, 0) == ["East"]
    assert recall_titles(hold, 0, 1) == []


REFUSED: dict[str, dict[str, Any]] = {
    "not a number": by(nan, 1),
    "without end": by(1, -inf),
    "empty": by(),
    "too long": by(*[1.0] * 2001),
    "all zero": by(0, 0.0),
    "of another dimension": by(1, 0, 0),
    "a text in it": {"model": "own", "vector": [1, "0"]},
    "a truth in it": {"model": "own", "vector": [1, True]},
    "a number beyond all": {"model": "own", "vector": [1, 10**400]},
    "no vector": {"model": "own"},
    "no model": {"vector": [1, 0]},
    "an empty model": by(1, 0, model=""),
    "a model too long": by(1, 0, model="x" * 129),
    "a model of two lines": by(1, 0, model="a\nb"),
    "a model with a NUL": by(1, 0, model="a\x00"),
    "something else": {"model": "own", "vector": [1, 0], "dim": 2},
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize(
    "ask",
    [
        lambda ctx, id, given: ctx.store(title="New", content="never kept", embedding=given),
        lambda ctx, id, given: ctx.update(id=id, content="never kept", embedding=given),
        lambda ctx, id, given: ctx.recall(context="sunrise", embedding=given),
    ],
    ids=["store", "update", "recall"],
)
def test_an_invalid_embedding_is_refused_by_field(
    hold: Holdfast, ask: Callable[[Holdfast, str, Any], object], what: str
) -> None:
    id = hold.store(title="East", content="sunrise", embedding=by(1, 0)).id
    with pytest.raises(Invalid) as refused:
        ask(hold, id, REFUSED[what])
    assert "embedding" in refused.value.message
    assert (hold.list().count, hold.get(id=id).content, len(count_embeddings(hold))) == (1, "sunrise", 1)


def test_a_wrong_dimension_is_refused_with_the_known_one(hold: Holdfast) -> None:
    hold.store(title="East", content="sunrise", embedding=by(1, 0))
    with pytest.raises(Invalid, match="'own' in this store have 2 numbers, got 3") as refused:
        hold.recall(context="sunrise", embedding=by(1, 0, 0))
    assert refused.value.details["fields"] == ["embedding.vector"]


@pytest.mark.parametrize("dim", [1, 2000])
def test_embeddings_of_one_and_of_two_thousand_dimensions_are_accepted(hold: Holdfast, dim: int) -> None:
    hold.store(title="East", content="sunrise", embedding=by(*[1.0] * dim))
    assert recall_titles(hold, *[1.0] * dim) == ["East"]


# Deleted


def test_a_purged_memory_leaves_no_embedding(hold: Holdfast) -> None:
    gone = hold.store(title="East", content="sunrise", embedding=by(1, 0)).id
    stays = hold.store(title="North", content="cold", embedding=by(0, 1)).id
    hold.archive(ids=[gone])
    assert len(count_embeddings(hold)) == 2
    hold.archive_purge(ids=[gone])
    assert [one.memory for one in count_embeddings(hold)] == [stays]


def test_a_deleted_memory_is_similar_again_after_undo(hold: Holdfast) -> None:
    id = hold.store(title="East", content="sunrise", embedding=by(1, 0)).id
    hold.delete(id=id)
    assert recall_titles(hold, 1, 0) == []
    hold.undo(change=hold.history(id=id).changes[-1].seq)
    assert recall_titles(hold, 1, 0) == ["East"]


def test_an_export_has_no_embeddings(hold: Holdfast) -> None:
    hold.store(title="East", content="sunrise", embedding=by(8 / 17, 15 / 17))
    exported = str(hold.export())
    assert "East" in exported
    assert "0.470588" not in exported  # with fewer digits it could be a part of a time
    assert "0.882352" not in exported


# Visibility


def test_a_private_memory_is_similar_only_for_its_owner(clocked_store: Holdfast, seen_by: Callable[..., Any]) -> None:
    clocked_store.store(title="East", content="sunrise", scope="private", embedding=by(1, 0))
    clocked_store.store(title="North", content="cold", embedding=by(0.9, 0.4))
    other = seen_by("ai:other@here")
    assert [m.title for m in other.recall(context="x", embedding=by(1, 0)).memories] == ["North"]
    assert [one.count for one in other.stats().embeddings] == [1]


def test_filters_apply_to_similar_memories(hold: Holdfast) -> None:
    for number in range(30):
        hold.store(title=f"Noise {number}", content="noise", namespace="noise", embedding=by(1, 0))
    hold.store(title="Few", content="far off", namespace="few", tags=["rare"], embedding=by(0.5, 0.8))
    assert recall_titles(hold, 1, 0, namespace="few", limit=1) == ["Few"]
    assert recall_titles(hold, 1, 0, tags=["rare"], limit=1) == ["Few"]
