"""Stale memories are marked wherever they are read."""

from collections.abc import Callable
from typing import Any

import pytest
from falling import Remember
from msgspec import UNSET

import holdfast
from holdfast.kernel.errors import Invalid, NotFound


def test_a_stale_memory_is_marked_until_somebody_settles_it(timed: holdfast.Holdfast, remember: Remember) -> None:
    fallen, heir = remember("fallen"), remember("heir")
    near = remember("quokka", fallen)
    assert timed.get(near).stale is UNSET
    timed.link(heir, fallen, relation="supersedes")
    (hit,) = [one for one in timed.recall(context="quokka").memories if one.id == near]
    assert hit.stale == timed.get(near).stale
    assert (hit.stale.cause, hit.stale.hop, hit.stale.count, hit.stale.status) == ("superseded", 1, 1, "open")
    assert (hit.stale.invalidated_id, hit.stale.invalidating_id) == (fallen, heir)
    assert "(stale: a source is superseded)" in timed.context(query="quokka").text
    assert "superseded" in timed.recall(context="quokka", format="toon").toon
    (one,) = timed.invalidations().invalidations
    timed.invalidations_acknowledge(ids=[one.id])
    assert timed.get(near).stale.status == "acknowledged"
    timed.invalidations_dismiss(ids=[one.id])
    assert timed.get(near).stale is UNSET
    assert all(one.stale is UNSET for one in timed.recall(context="quokka").memories)
    assert "(stale" not in timed.context(query="quokka").text


def test_a_mark_tells_the_nearest_reason_and_how_many_there_are(
    timed: holdfast.Holdfast, remember: Remember, clock: Any
) -> None:
    root = remember("root")
    ground = remember("ground", root)
    near = remember("near", ground)
    timed.delete(ground)
    clock.move(seconds=1)
    timed.archive(ids=[root])
    mark = timed.get(near).stale
    assert (mark.cause, mark.hop, mark.count, mark.invalidated_id) == ("deleted", 1, 2, ground)


def test_dependents_are_told_with_how_far_they_stand(timed: holdfast.Holdfast, remember: Remember) -> None:
    ground = remember("ground")
    near = remember("near", ground)
    far = remember("far", near)
    found = timed.dependents(ground)
    assert [(one.id, one.hop, one.stale) for one in found.dependents] == [(near, 1, False), (far, 2, False)]
    assert [one.id for one in timed.dependents(ground, hops=1).dependents] == [near]
    assert (timed.dependents(ground, limit=1).count, timed.dependents(ground, limit=1).total) == (1, 2)
    timed.delete(ground)
    assert [one.stale for one in timed.dependents(ground).dependents] == [True, True]
    answer = timed.dependents_of_invalidated(ground)
    assert (answer.memory_id, answer.count) == (ground, 1)
    assert [(one.id, one.namespace) for one in answer.dependents] == [(near, "team")]


def test_unknown_memories_have_no_dependents_and_no_invalidations(timed: holdfast.Holdfast) -> None:
    for asked in (lambda: timed.dependents("nobody"), lambda: timed.invalidations(invalidated_id="nobody")):
        with pytest.raises(NotFound):
            asked()
    assert timed.dependents_of_invalidated("nobody").count == 0


@pytest.mark.parametrize("namespace", ["team", "a/b/c/d/e/f/g/h"], ids=["shallow", "of eight segments"])
def test_the_namespace_of_invalidations_lists_rows_that_are_no_memories(
    timed: holdfast.Holdfast, remember: Remember, namespace: str
) -> None:
    fallen, heir = remember("fallen"), remember("heir")
    near = remember("near", fallen, namespace=namespace)
    before = (timed.stats().total, timed.namespaces())
    timed.link(heir, fallen, relation="supersedes")
    (row,) = timed.list(namespace=f"{namespace}/_invalidations").memories
    told_of = {
        "dependent_id": near,
        "invalidated_id": fallen,
        "invalidating_id": heir,
        "timestamp": row.created_at,
        "notification_kind": "reflection_invalidation",
    }
    assert row.metadata.items() >= told_of.items()
    assert (row.title, row.agent_id) == (f"invalidation: {fallen} -> {near}", "ai:tester@here")
    assert (timed.stats().total, timed.namespaces()) == before
    assert {one.id for one in timed.recall(context="invalidation fallen near").memories} <= {fallen, heir, near}
    assert timed.search("invalidation").results == []
    with pytest.raises(NotFound):
        timed.get(row.id)
    assert timed.list(namespace="elsewhere/_invalidations").memories == []


def test_nothing_is_written_into_the_namespace_of_invalidations(timed: holdfast.Holdfast, remember: Remember) -> None:
    view, ground = "team/_invalidations", remember("ground")
    below = remember("below", namespace=f"{view}/below")
    ways: list[Callable[[], Any]] = [
        lambda: remember("kept", namespace=view),
        lambda: timed.reflect(source_ids=[ground], title="so", content="It follows.", namespace=view),
        lambda: timed.update(ground, namespace=view),
        lambda: timed.promote(below, to_namespace=view),
        lambda: timed.consolidate(ids=[ground, below], title="Both", summary="Both.", namespace=view),
    ]
    for way in ways:
        with pytest.raises(Invalid, match="read-only view"):
            way()
    row = {"id": "m", "title": "m", "content": "x", "namespace": view}
    answer = timed.call("import", {"envelope": {"memories": [row]}})
    assert (answer.rejected, answer.errors[0].code) == (1, "VALIDATION_FAILED")
    assert timed.get(ground).namespace == "team"
