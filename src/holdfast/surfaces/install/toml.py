"""Edit TOML in place: add tables at the end, remove them by lines; all other bytes are kept."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.kernel.errors import FileRefused
from holdfast.surfaces.install.text import (
    EntryPath,
    OwnPaths,
    Splice,
    line_end,
    line_start,
    malformed_file,
    newline_of,
    unsafe_edit,
    value_at,
    wrong_kind_error,
)

_BLANK = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_PLACE = re.compile(r"(?<!\s)\s*+\(at (?:line (\d+), column (\d+)|end of document)\)")
_KEY = re.compile(r"""[ \t]*(?:([A-Za-z0-9_-]+)|("(?:[^"\\]|\\.)*")|'([^']*)')[ \t]*(\.)?""")
_PIECE = re.compile(
    r'''"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]++|\\.)*+"?|'[^'\n]*'|#[^\n]*|[\[{]|[\]}]|\n|[^"'#\[\]{}\n]+''',
    re.S,
)


@dataclass(frozen=True)
class Line:
    """A statement: a table header, or a key with its value."""

    start: int
    end: int
    value: int
    """Start of the value; the end for a table header."""
    path: tuple[str, ...]
    head: bool


def parse(text: str) -> Any:
    """Parse a text."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise malformed_file(text, _error_position(text, str(error)), _PLACE.sub("", str(error))) from None
    except RecursionError:
        raise malformed_file(text, 0, "nested too deeply") from None


def _error_position(text: str, message: str) -> int:
    place = _PLACE.search(message)
    if place is None or place[1] is None:
        return len(text)
    lines = text.splitlines(keepends=True)
    return sum(map(len, lines[: int(place[1]) - 1])) + int(place[2]) - 1


def _statements(text: str) -> Iterator[Line]:
    """Yield the statements of a valid text, each with its path."""
    table: tuple[str, ...] = ()
    at = _skip(text, 0)
    while at < len(text):
        head = text[at] == "["
        opened = at + (2 if text.startswith("[[", at) else 1 if head else 0)
        keys, place = _keys(text, opened)
        value = _skip_blanks(text, place + 1)
        end = line_end(text, place) if head else _value_end(text, value)
        table = keys if head else table
        yield Line(at, end, end if head else value, table if head else table + keys, head)
        at = _skip(text, end)


def _skip(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    assert blank is not None
    return blank.end()


def _skip_blanks(text: str, at: int) -> int:
    while text[at : at + 1] in (" ", "\t"):
        at += 1
    return at


def _keys(text: str, at: int) -> tuple[tuple[str, ...], int]:
    keys: list[str] = []
    while match := _KEY.match(text, at):
        keys.append(match[1] or match[3] or (json.loads(match[2]) if match[2] else ""))
        at = match.end()
        if not match[4]:
            break
    return tuple(keys), at


def _value_end(text: str, at: int) -> int:
    depth, end = 0, at
    for piece in _PIECE.finditer(text, at):
        depth += (piece[0] in "[{") - (piece[0] in "]}") if len(piece[0]) == 1 else 0
        if depth == 0 and piece[0][0] in "\n#":
            break
        if piece[0].strip() and piece[0][0] != "#":
            end = piece.start() + len(piece[0].rstrip())
    return end


def put(text: str, path: EntryPath, value: Any) -> list[Splice]:
    """Set a value at a path: add a table at the end, a single value to its table."""
    keys = _key_path(path)
    lines = list(_statements(text))
    if same := [line for line in lines if line.path == keys and not line.head]:
        return [Splice(same[0].value, same[0].end, _render(value))]
    _check_can_hold(text, lines, keys)
    if isinstance(value, dict):
        return [_table(text, keys, value)]
    head = next((line for line in lines if line.head and line.path == keys[:-1]), None)
    if head is None:
        raise unsafe_edit()
    return [Splice(head.end, head.end, f"{newline_of(text)}{_key(keys[-1])} = {_render(value)}")]


def _check_can_hold(text: str, lines: list[Line], keys: tuple[str, ...]) -> None:
    """Raise if a parent is not a table, or is an inline table."""
    model = parse(text)
    for number in range(1, len(keys)):
        held, way = value_at(model, keys[:number]), keys[:number]
        if held is not None and not isinstance(held, dict):
            raise wrong_kind_error(text, next(line.start for line in lines if line.path == way), way, "")
        if held is not None and any(line.path == way and not line.head for line in lines):
            raise _inline_table_error(way, held)


def _inline_table_error(way: tuple[str, ...], held: dict[str, Any]) -> FileRefused:
    tables = [(*way, key) for key, inner in held.items() if isinstance(inner, dict)] or [way]
    heads = " ".join(f"[{'.'.join(map(_key, table))}]" for table in tables)
    name = ".".join(map(_key, way))
    return FileRefused(f"{name} is an inline table, which cannot be extended: write it as {heads} and retry", key=name)


def _key_path(path: EntryPath) -> tuple[str, ...]:
    keys = tuple(step for step in path if isinstance(step, str))
    assert len(keys) == len(path)
    return keys


def _table(text: str, keys: tuple[str, ...], value: dict[str, Any]) -> Splice:
    newline = newline_of(text)
    lines = [f"[{'.'.join(map(_key, keys))}]", *(f"{_key(key)} = {_render(held)}" for key, held in value.items())]
    before = newline if text and not text.endswith("\n") else ""
    before += newline if text.strip() else ""
    return Splice(len(text), len(text), before + newline.join(lines) + newline)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _render(key)


def _render(value: Any) -> str:
    """Render strings, booleans, numbers and lists of them; their JSON form is valid TOML."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def drop(text: str, path: EntryPath, ours: OwnPaths = ()) -> list[Splice]:
    """Remove the lines of a path, and a blank line before each removed table.

    The header of a parent table stays; an implicit parent has none.
    """
    keys = _key_path(path)
    lines = [line for line in _statements(text) if line.path[: len(keys)] == keys]
    if not lines:
        raise unsafe_edit()
    return [_line_splice(text, line) for line in lines]


def _line_splice(text: str, line: Line) -> Splice:
    start, end = line_start(text, line.start), line_end(text, line.end)
    end = end + len(newline_of(text)) if end < len(text) else end
    blank = re.search(r"\r?\n([ \t]*\r?\n)\Z", text[:start]) if line.head else None
    return Splice(start - len(blank[1]) if blank else start, end, "")
