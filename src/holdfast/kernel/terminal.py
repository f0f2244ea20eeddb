"""Terminal output: escaping, tables and generic rendering of answers."""

import re
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import click
import msgspec
from msgspec import UNSET, UnsetType

style = click.style
"""Colour and weight of text, which click removes where the output is no terminal."""
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,15}Z")
ID_CHARS, SHORT_ID_CHARS = 36, 8
MAX_CELL_CHARS = 60
_CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def print_error(text: str) -> None:
    """Print a line to standard error."""
    click.echo(text, err=True)


def escape(text: str) -> str:
    """Escape control and bidirectional characters, so that stored text cannot control the terminal."""
    return _CONTROL_CHARACTERS.sub(
        lambda found: f"\\x{ord(found[0]):02x}" if ord(found[0]) < 256 else f"\\u{ord(found[0]):04x}", text
    )


def shorten(text: str, width: int = 100) -> str:
    """Escape text, join its lines and cut it to `width` characters."""
    flat = " ".join(escape(text).split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def pluralize(count: int, singular: str, plural: str = "") -> str:
    """Format a count with its noun: `1 link`, `2 links`."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def render_table(rows: Iterable[tuple[str, ...]], head: tuple[str, ...]) -> Iterator[str]:
    """Align rows under a bold heading; a column is as wide as its widest cell."""
    cells = [head, *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    for number, row in enumerate(cells):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        yield style(line, bold=True) if number == 0 else line


def render_columns(answer: Any, columns: Sequence[str], empty: str = "") -> Iterator[str]:
    """Print an answer by declared columns, such as `id` or `task.title`.

    If the answer or a field of it has them, they are the heading of that record, and all else follows field by field.
    Otherwise they are the columns of a table of the records that the answer lists.
    """
    if _has_column(answer, columns[0]):
        yield from _render_record(answer, columns)
        return
    fields = {name: value for name in answer.__struct_fields__ if (value := getattr(answer, name)) is not UNSET}
    if name := next((name for name, value in fields.items() if _has_column(value, columns[0])), None):
        yield from _render_record(fields.pop(name), columns)
        yield from _render_value(msgspec.to_builtins(fields), 0)
        return
    name, records = next((name, value) for name, value in fields.items() if isinstance(value, list))
    if not records:
        yield empty or f"No {name.replace('_', ' ')}."
        return
    yield from _render_list(records, columns)
    if fields.get("total", 0) > len(records):
        yield f"{len(records)} of {fields['total']}"


def _has_column(value: Any, column: str) -> bool:
    return column.partition(".")[0] in getattr(value, "__struct_fields__", ())


def _render_list(records: Sequence[Any], columns: Sequence[str]) -> Iterator[str]:
    """Print a table without the columns in which no record has a value."""
    rows = [
        tuple(_format_cell(column, attrgetter(column.rstrip("!"))(record)) for column in columns) for record in records
    ]
    used = [place for place in range(len(columns)) if any(row[place] for row in rows)]
    head = tuple(columns[place].rpartition(".")[2].rstrip("!").replace("_", " ").upper() for place in used)
    yield from render_table((tuple(row[place] for place in used) for row in rows), head)


def _render_record(record: Any, columns: Sequence[str]) -> Iterator[str]:
    """Print the columns as a heading, then every other field that has a value."""
    values = msgspec.to_builtins(record)
    yield style(
        "  ".join(escape(format_scalar(values[column])) for column in columns if values.get(column, "") != ""),
        bold=True,
    )
    yield from _render_value({name: value for name, value in values.items() if name not in columns}, 1)


def _format_cell(column: str, value: Any) -> str:
    """Format a cell: `id` short and `id!` whole, times to the minute, fractions to the hundredth."""
    match value:
        case None | UnsetType():
            return ""
        case float():
            return f"{value:.2f}"
        case str() if column.rpartition(".")[2] == "id" and len(value) == ID_CHARS:
            return value[:SHORT_ID_CHARS]
        case str() if _TIME.fullmatch(value):
            return f"{value[:16].replace('T', ' ')}Z"
        case float():
            return f"{value:.2f}"
        case list() | tuple():
            return shorten(", ".join(map(format_scalar, value)), MAX_CELL_CHARS)
        case _:
            return shorten(format_scalar(value), MAX_CELL_CHARS)


def render_json(answer: Any) -> Iterator[str]:
    """Print an answer as JSON, with characters that could control the terminal escaped in it."""
    text = msgspec.json.encode(answer).decode()
    yield _CONTROL_CHARACTERS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def render_fields(answer: Any) -> Iterator[str]:
    """Print the fields of any answer, indented: for operations without a renderer of their own."""
    yield from _render_value(msgspec.to_builtins(answer), 0)


def _render_value(value: Any, depth: int) -> Iterator[str]:
    pad = "  " * depth
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, dict | list | tuple) and item:
                yield f"{pad}{escape(str(key))}:"
                yield from _render_value(item, depth + 1)
            else:
                yield f"{pad}{escape(str(key))}: {escape(format_scalar(item))}"
    elif isinstance(value, list | tuple):
        for item in value:
            if isinstance(item, dict):
                lines = list(_render_value(item, depth + 1))
                yield pad + "- " + lines[0].lstrip() if lines else pad + "-"
                yield from lines[1:]
            else:
                yield f"{pad}- {escape(format_scalar(item))}"
    else:
        yield pad + escape(format_scalar(value))


def format_scalar(value: Any) -> str:
    """Format one value of an answer: `-` for None, `yes` or `no` for a boolean, `none` for an empty collection."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case [] | {}:
            return "none"
        case _:
            return str(value)
