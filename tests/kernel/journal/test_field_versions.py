"""Field versions of a record: compact, and lossless."""

from itertools import pairwise
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.records.field_versions import (
    FieldVersions,
    MergeSchema,
    apply_edits,
    decode_states,
    diff_fields,
    encode_states,
    flatten,
    pack,
    unpack,
)
from holdfast.kernel.records.merge import AWAITED, FieldState, canonical_json, join, pick_visible
from holdfast.kernel.timestamps import Stamp

BASE = Stamp(10, "a.1")
LATER = Stamp(20, "a.1")


class Note(Struct, frozen=True):
    text: str | None = "first"
    state: str = "live"
    weight: float = 1.0
    tags: tuple[str, ...] = ()
    data: dict[str, Any] = {}


SHAPE = MergeSchema(
    conflict_fields=("text", "state"),
    lww_fields=("weight",),
    set_fields=("tags",),
    map_fields=("data",),
    reviving_fields=("text",),
)
VALUES = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3) | st.lists(st.booleans(), max_size=2)
NOTES = st.builds(
    Note,
    text=st.none() | st.text(max_size=5),
    state=st.sampled_from(["live", "archived", "deleted"]),
    weight=st.floats(0, 1),
    tags=st.lists(st.sampled_from("xyz"), unique=True).map(tuple),
    data=st.dictionaries(st.sampled_from("kl"), VALUES, max_size=2),
)


def apply_edit(
    before: Note, after: Note, cells: FieldVersions, stamp: Stamp
) -> tuple[FieldVersions, dict[str, FieldState]]:
    new, delta = apply_edits(SHAPE, cells, diff_fields(SHAPE, before, after), stamp)
    return new, decode_states(delta)


def exact(cells: dict[str, FieldState]) -> dict[str, Any]:
    return {name: ({s: canonical_json(v) for s, v in cell.values.items()}, cell.seen) for name, cell in cells.items()}


@given(st.lists(NOTES, min_size=1, max_size=6))
def test_field_versions_survive_packing_with_their_row(notes: list[Note]) -> None:
    cells = FieldVersions(BASE, {})
    for number, (before, after) in enumerate(pairwise(notes)):
        cells, _ = apply_edit(before, after, cells, Stamp(20 + number, "ab"[number % 2]))
    shows = flatten(SHAPE, notes[-1])
    again = unpack(pack(cells, shows), shows)
    assert again.base == cells.base
    assert exact(again.own) == exact(cells.own)


@given(NOTES, NOTES)
def test_joining_a_delta_onto_the_old_field_versions_gives_the_new_ones(before: Note, after: Note) -> None:
    old = FieldVersions(BASE, {})
    new, delta = apply_edit(before, after, old, LATER)
    shows = flatten(SHAPE, before)
    assert exact({name: join(old.state_of(name, shows.get(name)), cell) for name, cell in delta.items()}) == exact(
        new.own
    )


@given(NOTES, NOTES)
def test_every_field_of_an_edited_record_shows_the_value_of_its_column(before: Note, after: Note) -> None:
    cells, _ = apply_edit(before, after, FieldVersions(BASE, {}), LATER)
    for name, value in flatten(SHAPE, after).items():
        assert canonical_json(pick_visible([cells.state_of(name, value)])[0]) == canonical_json(value)


@given(NOTES)
def test_unchanged_fields_have_no_edit(note: Note) -> None:
    assert diff_fields(SHAPE, note, replace(note)) == {}


def test_a_fresh_row_stores_one_stamp_for_all_its_fields() -> None:
    packed = pack(FieldVersions(BASE, {}), flatten(SHAPE, Note(tags=("x",), data={"k": 1})))
    assert msgspec.json.decode(packed) == [10, "a.1"]
    assert unpack(packed, {}).state_of("text", "first") == FieldState({BASE: "first"}, {"a.1": 10})


def test_a_value_visible_in_its_column_is_not_stored_twice() -> None:
    before, after = Note(), Note(text="a text that is long enough to be found")
    cells, _ = apply_edit(before, after, FieldVersions(BASE, {}), LATER)
    assert b"long enough" not in pack(cells, flatten(SHAPE, after))


def test_only_differing_values_are_an_edit() -> None:
    before = Note(tags=("x", "y"), data={"k": 1, "l": 2})
    after = Note(weight=0.5, tags=("y", "z"), data={"l": 2, "m": False})
    assert diff_fields(SHAPE, before, after) == {
        "weight": (1.0, 0.5),
        "tags:z": (None, True),
        "tags:x": (True, False),
        "data:m": (None, False),
        "data:k": (1, None),
    }


def test_true_and_1_are_different_values_of_a_key() -> None:
    assert diff_fields(SHAPE, Note(data={"k": 1}), Note(data={"k": True})) == {"data:k": (1, True)}


def test_an_edit_of_the_text_rewrites_the_state_to_survive_an_older_deletion() -> None:
    cells, delta = apply_edit(Note(), Note(text="second"), FieldVersions(BASE, {}), LATER)
    assert delta["state"] == cells.own["state"] == FieldState({LATER: "live"}, {"a.1": 20})
    deleted_elsewhere = FieldState({Stamp(15, "b.1"): "deleted"}, {"a.1": 10, "b.1": 15})
    assert pick_visible([join(cells.own["state"], deleted_elsewhere)])[0] == "live"


def test_an_edit_of_a_tag_or_a_weight_does_not_rewrite_the_state() -> None:
    assert "state" not in diff_fields(SHAPE, Note(), Note(weight=0.5, tags=("x",), data={"k": 1}))


def test_an_edit_preserves_conflicting_values_and_only_references_them_in_its_delta() -> None:
    conflict = FieldState({Stamp(11, "b.1"): "lost", Stamp(12, "a.1"): "shown"}, {"a.1": 12, "b.1": 11})
    before = Note(text="shown")
    cells, delta = apply_edit(before, Note(text="new"), FieldVersions(BASE, {"text": conflict}), LATER)
    assert cells.own["text"].values == {Stamp(11, "b.1"): "lost", LATER: "new"}
    assert delta["text"].values == {Stamp(11, "b.1"): AWAITED, LATER: "new"}


def test_an_edit_of_an_unmerged_field_or_a_tag_replaces_everything() -> None:
    two = FieldState({Stamp(11, "b.1"): 0.1, Stamp(12, "a.1"): 1.0}, {"a.1": 12, "b.1": 11})
    both = FieldState({Stamp(11, "b.1"): True, Stamp(12, "a.1"): True}, {"a.1": 12, "b.1": 11})
    cells, _ = apply_edit(
        Note(tags=("x",)), Note(weight=0.5), FieldVersions(BASE, {"weight": two, "tags:x": both}), LATER
    )
    assert cells.own["weight"].values == {LATER: 0.5}
    assert cells.own["tags:x"].values == {LATER: False}


def test_a_conflict_survives_packing_beside_the_column_with_the_winner() -> None:
    conflict = FieldState(
        {Stamp(11, "b.1"): "lost", Stamp(12, "a.1"): AWAITED, Stamp(13, "a.1"): "won"}, {"a.1": 13, "b.1": 11}
    )
    shows = flatten(SHAPE, Note(text="won"))
    assert unpack(pack(FieldVersions(BASE, {"text": conflict}), shows), shows).own["text"] == conflict


def test_a_new_stamp_is_greater_than_all_stamps_its_fields_have_seen() -> None:
    cells = FieldVersions(BASE, {"text": FieldState({Stamp(99, "b.1"): "x"}, {"b.1": 99, "a.1": 12})})
    assert sorted(cells.seen_times({"text": "x", "weight": 1.0, "tags:new": None})) == [10, 12, 99]


def test_a_field_has_its_json_form_and_so_equals_a_replicated_one() -> None:
    assert flatten(MergeSchema(conflict_fields=("tags",)), Note(tags=("x",))) == {"tags": ["x"]}


def test_encoded_field_states_can_be_decoded() -> None:
    cells = {"text": FieldState({Stamp(1, "a.1"): AWAITED, Stamp(2, "b.1"): {"any": ["json"]}}, {"a.1": 1, "b.1": 2})}
    assert decode_states(encode_states(cells)) == cells
