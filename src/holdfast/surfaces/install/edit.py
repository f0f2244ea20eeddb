"""One interface to the three editors. Every edit is verified: the result must be the old content plus our entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.kernel.errors import FileMalformed
from holdfast.surfaces.install import jsonc, toml, yaml
from holdfast.surfaces.install.text import (
    EntryPath,
    OwnPaths,
    Splice,
    apply_splices,
    unsafe_edit,
    with_value,
    without_empty,
    without_value,
)


@dataclass(frozen=True)
class Format:
    """Parse, insert and remove entries in files of one format."""

    parse: Callable[[str], Any]
    _put: Callable[[str, EntryPath, Any], list[Splice]]
    _drop: Callable[[str, EntryPath, OwnPaths], list[Splice]]

    def put(self, text: str, path: EntryPath, value: Any) -> Splice:
        """Return the splice that sets a value at a path; raise if it would change anything else."""
        (splice,) = self._put(text, path, value)
        if self._parse_result(apply_splices(text, [splice])) != with_value(self.parse(text), path, value):
            raise unsafe_edit()
        return splice

    def check(self, text: str, path: EntryPath, value: Any) -> None:
        """Raise if a value cannot be set at a path."""
        self._put(text, path, value)

    def drop(self, text: str, path: EntryPath, ours: OwnPaths = ()) -> str:
        """Remove the value at a path; raise if anything else would change. Only parents in `ours` go with it."""
        without = apply_splices(text, self._drop(text, path, ours))
        wanted = without_empty(without_value(self.parse(text), path), path)
        if without_empty(self._parse_result(without), path) != wanted:
            raise unsafe_edit()
        return without

    def _parse_result(self, text: str) -> Any:
        """Parse an edited text. If it is invalid, our edit is wrong, so its error position helps nobody."""
        try:
            return self.parse(text)
        except FileMalformed:
            raise unsafe_edit() from None


JSONC = Format(jsonc.parse, jsonc.put, jsonc.drop)
TOML = Format(toml.parse, toml.put, toml.drop)
YAML = Format(yaml.parse, yaml.put, yaml.drop)
