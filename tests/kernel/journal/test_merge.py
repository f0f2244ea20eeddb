"""Laws of the merge: convergence, conflicts, shown values."""

from functools import reduce
from itertools import permutations
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.records.merge import (
    AWAITED,
    FieldState,
    canonical_json,
    is_present,
    join,
    pick_visible,
    to_delta,
    write_value,
)
from holdfast.kernel.timestamps import Stamp, tick

EMPTY = FieldState({}, {})


class Run(NamedTuple):
    """A history of one field on several replicas: final states, intermediate states, sent changes."""

    replicas: list[FieldState]
    reached: list[FieldState]
    changes: list[FieldState]


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Generate edits, resolutions and pulls in any order, with disagreeing clocks."""
    replicas = dict.fromkeys("ABC", EMPTY)
    reached, changes = [EMPTY], []
    for _ in range(draw(st.integers(1, 14))):
        at = draw(st.sampled_from("ABC"))
        if draw(st.booleans()):
            replicas[at] = join(replicas[at], replicas[draw(st.sampled_from("ABC"))])
        else:
            stamp = Stamp(tick(draw(st.integers(0, 9)), *replicas[at].seen.values()), at)
            replaces = draw(st.sampled_from([None, [pick_visible([replicas[at]])[0]]]))
            new = draw(st.sampled_from(["v", "w", 1, True, None]))
            replicas[at] = write_value(replicas[at], stamp, new, replaces)
            changes.append(to_delta(replicas[at], stamp))
        reached.append(replicas[at])
    return Run([*replicas.values()], reached, changes)


def exact(cell: FieldState) -> tuple[dict[Stamp, bytes], dict[str, int]]:
    """Convert a state so that 1 and True differ."""
    return {stamp: canonical_json(value) for stamp, value in cell.values.items()}, cell.seen


def join_all(changes: Any) -> FieldState:
    return reduce(join, changes, EMPTY)


@given(runs(), st.data())
def test_join_is_commutative_associative_and_idempotent_over_all_reachable_states(
    run: Run, data: st.DataObject
) -> None:
    a, b, c = (data.draw(st.sampled_from(run.reached + run.changes)) for _ in range(3))
    assert exact(join(a, b)) == exact(join(b, a))
    assert exact(join(join(a, b), c)) == exact(join(a, join(b, c)))
    assert exact(join(a, a)) == exact(a)


@given(runs(), st.randoms(use_true_random=False))
def test_the_same_changes_give_the_same_state_in_any_order_and_repetition(run: Run, dice: Any) -> None:
    shuffled = run.changes * 2
    dice.shuffle(shuffled)
    assert exact(join_all(shuffled)) == exact(join_all(run.changes)) == exact(join_all(run.replicas))


@given(runs())
def test_a_value_disappears_only_by_a_write_that_had_seen_it(run: Run) -> None:
    everything = join_all(run.replicas)
    for change in run.changes:
        for stamp, value in change.values.items():
            if value is not AWAITED and stamp not in everything.values:
                assert any(
                    stamp.time <= later.seen.get(stamp.origin, -1) and stamp not in later.values
                    for later in run.changes
                    if later is not change
                )


@given(runs())
def test_no_value_stays_awaited_after_every_change_arrived(run: Run) -> None:
    assert AWAITED not in join_all(run.changes).values.values()


def test_a_knowingly_replaced_value_is_not_a_conflict_in_any_delivery_order() -> None:
    """v1; then v2 and v3 concurrently on v1; then v4 on v3: only v2 lost unseen."""
    v1 = write_value(EMPTY, Stamp(1, "A"), "v1", None)
    v2 = write_value(v1, Stamp(2, "B"), "v2", ["v1"])
    v3 = write_value(v1, Stamp(3, "C"), "v3", ["v1"])
    v4 = write_value(v3, Stamp(4, "C"), "v4", ["v3"])
    changes = [
        to_delta(cell, Stamp(n, origin)) for cell, n, origin in [(v1, 1, "A"), (v2, 2, "B"), (v3, 3, "C"), (v4, 4, "C")]
    ]
    for order in permutations(changes):
        assert pick_visible([join_all(order)]) == ("v4", [(Stamp(2, "B"), "v2")])


def test_equal_values_of_two_writers_both_survive_a_join() -> None:
    """Dropping some would make the outcome depend on the order: a third writer may have replaced only one."""
    a = write_value(EMPTY, Stamp(1, "A"), "v", None)
    b = write_value(EMPTY, Stamp(1, "B"), "v", None)
    c = write_value(b, Stamp(2, "C"), "w", ["v"])
    assert join(a, b).values == {Stamp(1, "A"): "v", Stamp(1, "B"): "v"}
    assert exact(join(join(a, b), c)) == exact(join(a, join(b, c)))
    assert pick_visible([join(join(a, b), c)]) == ("w", [(Stamp(1, "A"), "v")])


def test_equal_values_are_not_a_conflict() -> None:
    a, b = (write_value(EMPTY, Stamp(1, origin), "same", None) for origin in "AB")
    assert pick_visible([join(a, b)]) == ("same", [])


def test_the_value_with_the_greatest_stamp_shows_and_the_other_is_the_conflict() -> None:
    older, newer = write_value(EMPTY, Stamp(1, "A"), "older", None), write_value(EMPTY, Stamp(2, "B"), "newer", None)
    assert pick_visible([join(newer, older)]) == ("newer", [(Stamp(1, "A"), "older")])


def test_an_edit_preserves_conflicting_values_and_a_resolution_clears_them() -> None:
    both = join(write_value(EMPTY, Stamp(1, "A"), "mine", None), write_value(EMPTY, Stamp(2, "B"), "theirs", None))
    assert pick_visible([write_value(both, Stamp(3, "A"), "edited", ["theirs"])]) == (
        "edited",
        [(Stamp(1, "A"), "mine")],
    )
    assert pick_visible([write_value(both, Stamp(3, "A"), "settled", None)]) == ("settled", [])


def test_a_concurrent_add_beats_a_remove() -> None:
    there = write_value(EMPTY, Stamp(1, "A"), True, None)
    removed = write_value(there, Stamp(9, "A"), False, None)
    added = write_value(there, Stamp(2, "B"), True, None)
    assert is_present([join(removed, added)])
    assert not is_present([removed])
    assert not is_present([write_value(join(removed, added), Stamp(10, "A"), False, None)])


def test_a_change_contains_its_own_value_and_references_conflicting_ones() -> None:
    both = join(write_value(EMPTY, Stamp(1, "A"), "lost", None), write_value(EMPTY, Stamp(2, "B"), "won", None))
    edited = write_value(both, Stamp(3, "B"), "new", ["won"])
    assert to_delta(edited, Stamp(3, "B")).values == {Stamp(1, "A"): AWAITED, Stamp(3, "B"): "new"}


def test_an_awaited_value_is_not_visible() -> None:
    assert pick_visible([FieldState({Stamp(9, "A"): AWAITED, Stamp(1, "B"): "here"}, {"A": 9, "B": 1})]) == ("here", [])
    assert pick_visible([FieldState({Stamp(9, "A"): AWAITED}, {"A": 9})]) == (None, [])
    assert pick_visible([]) == (None, [])


@pytest.mark.parametrize(
    ("one", "other"),
    [(True, 1), (False, 0), (1, 1.0), (None, False), ("1", 1), ({}, [])],
    ids=["true-one", "false-zero", "int-float", "null-false", "text-number", "object-array"],
)
def test_values_distinct_in_json_are_different_values(one: Any, other: Any) -> None:
    assert canonical_json(one) != canonical_json(other)


def test_the_order_of_keys_makes_no_difference() -> None:
    assert canonical_json({"a": 1, "b": {"c": 2, "d": 3}}) == canonical_json({"b": {"d": 3, "c": 2}, "a": 1})
