"""TOON follows its specification and loses nothing of the JSON."""

from typing import Any

import pytest
import toon_format
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.text import toon

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
JSON = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=20
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": 1, "b": {"c": True, "d": None}}, "a: 1\nb:\n  c: true\n  d: null"),
        (
            {"memories": [{"id": "a", "score": 0.5}, {"id": "b", "score": 1.0}]},
            "memories[2]{id,score}:\n  a,0.5\n  b,1",
        ),
        ({"tags": ["x", "y z", "p,q"]}, 'tags[3]: x,y z,"p,q"'),
        ({"items": [1, {"a": 1}, [2, 3]]}, "items[3]:\n  - 1\n  - a: 1\n  - [2]: 2,3"),
        ({"items": [{"id": 1, "tags": ["x"]}]}, "items[1]:\n  - id: 1\n    tags[1]: x"),
        ({"none": [], "nothing": {}}, "none: []\nnothing:"),
        ({"a key": "v", "1": "w", "x.y": "z"}, '"a key": v\n"1": w\nx.y: z'),
        (["true", "null", "05", "-1", "1e3", "", " a", "- b", "#c", "a: b", "[0]", "{x}"], None),
        ('two\nlines\tand \\ "quotes" \x01', '"two\\nlines\\tand \\\\ \\"quotes\\" \\u0001"'),
        ([1e6, 1e-6, -0.0, 1.50, 10**20], "[5]: 1000000,0.000001,0,1.5,100000000000000000000"),
        ("plain words, né 日本 👋".replace(",", ""), "plain words né 日本 👋"),
    ],
    ids="object table primitives mixed items empty keys ambiguous escapes numbers unicode".split(),
)
def test_every_form_is_encoded_as_specified(value: Any, text: str | None) -> None:
    quoted = f"[{len(value)}]: " + ",".join(f'"{item}"' for item in value) if text is None else text
    assert toon.encode(value) == quoted


@given(JSON)
def test_encoded_toon_decodes_to_the_same_value(value: Any) -> None:
    assert toon_format.decode(toon.encode(value)) == value


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), JSON), min_size=1, max_size=5))
def test_any_rows_become_one_table(rows: list[dict[str, Any]]) -> None:
    head, *lines = toon.encode({"rows": toon.table(rows, ("a", "b", "c"))}).split("\n")
    assert head == f"rows[{len(rows)}]{{a,b,c}}:"
    assert len(lines) == len(rows)


def test_a_cell_is_a_plain_value() -> None:
    rows = [{"tags": ["x", 2], "metadata": {"a": [1]}, "spans": [[0, 4]], "id": "m", "other": 1}]
    assert toon.table(rows, ("id", "tags", "metadata", "spans", "missing")) == [
        {"id": "m", "tags": "x,2", "metadata": '{"a":[1]}', "spans": "[[0,4]]", "missing": None}
    ]
