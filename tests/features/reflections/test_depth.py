"""No link, undo, import, move, merge or summary lowers a depth."""

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.kernel.errors import ApprovalRequired, ChangedSince, CycleDetected, DepthExceeded

Make = Callable[..., str]
Depth = Callable[[str], int]


@pytest.fixture
def tower(observe: Make, reflect: Make) -> list[str]:
    """An observation and a chain of three reflections."""
    ids = [observe("ground")]
    for title in ("first", "second", "third"):
        ids.append(reflect(title, ids[-1]))
    return ids


def reflects(hold: holdfast.Holdfast, source: str, target: str, **more: Any) -> Any:
    return hold.link(source_id=source, target_id=target, relation="reflects_on", **more)


def row(hold: holdfast.Holdfast, id: str) -> dict[str, Any]:
    return next(dict(one) for one in hold.export()["memories"] if one["id"] == id)


def test_a_link_makes_its_source_as_deep_as_a_reflection(
    hold: holdfast.Holdfast, observe: Make, tower: list[str], depth: Depth
) -> None:
    shallow = observe("shallow")
    reflects(hold, shallow, tower[2])
    assert depth(shallow) == 3


def test_a_link_raises_all_dependents_of_its_source(
    hold: holdfast.Holdfast, observe: Make, reflect: Make, tower: list[str], depth: Depth
) -> None:
    base = observe("base")
    on_it = reflect("on it", base)
    hold.archive(ids=[away := reflect("away", base)])
    hold.delete(gone := reflect("gone", base))
    reflects(hold, base, tower[1])
    assert [depth(id) for id in (base, on_it, away, gone)] == [2, 3, 3, 3]
    assert hold.verify().intact


def test_a_link_exceeding_a_depth_cap_is_refused_and_changes_nothing(
    hold: holdfast.Holdfast, observe: Make, reflect: Make, tower: list[str], depth: Depth
) -> None:
    base = observe("base")
    on_it = reflect("on it", base)
    before = hold.events(limit=1000).events
    with pytest.raises(DepthExceeded):
        reflects(hold, base, tower[3])
    with pytest.raises(DepthExceeded) as refused:
        reflects(hold, base, tower[2])
    assert (on_it not in str(refused.value.to_json()), [depth(base), depth(on_it)]) == (True, [0, 1])
    assert hold.events(limit=1000).events == before


def test_a_link_above_the_depth_that_needs_approval_is_refused(
    hold: holdfast.Holdfast, observe: Make, tower: list[str]
) -> None:
    hold.policy_set(namespace="global", require_approval_above_depth=1)
    with pytest.raises(ApprovalRequired):
        reflects(hold, observe("base"), tower[1])


def test_a_depth_stays_when_its_source_is_deleted(
    hold: holdfast.Holdfast, tower: list[str], depth: Depth, clock: Any
) -> None:
    hold.kg_invalidate(source_id=tower[2], target_id=tower[1], relation="reflects_on")
    hold.delete(tower[0])
    hold.archive(ids=[tower[1]])
    assert [depth(id) for id in tower] == [0, 1, 2, 3]
    clock.move(seconds=1)
    hold.archive_restore(tower[1])
    assert [depth(id) for id in tower] == [0, 1, 2, 3]


def test_a_cycle_of_any_length_is_refused(hold: holdfast.Holdfast) -> None:
    """Imported memories may exceed the depth limit, so chains may be long."""
    rows = [{"id": f"m-{n}", "title": f"m {n}", "content": "It is so.", "tier": "long"} for n in range(60)]
    chain = [{"source_id": f"m-{n + 1}", "target_id": f"m-{n}", "relation": "reflects_on"} for n in range(59)]
    assert hold.call("import", {"envelope": {"memories": rows, "links": chain}}).rejected == 0
    assert hold.get("m-59").reflection_depth == 59
    for target in ("m-2", "m-40", "m-59"):
        with pytest.raises(CycleDetected):
            reflects(hold, "m-0", target)


def test_a_cycle_through_deleted_or_invisible_memories_is_refused(
    hold: holdfast.Holdfast, observe: Make, seen_by: Callable[..., Any]
) -> None:
    a, b, c = observe("a"), observe("b", scope="private"), observe("c")
    reflects(hold, a, b)
    reflects(hold, b, c)
    hold.delete(b)
    with pytest.raises(CycleDetected):
        seen_by("ai:other@here").link(source_id=c, target_id=a, relation="reflects_on")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            {"valid_from": "2020-01-01", "valid_until": "2021-01-01"},
            {"valid_from": "2020-06-01", "valid_until": "2022-01-01"},
        ),
        ({"valid_from": "2090-01-01", "valid_until": "2091-01-01"}, {"valid_from": "2092-01-01"}),
        ({"valid_from": "2020-01-01"}, {"valid_from": "2090-01-01"}),
    ],
    ids=["both in the past", "one after the other in the future", "now and in the future"],
)
def test_a_cycle_is_refused_whatever_the_dates_of_its_links(
    hold: holdfast.Holdfast, observe: Make, first: dict[str, str], second: dict[str, str]
) -> None:
    a, b = observe("a"), observe("b")
    reflects(hold, a, b, **first)
    with pytest.raises(CycleDetected):
        reflects(hold, b, a, **second)


def test_a_link_cannot_be_restored_into_a_cycle(hold: holdfast.Holdfast, observe: Make, clock: Any) -> None:
    a, b = observe("a"), observe("b")
    reflects(hold, a, b)
    clock.move(seconds=1)
    hold.kg_invalidate(source_id=a, target_id=b, relation="reflects_on")
    ended = next(entry.seq for entry in hold.events(limit=1000).events if entry.op == "invalidate")
    clock.move(seconds=1)
    reflects(hold, b, a)
    with pytest.raises(CycleDetected):
        reflects(hold, a, b)
    with pytest.raises(CycleDetected):
        hold.kg_invalidate(source_id=a, target_id=b, relation="reflects_on", valid_until="2099-01-01")
    with pytest.raises(CycleDetected):
        hold.undo(change=ended)


def test_an_undo_does_not_lower_a_depth(hold: holdfast.Holdfast, observe: Make, tower: list[str], depth: Depth) -> None:
    shallow = observe("shallow")
    reflects(hold, shallow, tower[1])
    deepened, linked = hold.events(limit=1000).events[-2:]
    assert (deepened.op, linked.op) == ("deepen", "link")
    with pytest.raises(ChangedSince):
        hold.undo(change=deepened.seq)
    hold.undo(change=linked.seq)
    assert depth(shallow) == 2
    again = hold.events(limit=1000).events[-1].seq
    hold.undo(change=again)
    assert depth(shallow) == 2


def test_an_import_does_not_lower_a_depth(hold: holdfast.Holdfast, tower: list[str], depth: Depth) -> None:
    shallow = row(hold, tower[2]) | {"reflection_depth": 0, "updated_at": "2099-01-01T00:00:00Z", "content": "New."}
    hold.call("import", {"envelope": {"memories": [shallow]}})
    assert (depth(tower[2]), hold.get(tower[2]).content) == (2, "New.")
    only = shallow | {"updated_at": "2099-02-01T00:00:00Z"}
    assert hold.call("import", {"envelope": {"memories": [only]}}).unchanged == 1


def test_an_import_that_raises_a_depth_raises_its_dependents(
    hold: holdfast.Holdfast, tower: list[str], depth: Depth
) -> None:
    deeper = row(hold, tower[1]) | {"reflection_depth": 5, "updated_at": "2099-01-01T00:00:00Z"}
    hold.call("import", {"envelope": {"memories": [deeper]}})
    assert [depth(id) for id in tower] == [0, 5, 6, 7]


def test_an_imported_reflection_merged_into_a_title_deepens_that_memory(
    hold: holdfast.Holdfast, observe: Make, reflect: Make, depth: Depth
) -> None:
    holder = observe("Held")
    on_it = reflect("on it", holder)
    given = {"id": "given", "title": "Held", "content": "Concluded.", "reflection_depth": 4, "tier": "long"}
    hold.call("import", {"envelope": {"memories": [given]}})
    assert (depth(holder), depth(on_it)) == (4, 5)


def test_an_imported_link_raises_its_source_whatever_the_file_states(hold: holdfast.Holdfast, depth: Depth) -> None:
    rows = [
        {"id": "low", "title": "low", "content": "x", "reflection_depth": 3, "tier": "long"},
        {"id": "high", "title": "high", "content": "x", "reflection_depth": 0, "tier": "long"},
    ]
    links = [{"source_id": "high", "target_id": "low", "relation": "reflects_on"}]
    hold.call("import", {"envelope": {"memories": rows, "links": links}})
    assert depth("high") == 4
    with pytest.raises(DepthExceeded):
        hold.reflect(source_ids=["high"], title="higher", content="It follows.")


def test_a_summary_of_reflections_has_their_depth(hold: holdfast.Holdfast, tower: list[str], depth: Depth) -> None:
    made = hold.consolidate(ids=tower[2:], title="Summary", summary="In short.")
    assert depth(made.id) == 3


def test_a_reflection_cannot_be_moved_to_a_namespace_that_would_refuse_it(
    hold: holdfast.Holdfast, observe: Make, reflect: Make
) -> None:
    hold.policy_set(namespace="strict", max_reflection_depth=0)
    so = reflect("so", observe("a"), namespace="loose")
    with pytest.raises(DepthExceeded):
        hold.update(so, namespace="strict")
    hold.update(observe("plain"), namespace="strict")


def test_a_reflection_cannot_be_promoted_to_a_namespace_that_would_refuse_it(
    hold: holdfast.Holdfast, observe: Make, reflect: Make, depth: Depth
) -> None:
    hold.policy_set(namespace="strict", max_reflection_depth=0)
    hold.policy_set(namespace="strict/loose", max_reflection_depth=3)
    so = reflect("so", observe("a"), namespace="strict/loose")
    with pytest.raises(DepthExceeded):
        hold.promote(so, to_namespace="strict")
    hold.policy_set(namespace="strict", max_reflection_depth=1)
    assert depth(hold.promote(so, to_namespace="strict").id) == 1


def test_storing_over_a_reflection_keeps_its_depth(hold: holdfast.Holdfast, tower: list[str], depth: Depth) -> None:
    hold.store(title="second", content="Something plain.", kind="observation")
    hold.bulk_store(memories=[{"title": "third", "content": "Something plain, too."}])
    hold.update(tower[1], content="Plain.", kind="observation", metadata={"reflection_depth": 0})
    assert [depth(id) for id in tower] == [0, 1, 2, 3]


def test_a_depth_cannot_be_set_by_storing(hold: holdfast.Holdfast) -> None:
    with pytest.raises(holdfast.HoldfastError, match="unknown field"):
        hold.store(title="x", content="x", reflection_depth=3)


@pytest.mark.parametrize("relation", ["derived_from", "derives_from"])
def test_a_derivation_has_the_depth_of_its_source_and_its_dependents_rise(
    hold: holdfast.Holdfast, observe: Make, reflect: Make, tower: list[str], depth: Depth, relation: str
) -> None:
    derived = observe("derived")
    above = reflect("above", derived)
    hold.link(source_id=derived, target_id=tower[2], relation=relation)
    assert (depth(derived), depth(above)) == (2, 3)
    with pytest.raises(DepthExceeded):
        reflect("too deep", above)


def test_a_derivation_exceeding_a_depth_cap_is_refused(
    hold: holdfast.Holdfast, observe: Make, reflect: Make, tower: list[str], depth: Depth
) -> None:
    hold.policy_set(namespace="strict", max_reflection_depth=1)
    derived, base = observe("derived", namespace="strict"), observe("base")
    reflect("on it", base)
    for source, target in ((derived, tower[2]), (base, tower[3])):
        with pytest.raises(DepthExceeded):
            hold.link(source_id=source, target_id=target, relation="derived_from")
    assert (depth(derived), depth(base)) == (0, 0)


def test_an_imported_or_restored_derivation_raises_its_source(
    hold: holdfast.Holdfast, observe: Make, reflect: Make, tower: list[str], depth: Depth, clock: Any
) -> None:
    taken, back = observe("taken in"), observe("put back")
    low = observe("low")
    link = {"source_id": taken, "target_id": tower[3], "relation": "derived_from"}
    hold.policy_set(namespace="global", max_reflection_depth=2)
    hold.call("import", {"envelope": {"memories": [], "links": [link]}})
    hold.link(source_id=back, target_id=low, relation="derived_from")
    hold.undo(change=hold.events(limit=1000).events[-1].seq)
    reflects(hold, low, tower[0])
    assert (depth(taken), depth(back)) == (3, 0)
    hold.undo(change=hold.events(limit=1000).events[-3].seq)
    assert (depth(low), depth(back)) == (1, 1)


@pytest.mark.parametrize("relation", ["derived_from", "derives_from", "reflects_on"])
def test_no_local_link_closes_a_cycle(hold: holdfast.Holdfast, observe: Make, reflect: Make, relation: str) -> None:
    ground, derived = observe("ground"), observe("derived")
    hold.link(source_id=derived, target_id=ground, relation="derived_from")
    for target in (derived, reflect("above", derived)):
        with pytest.raises(CycleDetected):
            hold.link(source_id=ground, target_id=target, relation=relation)
    assert hold.get(ground).reflection_depth == 0


def test_an_imported_derivation_cycle_is_accepted_and_has_one_depth(
    hold: holdfast.Holdfast, observe: Make, reflect: Make, tower: list[str], depth: Depth
) -> None:
    one, other = observe("one"), observe("other")
    above = reflect("above", other)
    ring = [{"source_id": a, "target_id": b, "relation": "derived_from"} for a, b in ((one, other), (other, one))]
    assert hold.call("import", {"envelope": {"memories": [], "links": ring}}).rejected == 0
    hold.link(source_id=one, target_id=tower[1], relation="derives_from")
    assert [depth(id) for id in (one, other, above)] == [1, 1, 2]
    assert hold.verify().intact


def test_an_imported_link_cannot_close_a_cycle_with_a_reflection(
    hold: holdfast.Holdfast, observe: Make, reflect: Make, depth: Depth
) -> None:
    ground = observe("ground")
    above = reflect("above", ground)
    link = {"source_id": ground, "target_id": above, "relation": "derived_from"}
    taken = hold.call("import", {"envelope": {"memories": [], "links": [link]}})
    assert ([one.code for one in taken.errors], depth(ground)) == (["REFLECTION_CYCLE_DETECTED"], 0)


def test_ingested_chunks_are_as_deep_as_their_document(hold: holdfast.Holdfast, tower: list[str], depth: Depth) -> None:
    first = hold.ingest(content="# A\n\nCats sleep all day long.\n", source_uri="doc:cats")
    hold.link(source_id=first.document_id, target_id=tower[2], relation="derived_from")
    more = hold.ingest(content="# A\n\nCats sleep all day long.\n\n# B\n\nDogs bark at night.\n", source_uri="doc:cats")
    fresh = [one.memory_id for one in more.segments if one.decision == "new"]
    assert (first.document_id, [depth(id) for id in fresh]) == (more.document_id, [2])
