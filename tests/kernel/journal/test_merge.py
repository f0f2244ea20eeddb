"""The laws of the one merge: what converges, what is kept, what shows."""

from functools import reduce
from itertools import permutations
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.clock import Stamp, tick
from holdfast.kernel.records.merge import AWAITED, Cell, canonical, delta, join, present, shown, write

EMPTY = Cell({}, {})


class Run(NamedTuple):
    """What some replicas did with one cell: where each ended, every cell on the way, every change that travelled."""

    replicas: list[Cell]
    reached: list[Cell]
    changes: list[Cell]


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Edits, resolutions and pulls in any order, by clocks that disagree."""
    replicas = dict.fromkeys("ABC", EMPTY)
    reached, changes = [EMPTY], []
    for _ in range(draw(st.integers(1, 14))):
        at = draw(st.sampled_from("ABC"))
        if draw(st.booleans()):
            replicas[at] = join(replicas[at], replicas[draw(st.sampled_from("ABC"))])
        else:
            stamp = Stamp(tick(draw(st.integers(0, 9)), *replicas[at].seen.values()), at)
            replaces = draw(st.sampled_from([None, [shown([replicas[at]])[0]]]))
            new = draw(st.sampled_from(["v", "w", 1, True, None]))
            replicas[at] = write(replicas[at], stamp, new, replaces)
            changes.append(delta(replicas[at], stamp))
        reached.append(replicas[at])
    return Run([*replicas.values()], reached, changes)


def exact(cell: Cell) -> tuple[dict[Stamp, bytes], dict[str, int]]:
    """A cell in which 1 and True differ."""
    return {stamp: canonical(value) for stamp, value in cell.values.items()}, cell.seen


def told(changes: Any) -> Cell:
    return reduce(join, changes, EMPTY)


@given(runs(), st.data())
def test_join_is_commutative_associative_and_idempotent_over_every_cell_that_can_arise(
    run: Run, data: st.DataObject
) -> None:
    a, b, c = (data.draw(st.sampled_from(run.reached + run.changes)) for _ in range(3))
    assert exact(join(a, b)) == exact(join(b, a))
    assert exact(join(join(a, b), c)) == exact(join(a, join(b, c)))
    assert exact(join(a, a)) == exact(a)


@given(runs(), st.randoms(use_true_random=False))
def test_the_same_changes_make_the_same_cell_in_whatever_order_and_however_often_they_come(run: Run, dice: Any) -> None:
    shuffled = run.changes * 2
    dice.shuffle(shuffled)
    assert exact(told(shuffled)) == exact(told(run.changes)) == exact(told(run.replicas))


@given(runs())
def test_a_value_goes_only_if_somebody_who_had_seen_it_wrote(run: Run) -> None:
    everything = told(run.replicas)
    for change in run.changes:
        for stamp, value in change.values.items():
            if value is not AWAITED and stamp not in everything.values:
                assert any(
                    stamp.time <= later.seen.get(stamp.origin, -1) and stamp not in later.values
                    for later in run.changes
                    if later is not change
                )


@given(runs())
def test_no_value_stays_awaited_once_every_change_has_come(run: Run) -> None:
    assert AWAITED not in told(run.changes).values.values()


def test_a_value_that_was_knowingly_replaced_is_no_conflict_in_any_order_of_delivery() -> None:
    """v1; then v2 and v3 on v1 at once; then v4 on v3: only v2 lost without being seen."""
    v1 = write(EMPTY, Stamp(1, "A"), "v1", None)
    v2 = write(v1, Stamp(2, "B"), "v2", ["v1"])
    v3 = write(v1, Stamp(3, "C"), "v3", ["v1"])
    v4 = write(v3, Stamp(4, "C"), "v4", ["v3"])
    changes = [
        delta(cell, Stamp(n, origin)) for cell, n, origin in [(v1, 1, "A"), (v2, 2, "B"), (v3, 3, "C"), (v4, 4, "C")]
    ]
    for order in permutations(changes):
        assert shown([told(order)]) == ("v4", [(Stamp(2, "B"), "v2")])


def test_equal_values_of_two_writers_are_both_kept_when_joined() -> None:
    """Thinning them would make the outcome depend on the order: a third writer may have replaced only one."""
    a = write(EMPTY, Stamp(1, "A"), "v", None)
    b = write(EMPTY, Stamp(1, "B"), "v", None)
    c = write(b, Stamp(2, "C"), "w", ["v"])
    assert join(a, b).values == {Stamp(1, "A"): "v", Stamp(1, "B"): "v"}
    assert exact(join(join(a, b), c)) == exact(join(a, join(b, c)))
    assert shown([join(join(a, b), c)]) == ("w", [(Stamp(1, "A"), "v")])


def test_equal_values_are_no_conflict() -> None:
    a, b = (write(EMPTY, Stamp(1, origin), "same", None) for origin in "AB")
    assert shown([join(a, b)]) == ("same", [])


def test_the_greatest_stamp_shows_and_the_other_value_is_the_conflict() -> None:
    older, newer = write(EMPTY, Stamp(1, "A"), "older", None), write(EMPTY, Stamp(2, "B"), "newer", None)
    assert shown([join(newer, older)]) == ("newer", [(Stamp(1, "A"), "older")])


def test_an_edit_keeps_the_losers_and_a_resolution_clears_them() -> None:
    both = join(write(EMPTY, Stamp(1, "A"), "mine", None), write(EMPTY, Stamp(2, "B"), "theirs", None))
    assert shown([write(both, Stamp(3, "A"), "edited", ["theirs"])]) == ("edited", [(Stamp(1, "A"), "mine")])
    assert shown([write(both, Stamp(3, "A"), "settled", None)]) == ("settled", [])


def test_a_concurrent_add_beats_a_remove() -> None:
    there = write(EMPTY, Stamp(1, "A"), True, None)
    removed = write(there, Stamp(9, "A"), False, None)
    added = write(there, Stamp(2, "B"), True, None)
    assert present([join(removed, added)])
    assert not present([removed])
    assert not present([write(join(removed, added), Stamp(10, "A"), False, None)])


def test_a_change_carries_its_own_value_and_only_names_the_losers_it_kept() -> None:
    both = join(write(EMPTY, Stamp(1, "A"), "lost", None), write(EMPTY, Stamp(2, "B"), "won", None))
    edited = write(both, Stamp(3, "B"), "new", ["won"])
    assert delta(edited, Stamp(3, "B")).values == {Stamp(1, "A"): AWAITED, Stamp(3, "B"): "new"}


def test_what_is_awaited_does_not_show() -> None:
    assert shown([Cell({Stamp(9, "A"): AWAITED, Stamp(1, "B"): "here"}, {"A": 9, "B": 1})]) == ("here", [])
    assert shown([Cell({Stamp(9, "A"): AWAITED}, {"A": 9})]) == (None, [])
    assert shown([]) == (None, [])


@pytest.mark.parametrize(
    ("one", "other"),
    [(True, 1), (False, 0), (1, 1.0), (None, False), ("1", 1), ({}, [])],
    ids=["true-one", "false-zero", "int-float", "null-false", "text-number", "object-array"],
)
def test_values_that_json_tells_apart_are_different_values(one: Any, other: Any) -> None:
    assert canonical(one) != canonical(other)


def test_the_order_of_keys_makes_no_difference() -> None:
    assert canonical({"a": 1, "b": {"c": 2, "d": 3}}) == canonical({"b": {"d": 3, "c": 2}, "a": 1})
