"""Answers as TOON (Token-Oriented Object Notation), which costs an agent fewer tokens than JSON.

The notation is that of https://github.com/toon-format/spec, written by its own library.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec


def encode(value: Any) -> str:
    """The TOON text of any JSON value; it holds the same as the JSON and can be read back."""
    import toon_format

    return toon_format.encode(value)


def table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> list[dict[str, Any]]:
    """Rows that all have the same plain columns, so that they are written as one table with its names said once.

    A list becomes its items with commas between, an object its JSON, and what a row does not have is null.
    """
    return [{column: _cell(row.get(column)) for column in columns} for row in rows]


def _cell(value: Any) -> Any:
    if isinstance(value, list | tuple) and not any(isinstance(item, dict | list | tuple) for item in value):
        return ",".join(item if isinstance(item, str) else msgspec.json.encode(item).decode() for item in value)
    return msgspec.json.encode(value).decode() if isinstance(value, dict | list | tuple) else value
