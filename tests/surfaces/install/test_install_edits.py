"""Editors of other programs' files: an edit keeps the other content and its formatting."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.errors import FileMalformed, FileRefused
from holdfast.surfaces.install.edit import JSONC, TOML, YAML, Format
from holdfast.surfaces.install.text import EntryPath, apply_splices, value_at, with_value, without_empty

OURS = {"command": "/opt/hold fast/bin/holdfast", "args": ["mcp", "--db", "/tmp/ü.db"]}
PATH: EntryPath = ("mcpServers", "holdfast")


def is_own_entry(item: Any) -> bool:
    return isinstance(item, dict) and item.get("name") == "holdfast"


NAMES = st.sampled_from(["a", "b", "other", "mcp", "// no comment", "ü", 'q"uote', "x.y"])
TEXTS = st.sampled_from(["", "text", "/* no */", "# no", "ü\u2028", "a\\b", '"', "{", "null"])
COMMENTS = st.sampled_from(["one", 'with , } ] and "', "ü"])


class Layout:
    """Random spaces, comments, commas and newlines, all drawn from one example."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.newline = draw(st.sampled_from(["\n", "\r\n"]))
        self.comments = draw(st.booleans())
        self.trailing = draw(st.booleans())
        self.wide = draw(st.sampled_from([True, True, False]))

    def gap(self, indent: str) -> str:
        parts = ["", " "] if not self.wide else ["", " ", self.newline + indent]
        gap = self.draw(st.sampled_from(parts))
        if self.comments and self.draw(st.booleans()):
            note = self.draw(COMMENTS)
            gap += f"/* {note} */" if not self.wide or self.draw(st.booleans()) else f" // {note}{self.newline}{indent}"
        return gap

    def write(self, value: Any, indent: str = "") -> str:
        inner = indent + "\t"
        if isinstance(value, dict):
            items = [
                f"{json.dumps(key)}{self.gap(inner)}:{self.gap(inner)}{self.write(held, inner)}"
                for key, held in value.items()
            ]
        elif isinstance(value, list):
            items = [self.write(held, inner) for held in value]
        else:
            return json.dumps(value)
        body = ",".join(f"{self.gap(inner)}{item}{self.gap(inner)}" for item in items)
        body += "," if items and self.trailing else ""
        return "[{"[isinstance(value, dict)] + body + self.gap(indent) + "]}"[isinstance(value, dict)]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=5,
)


@st.composite
def jsonc(draw: st.DrawFn) -> str:
    model = draw(st.dictionaries(NAMES, VALUES, max_size=3))
    if draw(st.booleans()):
        model["mcpServers"] = draw(st.none() | st.dictionaries(NAMES, VALUES, max_size=2))
    if draw(st.booleans()):
        model["list"] = draw(st.lists(VALUES, max_size=2))
    model = dict(draw(st.permutations(list(model.items()))))
    layout = Layout(draw)
    return layout.gap("") + layout.write(model) + layout.gap("")


def comments_of(text: str) -> list[str]:
    pieces = re.finditer(r'"(?:[^"\\]|\\.)*"|(/\*.*?\*/|//[^\r\n]*)', text)
    return sorted(piece[1] for piece in pieces if piece[1])


def check(format: Format, text: str, path: EntryPath, value: Any) -> str:
    """Add a value; check the resulting data, and that removing it either way restores the original."""
    before = format.parse(text)
    splice = format.put(text, path, value)
    after = apply_splices(text, [splice])
    assert format.parse(after) == with_value(before, path, value)
    assert after[: splice.start] == text[: splice.start]
    assert after[splice.start + len(splice.new) :] == text[splice.end :]
    back = format.drop(after, path)
    assert without_empty(format.parse(back), path) == without_empty(before, path)
    return after


@given(jsonc(), st.sampled_from([PATH, ("holdfast",), ("list", is_own_entry)]))
def test_json_edits_preserve_content_comments_and_formatting(text: str, path: EntryPath) -> None:
    after = check(JSONC, text, path, {"name": "holdfast", **OURS})
    assert comments_of(after) == comments_of(text) == comments_of(JSONC.drop(after, path))
    assert "\n" not in after.replace("\r\n", "") or "\r\n" not in text
    parent = value_at(JSONC.parse(text), path[:-1])
    if parent and not comments_of(text):
        assert JSONC.drop(after, path) == text


@st.composite
def toml(draw: st.DrawFn) -> str:
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    values = [
        '"""\n[mcp_servers.holdfast]\n"""',
        "'''a # b'''",
        '[1, # one\n  "]", [2]]',
        "{a = 1, b.c = '#'}",
        '"\\\\"',
        "1979-05-27",
        "0x1f",
    ]
    keys, remarks = draw(st.sets(st.sampled_from("abc"))), st.sampled_from(["", " # why"])
    lines = [f"{key} = {draw(st.sampled_from(values))}{draw(remarks)}" for key in keys]
    heads = ["[mcp_servers.other]", "[ mcp_servers . 'x.y' ] # mine", "[[list]]", "[mcp_servers.other.env]", "[z]"]
    for head in sorted(draw(st.sets(st.sampled_from(heads))), key=heads.index):
        lines += draw(st.sampled_from([[], ["# about it"], ["", "# far", ""]]))
        lines += [head, *draw(st.sampled_from([[], ["k = 1"]]))]
    end = draw(st.sampled_from(["", "\n", "\n\n", "\n# the end"]))
    return ("\n".join(lines) + end).replace("\n", newline)


@given(toml())
def test_toml_edits_preserve_content_comments_and_formatting(text: str) -> None:
    after = check(TOML, text, ("mcp_servers", "holdfast"), OURS)
    assert after.startswith(text)
    assert TOML.drop(after, ("mcp_servers", "holdfast")).rstrip() == text.rstrip()


EXTENSIONS = [
    "",
    "extensions:",
    "extensions: {}",
    "extensions: ~ # none",
    "extensions: {d: {e: f}} # flow",
    "extensions: # mine\n    # first\n    d:\n        e: f # g\n    # last",
    "extensions:\n  d: {e: f}",
    "extensions: &anchor\n  d: null",
]
LISTS = ["", "list:", "list: []", "list: [a, b]", "list:\n- a\n- b: c\n  d: e", "list:\n  # x\n  - a # y"]
OTHERS = ["a: 1", "a: 'it''s # no'  # why", "a: [x, {y: z}]", "a: |\n  text\n    more", "a:", '"a": "q"']


@st.composite
def yaml(draw: st.DrawFn) -> str:
    lines = [draw(st.sampled_from(["", "# head\n", "---"]))]
    for part in draw(st.permutations([EXTENSIONS, LISTS, OTHERS])):
        lines += [draw(st.sampled_from(part)), draw(st.sampled_from(["", "# after"]))]
    text = "\n".join(line for line in lines if line or draw(st.booleans()))
    text += draw(st.sampled_from(["\n", "\n# end", "\n\n"]))
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


@given(yaml(), st.sampled_from([("extensions", "holdfast"), ("list", is_own_entry), ("holdfast",)]))
def test_yaml_edits_preserve_content_comments_and_formatting(text: str, path: EntryPath) -> None:
    after = check(YAML, text, path, {"name": "holdfast", "enabled": True, "timeout": 300, "envs": {}, **OURS})
    hashes = re.compile(r"#[^\r\n]*")
    assert hashes.findall(after) == hashes.findall(text)
    if value_at(YAML.parse(text), path[:-1]):
        assert YAML.drop(after, path).rstrip() == text.rstrip()


@pytest.mark.parametrize(
    ("format", "text", "line", "column"),
    [
        pytest.param(JSONC, '{\n  "a": 1\n  "b": 2\n}', 3, 3, id="json without a comma"),
        pytest.param(JSONC, '{"a": 01}', 1, 7, id="json with a number that is none"),
        pytest.param(JSONC, '{"a": "x\n"}', 1, 7, id="json with a text over two lines"),
        pytest.param(JSONC, "{/* no end", 1, 2, id="json with an open comment"),
        pytest.param(JSONC, '{"a": [1, 2}', 1, 12, id="json with the wrong bracket"),
        pytest.param(JSONC, "[]", 1, 1, id="json that is a list"),
        pytest.param(JSONC, '{} "x"', 1, 4, id="json with more after its end"),
        pytest.param(JSONC, "{'a': 1}", 1, 2, id="json with single quotes"),
        pytest.param(JSONC, '{"a":' * 101, 1, 501, id="json without a bottom"),
        pytest.param(JSONC, '{"mcpServers": []}', 1, 16, id="json with a list for an object"),
        pytest.param(JSONC, '{"mcpServers": {},\n "mcpServers": {}}', 2, 2, id="json with a name twice"),
        pytest.param(TOML, "a = 1\nb = = 2\n", 2, 5, id="toml with two equals signs"),
        pytest.param(TOML, 'a = "x', 1, 7, id="toml with an open text"),
        pytest.param(TOML, "mcpServers = 3\n", 1, 1, id="toml with a number for a table"),
        pytest.param(YAML, "a: 1\n b: 2\n", 2, 3, id="yaml with a wrong indent"),
        pytest.param(YAML, "- a\n", 1, 1, id="yaml that is a list"),
        pytest.param(YAML, "a: x\nmcpServers: [", 2, 14, id="yaml with an open bracket"),
        pytest.param(YAML, "mcpServers: text\n", 1, 13, id="yaml with a text for an object"),
        pytest.param(YAML, "a: \x00\n", 1, 4, id="yaml with a zero byte"),
    ],
)
def test_malformed_text_is_refused_with_its_position(format: Format, text: str, line: int, column: int) -> None:
    with pytest.raises(FileMalformed) as refused:
        format.put(text, PATH, OURS)
    assert (refused.value.details["line"], refused.value.details["column"]) == (line, column)
    assert refused.value.message.startswith(f"line {line}, column {column}: ")


@pytest.mark.parametrize(
    ("format", "text"),
    [
        pytest.param(TOML, "mcpServers = {a = {b = 1}}\n", id="an inline table, which nothing can be added to"),
        pytest.param(YAML, "a: 1\n---\nb: 2\n", id="several documents"),
        pytest.param(YAML, "a: |\n  kept as it is", id="a text that ends with the file"),
    ],
)
def test_a_structure_that_cannot_be_extended_safely_is_refused(format: Format, text: str) -> None:
    with pytest.raises(FileRefused):
        format.put(text, PATH, OURS)


@pytest.mark.parametrize(
    ("format", "text"),
    [
        pytest.param(JSONC, '{"s": {"h": {"command": "OLD", /* mine */ "x": 1}}}', id="json"),
        pytest.param(TOML, '[s.h]\ncommand = "OLD" # mine\n', id="toml"),
        pytest.param(YAML, 's:\n  h:\n    command: "OLD" # mine\n', id="yaml"),
    ],
)
def test_a_value_is_replaced_in_place(format: Format, text: str) -> None:
    assert apply_splices(text, [format.put(text, ("s", "h", "command"), "new")]) == text.replace("OLD", "new")
