"""Edit JSON with comments and trailing commas in place; all other bytes are kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from holdfast.surfaces.install.text import (
    EntryPath,
    OwnPaths,
    Splice,
    Step,
    indent_of,
    line_end,
    line_start,
    malformed_file,
    newline_of,
    wrap_value,
    wrong_kind_error,
)

MAX_DEPTH = 100
_BLANK = re.compile(r"(?:[ \t\r\n]++|//[^\r\n]*+|/\*.*?\*/)*+", re.S)
_COMMENT = re.compile(r"//[^\r\n]*+|/\*")
"""A comment up to its end of line, or the start of one that ends with `*/`."""
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"')
_WORD = re.compile(r"(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.+-])", re.A)


@dataclass
class Node:
    """A value with its position in the text."""

    start: int
    end: int = 0
    value: Any = None
    members: list[Member] = field(default_factory=list)

    @property
    def container_type(self) -> type | None:
        return type(self.value) if isinstance(self.value, dict | list) else None


@dataclass
class Member:
    """A member of an object or list: its position from the key (or itself), and its comma."""

    start: int
    node: Node
    key: str | None = None
    comma: int | None = None


def parse(text: str) -> Any:
    """Parse a text; an empty one is an empty object."""
    root = _tree(text)
    return {} if root is None else root.value


@lru_cache(maxsize=4)
def _tree(text: str) -> Node | None:
    """Parse a text to a tree. Cached, as files may be large and are parsed several times; never mutate a tree."""
    start = _skip(text, 0)
    if start == len(text):
        return None
    root = _node(text, start, MAX_DEPTH)
    rest = _skip(text, root.end)
    if rest < len(text):
        raise malformed_file(text, rest, "unexpected content after the end")
    if root.container_type is not dict:
        raise wrong_kind_error(text, start, (), "")
    return root


def _skip(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    assert blank is not None
    if text.startswith("/*", blank.end()):
        raise malformed_file(text, blank.end(), "unterminated comment")
    return blank.end()


def _node(text: str, at: int, depth: int) -> Node:
    opening = text[at : at + 1]
    if opening in ("{", "["):
        return _container(text, at, depth)
    plain = _STRING.match(text, at) or _WORD.match(text, at)
    if plain is None:
        raise malformed_file(text, at, "a value is expected" if opening else "the file ends too early")
    return Node(at, plain.end(), json.loads(plain[0]))


def _container(text: str, at: int, depth: int) -> Node:
    if depth == 0:
        raise malformed_file(text, at, "nested too deeply")
    node = Node(at, value={} if text[at] == "{" else [])
    closing = "}" if text[at] == "{" else "]"
    place = _skip(text, at + 1)
    while not text.startswith(closing, place):
        if node.members and node.members[-1].comma is None:
            raise malformed_file(text, place, f"a comma or {closing} is expected")
        member = _member(text, place, node, depth - 1)
        node.members.append(member)
        place = _skip(text, member.node.end)
        if text.startswith(",", place):
            member.comma = place
            place = _skip(text, place + 1)
    node.end = place + 1
    return node


def _member(text: str, at: int, parent: Node, depth: int) -> Member:
    if isinstance(parent.value, list):
        member = Member(at, _node(text, at, depth))
        parent.value.append(member.node.value)
        return member
    key = _STRING.match(text, at)
    if key is None:
        raise malformed_file(
            text, at, "a name in double quotes is expected" if at < len(text) else "the file ends too early"
        )
    colon = _skip(text, key.end())
    if not text.startswith(":", colon):
        raise malformed_file(text, colon, "a colon is expected")
    member = Member(at, _node(text, _skip(text, colon + 1), depth), json.loads(key[0]))
    parent.value[member.key] = member.node.value
    return member


def put(text: str, path: EntryPath, value: Any) -> list[Splice]:
    """Set a value at a path; create missing parents."""
    node = _tree(text)
    if node is None:
        newline = newline_of(text)
        before = newline if text and not text.endswith("\n") else ""
        return [Splice(len(text), len(text), before + _render(wrap_value(path, value), "", "  ", newline) + newline)]
    unit = _indent_unit(text, node)
    for number, step in enumerate(path):
        if node.value is None:
            return [Splice(node.start, node.end, json.dumps(wrap_value(path[number:], value), ensure_ascii=False))]
        inner = _find_member(text, node, path[:number], step)
        if inner is None:
            return [_insert(text, node, step, wrap_value(path[number + 1 :], value), unit)]
        node = inner.node
    return [Splice(node.start, node.end, json.dumps(value, ensure_ascii=False))]


def _find_member(text: str, node: Node, path: EntryPath, step: Step) -> Member | None:
    """Return the member a step selects. A duplicate name is rejected: programs differ in which one counts."""
    if node.container_type is not (dict if isinstance(step, str) else list):
        raise wrong_kind_error(text, node.start, path, step)
    fits = [one for one in node.members if (one.key == step if isinstance(step, str) else step(one.node.value))]
    if isinstance(step, str) and len(fits) > 1:
        raise malformed_file(text, fits[1].start, f"duplicate name {json.dumps(step)}")
    return fits[0] if fits else None


def _indent_unit(text: str, root: Node) -> str:
    """Return the indentation unit of the file."""
    if not root.members or "\n" not in text[root.start : root.members[0].start]:
        return "  "
    return indent_of(text, root.members[0].start) or "  "


def _insert(text: str, node: Node, step: Step, value: Any, unit: str) -> Splice:
    """Insert a new first member, on its own line unless the file has only one line."""
    name = f"{json.dumps(step)}: " if isinstance(step, str) else ""
    newline, outer, opened = newline_of(text), indent_of(text, node.start), node.start + 1
    if not node.members:
        return _fill(text, node, name, value, unit)
    first = node.members[0].start
    broken = _first_newline(text, opened, first)
    if broken is None:
        return Splice(first, first, f"{name}{json.dumps(value, ensure_ascii=False)}, ")
    own_line = text[line_start(text, first) : first].strip(" \t") == ""
    inner = indent_of(text, first) if own_line else outer + unit
    return Splice(broken, broken, f"{newline}{inner}{name}{_render(value, inner, unit, newline)},")


def _fill(text: str, node: Node, name: str, value: Any, unit: str) -> Splice:
    """Insert the only member of an empty object or list, which may have comments."""
    newline, outer, opened, closing = newline_of(text), indent_of(text, node.start), node.start + 1, node.end - 1
    if "\n" not in text.strip() and text.strip() != text[node.start : node.end]:
        return Splice(opened, opened, f"{name}{json.dumps(value, ensure_ascii=False)}")
    start = max((end for _, end in _comments(text, opened, closing)), default=opened)
    inner = outer + unit
    return Splice(start, closing, f"{newline}{inner}{name}{_render(value, inner, unit, newline)}{newline}{outer}")


def _first_newline(text: str, start: int, end: int) -> int | None:
    """Return the first line end between two positions, outside of comments."""
    for first, last in [*_comments(text, start, end), (end, end)]:
        if (newline := text.find("\n", start, first)) != -1:
            return newline - 1 if text[newline - 1] == "\r" else newline
        start = last
    return None


def _comments(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each comment between two positions."""
    last = text.rfind("*/", start, end)
    while comment := _COMMENT.search(text, start, end):
        start = comment.end()
        if comment[0] == "/*":
            if last < start:
                continue
            start = text.index("*/", start, end) + 2
        yield comment.start(), start


def _render(value: Any, indent: str, unit: str, newline: str) -> str:
    """Render a value over several lines; lists of scalars stay on one line."""
    if isinstance(value, dict) and value:
        inner = indent + unit
        lines = [f"{inner}{json.dumps(key)}: {_render(held, inner, unit, newline)}" for key, held in value.items()]
        return "{" + newline + f",{newline}".join(lines) + newline + indent + "}"
    if isinstance(value, list) and any(isinstance(held, dict | list) for held in value):
        inner = indent + unit
        lines = [inner + _render(held, inner, unit, newline) for held in value]
        return "[" + newline + f",{newline}".join(lines) + newline + indent + "]"
    return json.dumps(value, ensure_ascii=False)


def drop(text: str, path: EntryPath, ours: OwnPaths = ()) -> list[Splice]:
    """Remove the value at a path with its comma, and parents in `ours` that become empty; keep comments."""
    root = _tree(text)
    assert root is not None
    way = list(_trace_path(text, root, path))
    while path[: len(way) - 1] in ours and len(way[-1][0].members) == 1:
        if _is_commented(text, way[-2][1], way[-1][1]):
            break
        way.pop()
    return _cut(text, *way[-1])


def _trace_path(text: str, node: Node, path: EntryPath) -> Iterator[tuple[Node, Member]]:
    for number, step in enumerate(path):
        member = _find_member(text, node, path[:number], step)
        assert member is not None
        yield node, member
        node = member.node


def _is_commented(text: str, holder: Member, member: Member) -> bool:
    """Return whether a member's parent has comments."""
    return _has_comments(text, holder.node, member) or any(_comments(text, holder.start, holder.node.start))


def _has_comments(text: str, node: Node, member: Member) -> bool:
    around = text[node.start + 1 : member.start] + " " + text[member.node.end : node.end - 1]
    return any(_comments(around, 0, len(around)))


def _cut(text: str, node: Node, member: Member) -> list[Splice]:
    at = node.members.index(member)
    if len(node.members) == 1 and not _has_comments(text, node, member):
        return [Splice(node.start + 1, node.end - 1, "")]
    if member.comma is None:
        comma = node.members[at - 1].comma if at else None
        before = [] if comma is None else [Splice(comma, comma + 1, "")]
        return [*before, _line_splice(text, member.start, member.node.end)]
    if text[member.node.end : member.comma].strip() == "":
        return [_line_splice(text, member.start, member.comma + 1)]
    return [Splice(member.start, member.node.end, ""), Splice(member.comma, member.comma + 1, "")]


def _line_splice(text: str, start: int, end: int) -> Splice:
    """Cut a piece: with its line if it is alone on it, else with the blanks after it."""
    first, last = line_start(text, start), line_end(text, end)
    if text[first:start].strip(" \t") or text[end:last].strip(" \t") or not first:
        return Splice(start, end + len(text[end:last]) - len(text[end:last].lstrip(" \t")), "")
    return Splice(first - (2 if text[first - 2 : first] == "\r\n" else 1), end, "")
