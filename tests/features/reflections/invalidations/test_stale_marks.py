"""Stale memories are marked wherever they are read."""

from collections.abc import Callable
from typing import Any

import pytest
from ways_to_invalidate import Remember

import holdfast
from holdfast.kernel.errors import Invalid, NotFound
from holdfast.kernel.timestamps import format_datetime


def test_a_stale_memory_is_marked_until_its_notice_is_resolved(
    clocked_store: holdfast.Holdfast, remember: Remember
) -> None:
    fallen, heir = remember("fallen"), remember("heir")
    near = remember("quokka", fallen)
    assert clocked_store.get(near).stale is None
    clocked_store.link(heir, fallen, relation="supersedes")
    (hit,) = [one for one in clocked_store.recall(context="quokka").memories if one.id == near]
    assert hit.stale == clocked_store.get(near).stale
    assert (hit.stale.cause, hit.stale.hop, hit.stale.count, hit.stale.status) == ("superseded", 1, 1, "open")
    assert (hit.stale.invalidated_id, hit.stale.invalidating_id) == (fallen, heir)
    assert "(stale: a source is superseded)" in clocked_store.context(query="quokka").text
    assert "superseded" in clocked_store.recall(context="quokka", format="toon").toon
    (one,) = clocked_store.invalidations().invalidations
    clocked_store.invalidations_acknowledge(ids=[one.id])
    assert clocked_store.get(near).stale.status == "acknowledged"
    clocked_store.invalidations_dismiss(ids=[one.id])
    assert clocked_store.get(near).stale is None
    assert all(one.stale is None for one in clocked_store.recall(context="quokka").memories)
    assert "(stale" not in clocked_store.context(query="quokka").text


def test_a_mark_shows_the_nearest_reason_and_the_count(
    clocked_store: holdfast.Holdfast, remember: Remember, clock: Any
) -> None:
    root = remember("root")
    ground = remember("ground", root)
    near = remember("near", ground)
    clocked_store.delete(ground)
    clock.move(seconds=1)
    clocked_store.archive(ids=[root])
    mark = clocked_store.get(near).stale
    assert (mark.cause, mark.hop, mark.count, mark.invalidated_id) == ("deleted", 1, 2, ground)


def test_dependents_are_listed_with_their_distance(clocked_store: holdfast.Holdfast, remember: Remember) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    far = remember("far", near)
    found = clocked_store.dependents(ground)
    assert [(one.id, one.hop, one.stale) for one in found.dependents] == [(near, 1, False), (far, 2, False)]
    assert [one.id for one in clocked_store.dependents(ground, hops=1).dependents] == [near]
    assert (clocked_store.dependents(ground, limit=1).count, clocked_store.dependents(ground, limit=1).total) == (1, 2)
    clocked_store.delete(ground)
    assert [one.stale for one in clocked_store.dependents(ground).dependents] == [True, True]
    answer = clocked_store.dependents_of_invalidated(ground)
    assert (answer.memory_id, answer.count) == (ground, 1)
    assert [(one.id, one.namespace) for one in answer.dependents] == [(near, "team")]


def test_unknown_memories_have_no_dependents_and_no_invalidations(clocked_store: holdfast.Holdfast) -> None:
    for asked in (
        lambda: clocked_store.dependents("nobody"),
        lambda: clocked_store.invalidations(invalidated_id="nobody"),
    ):
        with pytest.raises(NotFound):
            asked()
    assert clocked_store.dependents_of_invalidated("nobody").count == 0


@pytest.mark.parametrize("namespace", ["team", "a/b/c/d/e/f/g/h"], ids=["shallow", "of eight segments"])
def test_the_namespace_of_invalidations_lists_rows_that_are_not_memories(
    clocked_store: holdfast.Holdfast, remember: Remember, namespace: str
) -> None:
    fallen, heir = remember("fallen"), remember("heir")
    near = remember("near", fallen, namespace=namespace)
    before = (clocked_store.stats().total, clocked_store.namespaces())
    clocked_store.link(heir, fallen, relation="supersedes")
    (row,) = clocked_store.list(namespace=f"{namespace}/_invalidations").memories
    told_of = {
        "dependent_id": near,
        "invalidated_id": fallen,
        "invalidating_id": heir,
        "timestamp": format_datetime(row.created_at),
        "notification_kind": "reflection_invalidation",
    }
    assert row.metadata.items() >= told_of.items()
    assert (row.title, row.agent_id) == (f"invalidation: {fallen} -> {near}", "ai:tester@here")
    assert (clocked_store.stats().total, clocked_store.namespaces()) == before
    assert {one.id for one in clocked_store.recall(context="invalidation fallen near").memories} <= {fallen, heir, near}
    assert clocked_store.search("invalidation").results == []
    with pytest.raises(NotFound):
        clocked_store.get(row.id)
    assert clocked_store.list(namespace="elsewhere/_invalidations").memories == []


def test_the_invalidations_namespace_is_read_only(clocked_store: holdfast.Holdfast, remember: Remember) -> None:
    view, ground = "team/_invalidations", remember("ground")
    below = remember("below", namespace=f"{view}/below")
    ways: list[Callable[[], Any]] = [
        lambda: remember("kept", namespace=view),
        lambda: clocked_store.reflect(source_ids=[ground], title="so", content="It follows.", namespace=view),
        lambda: clocked_store.update(ground, namespace=view),
        lambda: clocked_store.promote(below, to_namespace=view),
        lambda: clocked_store.consolidate(ids=[ground, below], title="Both", summary="Both.", namespace=view),
    ]
    for way in ways:
        with pytest.raises(Invalid, match="read-only view"):
            way()
    row = {"id": "m", "title": "m", "content": "x", "namespace": view}
    answer = clocked_store.call("import", {"envelope": {"memories": [row]}})
    assert (answer.rejected, answer.errors[0].code) == (1, "VALIDATION_FAILED")
    assert clocked_store.get(ground).namespace == "team"
