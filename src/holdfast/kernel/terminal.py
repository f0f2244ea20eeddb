"""Terminal output: escaping, tables and generic rendering of answers."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import click
import msgspec

style = click.style
"""Colour and weight of text, which click removes where the output is no terminal."""
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
