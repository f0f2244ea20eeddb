"""Splitting JSON of any size into elements."""

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.features.importers.readers import json_elements
from holdfast.features.importers.readers.json_elements import (
    Element,
    Fault,
    Line,
    decode_json,
    read_elements,
    read_lines,
)
from holdfast.kernel.errors import Invalid

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(['a"b\\', "[{", "\\\\"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


class Slow(io.BytesIO):
    """Stream that returns a few bytes per read, so that every position is once the end of a chunk."""

    def __init__(self, data: bytes, step: int) -> None:
        super().__init__(data)
        self._step = step

    def read(self, size: int | None = -1) -> bytes:
        return super().read(self._step)


@settings(max_examples=60)
@given(st.lists(VALUES, max_size=5), st.integers(1, 40), st.sampled_from([None, 1]), st.booleans())
def test_every_array_element_is_found_wherever_a_read_ends(
    document: list[Any], step: int, indent: int | None, plain: bool
) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=plain).encode()
    found = list(read_elements(Slow(text, step)))
    assert [json.loads(one.data) for one in found if isinstance(one, Element)] == document
    assert all(text[one.at :].startswith(one.data) for one in found if isinstance(one, Element))


def test_object_members_are_reported_by_name_with_array_elements_one_by_one() -> None:
    text = b'\xef\xbb\xbf {"a": [1, {"b": 2}], "c": "d", "e": {}, "f": []}'
    assert [(one.name, one.data) for one in read_elements(io.BytesIO(text)) if isinstance(one, Element)] == [
        ("a", b"1"),
        ("a", b'{"b": 2}'),
        ("c", b'"d"'),
        ("e", b"{}"),
    ]


def test_a_truncated_file_yields_its_complete_elements_and_the_position_of_its_end() -> None:
    assert list(read_elements(io.BytesIO(b'[{"a": 1}, {"b": "x'))) == [
        Element(None, 1, b'{"a": 1}'),
        Fault(19, "the file ends within the value that starts at byte 11"),
    ]


def test_a_too_large_element_is_reported_and_the_next_one_found() -> None:
    text = b'[1, "' + b"x" * 5000 + b'", 2]'
    assert list(read_elements(Slow(text, 100), max_bytes=1000)) == [
        Element(None, 1, b"1"),
        Fault(4, "has 5002 bytes; the maximum is 1000"),
        Element(None, len(text) - 2, b"2"),
    ]


def test_a_depth_of_a_hundred_thousand_is_reported_and_the_next_element_found() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    assert list(read_elements(io.BytesIO(b"[" + deep + b",7]"))) == [
        Fault(1, "nested 100000 levels deep; the maximum is 500"),
        Element(None, 200_002, b"7"),
    ]
    with pytest.raises(Invalid):
        decode_json(deep)


def test_unexpected_characters_are_reported_and_skipped() -> None:
    assert list(read_elements(io.BytesIO(b"[1 2 } 3]"))) == [
        Element(None, 1, b"1"),
        Element(None, 3, b"2"),
        Fault(5, "unexpected character"),
        Element(None, 7, b"3"),
    ]
    assert list(read_elements(io.BytesIO(b'[1] \n{"a": 2}'))) == [
        Element(None, 1, b"1"),
        Fault(5, "data after the end of the JSON, not read"),
    ]
    assert list(read_elements(io.BytesIO(b"hello"))) == [Fault(0, "neither a JSON array nor an object")]


def test_nonstandard_json_of_other_programs_is_read() -> None:
    assert decode_json(b'["\\ud800", 1]') == ["\ud800", 1]
    with pytest.raises(Invalid, match="invalid JSON"):
        decode_json(b'{"a":')


def test_a_too_long_line_is_reported_without_being_loaded() -> None:
    held = []

    class CountingBytes(io.BytesIO):
        def readline(self, size: int | None = -1) -> bytes:
            held.append(size)
            return super().readline(size)

    found = list(read_lines(CountingBytes(b"{}\n" + b"x" * 5000 + b"\n\n{}\n"), "file", max_bytes=1000))
    assert [one for one in found if isinstance(one, Line)] == [Line(1, b"{}\n"), Line(4, b"{}\n")]
    assert [(one.where, one.what) for one in found if not isinstance(one, Line)] == [
        ("file:2", "line has 5001 bytes; the maximum is 1000")
    ]
    assert None not in held
    assert -1 not in held


def test_at_most_one_element_is_in_memory_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_elements, "CHUNK", 1 << 12)
    asked: list[int] = []

    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            asked.append(size)
            return b"[" if len(asked) == 1 else b'{"a": "' + b"x" * 100 + b'"},'

    found = read_elements(Endless())  # type: ignore[arg-type]  # only read is asked of it
    for number in range(1, 1000):
        assert isinstance(next(found), Element)
        assert len(asked) <= number + 3
