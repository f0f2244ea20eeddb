"""Named SQL statements, loaded from `.sql` files."""

import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from holdfast.kernel.storage.port import Sql, SqlPart

_NAME = re.compile(r"^-- name: ([\w.]+)\n(?:--.*\n)*", re.M)
_INCLUDE = re.compile(r"\{([\w.]+)\}")
_TOKEN = re.compile(
    r"""('(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|::|%)|= any\(:([a-z_]\w*)\)|:([a-z_]\w*)""", re.S
)


SHARED = Path(__file__).parents[2]
"""The package folder: shared statements are in `.sql` files next to the code that runs them."""
_OWN = frozenset({"migrations", "sqlite", "postgres"})
"""Folders without shared statements: engine overrides and migrations."""


def sql_files(folder: Path) -> list[Path]:
    """Return the statement files below a folder."""
    found: list[Path] = []
    for path, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _OWN]
        found += (Path(path, name) for name in files if name.endswith(".sql"))
    return sorted(found)


@cache
def load_statements(*folders: Path) -> dict[str, str]:
    """Load all statements by name. A later folder overrides an earlier one; a duplicate in one folder is an error."""
    found: dict[str, str] = {}
    for folder in folders:
        _, *parts = _NAME.split("\n".join(file.read_text("utf-8") for file in sql_files(folder)))
        own = dict(zip(parts[::2], (part.rstrip() for part in parts[1::2]), strict=True))
        if len(own) * 2 != len(parts):
            raise ValueError(f"{folder.name}: a statement is defined twice")
        if misnamed := [line for sql in own.values() for line in sql.splitlines() if line.startswith("-- name:")]:
            raise ValueError(f"{folder.name}: not a name: {misnamed[0]}")
        found |= own
    return {name: _INCLUDE.sub(lambda match: found[match[1]], sql) for name, sql in found.items()}


def find_statement(named: Mapping[str, str], name: str) -> str:
    """Return the text of a named statement, or the text that is given instead of a name."""
    return name if isinstance(name, Sql) else named[name]


def join_parts(named: Mapping[str, str], parts: Sequence[SqlPart]) -> str:
    """Join fragments to one statement; a number makes a fragment's `_n` parameters unique."""
    return "\n".join(
        find_statement(named, part) if isinstance(part, str) else number_parameters(named[part[0]], part[1])
        for part in parts
    )


def number_parameters(sql: str, number: int) -> str:
    """Number the parameters of a fragment that is used several times: `:p_n` becomes `:p_0`, `:p_1`, ..."""
    return sql.replace("_n ", f"_{number} ").replace("_n)", f"_{number})")


def for_sqlite(sql: str) -> str:
    """Convert a statement for SQLite, where lists are bound as JSON."""
    return _TOKEN.sub(lambda m: f"in (select value from json_each(:{m[2]}))" if m[2] else m[0], sql)


def for_psycopg(sql: str) -> str:
    """Convert a statement for psycopg; quotes, comments, casts and literal % are kept."""
    return _TOKEN.sub(
        lambda m: m[1].replace("%", "%%") if m[1] else f"= any(%({m[2]})s)" if m[2] else f"%({m[3]})s", sql
    )
