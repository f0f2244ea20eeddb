"""Rows of a kernex store; every value is validated when read."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NamedTuple
from urllib.parse import quote

from holdfast.features.importers.model import digest
from holdfast.features.people.model import validate_name
from holdfast.kernel.errors import Invalid
from holdfast.kernel.model_allowance import COST_UNITS
from holdfast.kernel.records.validate import label
from holdfast.kernel.storage.read_only_sqlite import SqliteReader
from holdfast.kernel.timestamps import SECOND, parse_timestamp

REQUIRED_TABLES = {
    "conversations": {"id", "channel", "sender_id"},
    "messages": {"id", "conversation_id", "role", "content"},
}
"""Tables and columns present in every release of kernex."""
INTERNAL_TABLES = ("_migrations",)
"""Tables with internal state of the file."""
EMPTY_VALUES = (None, "")
MAX_LABEL = 256
MAX_SECONDS = 253_402_300_800
"""Seconds until the year 10000."""
MAX_COST = 1_000_000


class Row(NamedTuple):
    """A row of a table: its number and its values by column."""

    table: str
    number: int
    values: dict[str, Any]

    @property
    def where(self) -> str:
        return f"{self.table} row {self.number}"

    def text(self, name: str, default: str | None = None) -> str:
        """Return a required text, or the default."""
        value = self.values.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise Invalid(f"{name}: must be text")
        if "\x00" in value:
            raise Invalid(f"{name}: must not contain NUL")
        return value

    def label(self, name: str, default: str | None = None) -> str:
        """Return a short text used as a key."""
        value = self.text(name, default)
        return value if value == default else label(name, value, MAX_LABEL)

    @property
    def sender(self) -> str:
        return validate_name(self.text("sender_id"), "sender_id")

    def optional_text(self, name: str) -> str | None:
        return None if self.values.get(name) is None else self.text(name)

    def integer(self, name: str, default: int | None = None) -> int:
        value = self.values.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 1 << 53:
            raise Invalid(f"{name}: must be an integer")
        return value

    def one_of(self, name: str, allowed: Iterable[str], default: str | None = None) -> str:
        value = self.text(name, default)
        if value not in allowed:
            raise Invalid(f"{name}: {value[:40]!r} is not one of {', '.join(allowed)}")
        return value

    def timestamp(self, name: str) -> int:
        """Return a time, written by kernex as UTC text or as seconds since 1970."""
        if not isinstance(self.values.get(name), int):
            return parse_timestamp(self.text(name), name)
        seconds = self.integer(name)
        if not 0 <= seconds < MAX_SECONDS:
            raise Invalid(f"{name}: must be a time before the year 10000")
        return seconds * SECOND

    def cost(self, name: str) -> int:
        """Return an amount of money in its smallest unit."""
        value = self.values.get(name) or 0
        if not isinstance(value, int | float) or not 0 <= value < MAX_COST:
            raise Invalid(f"{name}: must be an amount of 0 to {MAX_COST:,}")
        return int(Decimal(str(value)) * COST_UNITS)

    def optional_timestamp(self, name: str) -> int | None:
        return None if self.values.get(name) in EMPTY_VALUES else self.timestamp(name)

    def other_values(self, *used: str) -> dict[str, Any]:
        """Return the remaining columns, for the metadata of the imported record."""
        return {name: value for name, value in self.values.items() if name not in used and value not in EMPTY_VALUES}

    @property
    def digest(self) -> str:
        return digest(*(f"{name}={value!r}" for name, value in sorted(self.values.items())))


def project_namespace(namespace: str, project: str) -> str:
    """Return the namespace of a project; without a project, the base namespace."""
    return f"{namespace}/{quote(project, safe=':@+~!$&,;=()')}" if project else namespace


def check_is_kernex(file: SqliteReader, name: str) -> None:
    for table, columns in REQUIRED_TABLES.items():
        if not columns <= set(file.tables.get(table, ())):
            raise Invalid(
                f"path: {name} is not a kernex store: table {table} is missing or incomplete", fields=["path"]
            )


def is_internal_table(table: str, tables: Iterable[str]) -> bool:
    """Return whether a table belongs to SQLite, a full-text index, or kernex's migrations."""
    indexed = [one for one in tables if one.endswith("_fts")]
    return table.startswith("sqlite_") or table in INTERNAL_TABLES or any(table.startswith(one) for one in indexed)
