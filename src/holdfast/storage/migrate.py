"""Numbered migrations. Each one's script and record are one transaction; a backup is taken first."""

import re
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from ..domain.errors import NewerStore, StoreDamaged

TABLE = """create table migration (
  number integer primary key, name text not null, checksum text not null, applied_at integer not null
)"""


class Migration(NamedTuple):
    number: int
    name: str
    script: str

    @property
    def checksum(self) -> str:
        return sha256(self.script.encode()).hexdigest()


def known(*folders: Path) -> list[Migration]:
    """Every migration in order; the parts of one number, shared and engine's own, make one script."""
    parts: dict[str, str] = {}
    for folder in folders:
        for file in sorted((folder / "migrations").glob("*.sql")):
            parts[file.stem] = parts.get(file.stem, "") + file.read_text("utf-8")
    return [Migration(int(stem[:4]), stem[5:], parts[stem]) for stem in sorted(parts)]


def pending(recorded: dict[int, str], migrations: list[Migration]) -> list[Migration]:
    """What is still to be applied. A store that knows more than we do, or something else, is refused."""
    by_number = {migration.number: migration for migration in migrations}
    for number, checksum in recorded.items():
        if number not in by_number:
            raise NewerStore
        if by_number[number].checksum != checksum:
            raise StoreDamaged(f"Migration {number} of this store is not the one that this release knows.")
    return [migration for migration in migrations if migration.number not in recorded]


def strict(script: str) -> str:
    """The tables as SQLite is to check them."""
    return re.sub(r"^(create table .*?^\));", r"\1 strict;", script, flags=re.M | re.S)
