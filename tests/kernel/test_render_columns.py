"""Answers printed by declared columns."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from holdfast.kernel.terminal import render_columns


class Pot(Struct, frozen=True, kw_only=True):
    id: str = "8ee94682-f5be-4bf1-a3f7-5b28eeac2784"
    at: str = "2026-01-31T08:10:00.000000Z"
    herbs: list[str] = []
    note: str | UnsetType = UNSET


class Shelf(Struct, frozen=True, kw_only=True):
    pots: list[Pot]
    count: int
    total: int = 0


class AddResult(Struct, frozen=True, kw_only=True):
    pot: Pot
    created: bool
    before: str | UnsetType = UNSET


def render(answer: Any, *columns: str, empty: str = "") -> list[str]:
    return list(render_columns(answer, columns, empty))


def test_listed_records_are_a_table_with_short_ids_and_times() -> None:
    shelf = Shelf(pots=[Pot(herbs=["basil", "mint"]), Pot(note="two\nlines \x1b[31m")], count=2, total=9)
    assert render(shelf, "id", "at", "herbs", "note") == [
        "\x1b[1mID        AT                 HERBS        NOTE\x1b[0m",
        "8ee94682  2026-01-31 08:10Z  basil, mint",
        "8ee94682  2026-01-31 08:10Z               two lines \\x1b[31m",
        "2 of 9",
    ]


def test_a_column_without_any_value_is_left_out() -> None:
    assert render(Shelf(pots=[Pot(), Pot()], count=2), "id", "note", "at")[0] == "\x1b[1mID        AT\x1b[0m"


def test_an_id_can_be_whole_and_a_fraction_has_two_digits() -> None:
    class Score(Struct):
        id: str
        confidence: float

    class Scores(Struct):
        scores: list[Score]

    assert render(Scores([Score(Pot().id, 2 / 3)]), "id!", "confidence") == [
        f"\x1b[1m{'ID':36}  CONFIDENCE\x1b[0m",
        f"{Pot().id}  0.67",
    ]


def test_a_column_may_be_a_field_of_a_field() -> None:
    class Row(Struct):
        pot: Pot
        place: int

    class Rows(Struct):
        rows: list[Row]

    assert render(Rows([Row(Pot(), 3)]), "pot.id", "place")[1] == "8ee94682  3"


def test_an_empty_table_says_so_in_its_own_words() -> None:
    assert render(Shelf(pots=[], count=0), "id") == ["No pots."]
    assert render(Shelf(pots=[], count=0), "id", empty="The shelf is empty.") == ["The shelf is empty."]


def test_a_record_has_its_columns_as_heading_and_then_every_other_field() -> None:
    heading = "\x1b[1m8ee94682-f5be-4bf1-a3f7-5b28eeac2784\x1b[0m"
    fields = ["  at: 2026-01-31T08:10:00.000000Z", "  herbs: none"]
    assert render(Pot(), "id") == [heading, *fields]
    assert render(AddResult(pot=Pot(), created=True), "id") == [heading, *fields, "created: yes"]


def test_an_empty_column_leaves_no_gap_in_a_heading() -> None:
    assert render(Pot(at=""), "id", "at")[0] == "\x1b[1m8ee94682-f5be-4bf1-a3f7-5b28eeac2784\x1b[0m"


def test_what_an_answer_leaves_out_is_not_printed_beside_its_record() -> None:
    class PotLease(Struct):
        pot: Pot
        token: int | UnsetType = UNSET

    assert render(PotLease(Pot()), "id")[1:] == ["  at: 2026-01-31T08:10:00.000000Z", "  herbs: none"]
