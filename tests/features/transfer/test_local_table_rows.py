"""Rows of local tables convert to records and back without loss."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.features.learning.lesson_rules import Outcome
from holdfast.features.transfer.local_table_rows import LocalRecord, list_formats
from holdfast.kernel.errors import Invalid
from holdfast.kernel.model_allowance import MAX_COST, format_cost, parse_cost

MOMENTS = st.integers(-(10**15), 10**17)
TEXTS = st.text('aü\n"\\😀', max_size=20)


@given(cost=st.integers(0, MAX_COST))
def test_a_formatted_cost_is_parsed_back_exactly(cost: int) -> None:
    assert parse_cost(format_cost(cost), "cost") == cost


@pytest.mark.parametrize("text", ["", "much", "NaN", "Infinity", "-1", "0.0000000000001", "1e30", "1,5"])
def test_a_cost_that_cannot_be_stored_exactly_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_cost(text, "cost")


@given(at=MOMENTS, archived_at=st.none() | MOMENTS, what=TEXTS, lesson=st.none() | st.just("m-1"))
def test_a_record_survives_encoding_as_a_row(at: int, archived_at: int | None, what: str, lesson: str | None) -> None:
    outcomes = list_formats()["outcomes"]
    said = {"id": "o-1", "principal": "ann", "agent": "ai:a@b", "namespace": "n", "domain": "d", "score": -1}
    record = LocalRecord(Outcome(**said, at=at, archived_at=archived_at, what=what, lesson=lesson))
    assert outcomes.from_row(outcomes.row_type(**outcomes.to_row(record))) == record
