"""Edit YAML in place: insert and remove entries by lines; all other bytes are kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from holdfast.surfaces.install.text import (
    EntryPath,
    OwnPaths,
    Splice,
    Step,
    line_end,
    line_start,
    malformed_file,
    newline_of,
    unsafe_edit,
    wrap_value,
    wrong_kind_error,
)

_WORDS = re.compile(r"(?!(?:y|n|yes|no|on|off|true|false|null)\Z)[A-Za-z/][\w./-]*", re.I | re.A)
"""Strings that need no quotes in any YAML version."""
_TEXT, _NULL, _FLAG, _NUMBER = ("tag:yaml.org,2002:" + name for name in ("str", "null", "bool", "int"))
_COMMA = re.compile(r"\s*,[ \t]*")
_DECIMAL = re.compile(r"0|-?[1-9][0-9]*")
MAX_DEPTH = 100


@dataclass(frozen=True)
class NodeEntry:
    """An entry of a mapping or sequence: the node it starts with, and its value."""

    first: Node
    value: Node


def parse(text: str) -> Any:
    """Parse a text; an empty one is an empty object."""
    root = _compose(text)
    if root is None:
        return {}
    model = _model(root, MAX_DEPTH)
    if model is not None and not isinstance(model, dict):
        raise wrong_kind_error(text, root.start_mark.index, (), "")
    return model or {}


def _compose(text: str) -> Node | None:
    try:
        root: Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
        return root
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise malformed_file(text, mark.index if mark else 0, str(error.problem or error.context)) from None
    except yaml.reader.ReaderError as error:
        raise malformed_file(text, int(error.position), "a character that YAML does not allow") from None
    except RecursionError:
        raise malformed_file(text, 0, "nested too deeply") from None


def _model(node: Node, depth: int) -> Any:
    """Convert a node: strings, booleans, integers and null as such, other values as tag and text."""
    if depth == 0:
        raise unsafe_edit()
    if isinstance(node, MappingNode):
        pairs = [(_model(key, depth - 1), _model(value, depth - 1)) for key, value in node.value]
        return {key if isinstance(key, str) else repr(key): value for key, value in pairs}
    if isinstance(node, SequenceNode):
        return [_model(item, depth - 1) for item in node.value]
    if node.tag == _FLAG:
        return str(node.value).lower() in ("true", "yes", "on")
    if node.tag == _NUMBER and _DECIMAL.fullmatch(node.value):
        return int(node.value)
    return None if node.tag == _NULL else node.value if node.tag == _TEXT else (node.tag, node.value)


def put(text: str, path: EntryPath, value: Any) -> list[Splice]:
    """Set a value at a path; create missing parents."""
    node, owner = _compose(text), None
    for number, step in enumerate(path):
        if node is None or (isinstance(node, ScalarNode) and node.tag == _NULL):
            return [_insert_first(text, owner, node, wrap_value(path[number:], value))]
        inner = _find_entry(text, node, path[:number], step)
        if inner is None:
            return [_insert(text, owner, node, step, wrap_value(path[number + 1 :], value))]
        node, owner = inner.value, inner.first
    assert node is not None
    start, end = node.start_mark.index, _end(node)
    return [Splice(start, end, " " * (start == end) + json.dumps(value, ensure_ascii=False))]


def _node_entries(node: Node) -> list[NodeEntry]:
    if isinstance(node, MappingNode):
        return [NodeEntry(key, value) for key, value in node.value]
    return [NodeEntry(item, item) for item in node.value] if isinstance(node, SequenceNode) else []


def _find_entry(text: str, node: Node, path: EntryPath, step: Step) -> NodeEntry | None:
    """Return the entry a step selects. A duplicate name is rejected: programs differ in which one counts."""
    if not isinstance(node, MappingNode if isinstance(step, str) else SequenceNode):
        raise wrong_kind_error(text, node.start_mark.index, path, step)
    if isinstance(step, str):
        fits = [one for one in _node_entries(node) if _model(one.first, 1 + MAX_DEPTH) == step]
        if len(fits) > 1:
            raise malformed_file(text, fits[1].first.start_mark.index, f"duplicate name {step}")
    else:
        fits = [one for one in _node_entries(node) if step(_model(one.value, MAX_DEPTH))]
    return fits[0] if fits else None


def _insert_first(text: str, owner: Node | None, node: Node | None, value: Any) -> Splice:
    """Insert the first value: at the end of the file, below its key, or in place of a null."""
    newline = newline_of(text)
    if owner is None:
        return _append(text, newline.join(_block(value, "")), newline)
    if node is not None and node.start_mark.index < node.end_mark.index:
        return Splice(node.start_mark.index, node.end_mark.index, json.dumps(value, ensure_ascii=False))
    at, indent = line_end(text, owner.end_mark.index), " " * (owner.start_mark.column + 2)
    return Splice(at, at, "".join(newline + line for line in _block(value, indent)))


def _append(text: str, block: str, newline: str) -> Splice:
    before = newline if text and not text.endswith("\n") else ""
    return Splice(len(text), len(text), before + block + newline)


def _insert(text: str, owner: Node | None, node: Node, step: Step, value: Any) -> Splice:
    """Insert an entry: first below its key, or last at the top level."""
    entry = {step: value} if isinstance(step, str) else [value]
    newline, held = newline_of(text), _node_entries(node)
    assert isinstance(node, MappingNode | SequenceNode)
    if node.flow_style:
        at = node.start_mark.index + 1
        return Splice(at, at, json.dumps(entry, ensure_ascii=False)[1:-1] + ", " * bool(held))
    first = held[0].first.start_mark
    if owner is None:
        return _append(text, newline.join(_block(entry, " " * first.column)), newline)
    if first.line <= owner.end_mark.line:
        raise unsafe_edit()
    column = first.column if isinstance(node, MappingNode) else _dash(text, first.index) - line_start(text, first.index)
    at = line_end(text, owner.end_mark.index)
    return Splice(at, at, "".join(newline + line for line in _block(entry, " " * column)))


def _dash(text: str, at: int) -> int:
    """Return the position of a list item's dash."""
    before = text[line_start(text, at) : at]
    if not re.fullmatch(r" *-[ \t]+", before):
        raise unsafe_edit()
    return line_start(text, at) + before.index("-")


def _block(value: Any, indent: str) -> Iterator[str]:
    """Yield the lines of an object or list."""
    if isinstance(value, dict):
        for key, held in value.items():
            if isinstance(held, dict | list) and held:
                yield f"{indent}{_scalar(key)}:"
                yield from _block(held, indent + "  ")
            else:
                yield f"{indent}{_scalar(key)}: {_scalar(held)}"
        return
    for item in value:
        lines = list(_block(item, indent + "  ")) if isinstance(item, dict) else [f"{indent}  {_scalar(item)}"]
        yield f"{indent}- {lines[0].lstrip(' ')}"
        yield from lines[1:]


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _WORDS.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def drop(text: str, path: EntryPath, ours: OwnPaths = ()) -> list[Splice]:
    """Remove the value at a path by lines, and parents in `ours` that become empty; keep comments."""
    way = list(_trace_path(text, path))
    while path[: len(way) - 1] in ours and len(_node_entries(way[-1][0])) == 1:
        if _has_comments(text, way[-2][1], way[-1][1]):
            break
        way.pop()
    return [_cut(text, *way[-1]), *(_keep_empty(text, way[-2][1], way[-1][0]) if len(way) > 1 else ())]


def _keep_empty(text: str, owner: NodeEntry, node: Node) -> Iterator[Splice]:
    """Keep a parent that becomes empty as `{}` or `[]`; without it the value would be null."""
    if len(_node_entries(node)) > 1 or getattr(node, "flow_style", False):
        return
    colon = text.index(":", owner.first.end_mark.index) + 1
    yield Splice(colon, colon, " {}" if isinstance(node, MappingNode) else " []")


def _trace_path(text: str, path: EntryPath) -> Iterator[tuple[Node, NodeEntry]]:
    node = _compose(text)
    for number, step in enumerate(path):
        assert node is not None
        held = _find_entry(text, node, path[:number], step)
        assert held is not None
        yield node, held
        node = held.value


def _has_comments(text: str, owner: NodeEntry, held: NodeEntry) -> bool:
    return "#" in text[owner.first.end_mark.index : held.first.start_mark.index]


def _end(node: Node) -> int:
    """Return the end of a node's content; its own end mark may be after trailing comments."""
    if isinstance(node, ScalarNode) or getattr(node, "flow_style", False) or not node.value:
        return int(node.end_mark.index)
    return _end(_node_entries(node)[-1].value)


def _cut(text: str, node: Node, held: NodeEntry) -> Splice:
    start, end = held.first.start_mark.index, _end(held.value)
    if getattr(node, "flow_style", False):
        return _cut_flow(text, start, end)
    start = start if isinstance(node, MappingNode) else _dash(text, start)
    line = line_start(text, start)
    if text[line:start].strip(" "):
        raise unsafe_edit()
    end = line_end(text, end if text[end - 1] != "\n" else end - 1)
    if line == 0:
        return Splice(0, min(len(text), end + len(newline_of(text))), "")
    return Splice(line - (2 if text[line - 2 : line] == "\r\n" else 1), end, "")


def _cut_flow(text: str, start: int, end: int) -> Splice:
    if after := _COMMA.match(text, end):
        return Splice(start, after.end(), "")
    before = text[:start].rstrip()
    return Splice(len(before) - 1 if before.endswith(",") else start, end, "")
