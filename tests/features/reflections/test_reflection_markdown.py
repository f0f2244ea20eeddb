"""Reflection Markdown is readable by people and by every YAML parser."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from holdfast.features.transfer.reflections.files import file_path, parse_file, render_file
from holdfast.kernel.errors import Invalid

TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
PLAIN = st.none() | st.booleans() | st.integers(-(1 << 53), 1 << 53) | TEXTS
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3))
NAMES = st.from_regex(r"\A[a-z_][a-z0-9_]{0,10}\Z")


@given(fields=st.dictionaries(NAMES, VALUES, max_size=5), content=TEXTS)
def test_written_markdown_is_parsed_back_unchanged(fields: dict[str, Any], content: str) -> None:
    assert parse_file(render_file(fields, content)) == (fields, content)


@given(
    fields=st.dictionaries(
        NAMES.filter(lambda name: name not in ("y", "n", "on", "off", "yes", "no")), VALUES, max_size=5
    )
)
def test_a_yaml_parser_finds_the_same_fields(fields: dict[str, Any]) -> None:
    head = render_file(fields, "").split("\n---\n")[0].removeprefix("---\n").removesuffix("---\n\n")
    assert (yaml.safe_load(head) or {}) == fields


def test_a_file_with_other_line_ends_is_read() -> None:
    assert parse_file('---\r\ntitle: "So"\r\n---\r\n\r\nIt follows.\r\n') == ({"title": "So"}, "It follows.\r\n")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "line 1"),
        ("title: 1", "line 1"),
        ('---\ntitle: "So"', "closing --- line"),
        ("---\ntitle: So\n---\n", "line 2"),
        ("---\n- a list\n---\n", "line 2"),
        ("---\na: 1\na: 2\n---\n", "line 3"),
        ("---\na: &x [1]\nb: *x\n---\n", "line 2"),
        ("---\na: NaN\n---\n", "line 2"),
    ],
)
def test_parse_errors_name_the_line(text: str, what: str) -> None:
    with pytest.raises(Invalid, match=what):
        parse_file(text)


@pytest.mark.parametrize(
    ("namespace", "id", "path"), [("team/project", "01a-b", "team/project/01a-b.md"), ("a.b/c_d", "x", "a.b/c_d/x.md")]
)
def test_plain_names_are_unchanged(namespace: str, id: str, path: str) -> None:
    assert file_path(namespace, id) == path


@pytest.mark.parametrize("name", ["A", "..a", "a:b", "é", "x" * 200, "con", "a.", "-"])
def test_other_names_are_unique_on_every_file_system(name: str) -> None:
    made = file_path(name, "id").split("/")[0]
    assert made.lower() == made
    assert len(made) <= 100
    assert made.isascii()
    assert not made.startswith(".")
