"""One door to the three editors: what comes out says what it said before, and ours, or nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.kernel.errors import FileMalformed
from holdfast.surfaces.install import jsonc, toml, yaml
from holdfast.surfaces.install.text import Ours, Path, Splice, placed, removed, spliced, unsafe, without_empty


@dataclass(frozen=True)
class Format:
    """How files of a kind are read, added to and taken from."""

    parse: Callable[[str], Any]
    _put: Callable[[str, Path, Any], list[Splice]]
    _drop: Callable[[str, Path, Ours], list[Splice]]

    def put(self, text: str, path: Path, value: Any) -> Splice:
        """What lets a value stand at a path, and changes nothing else that the text says."""
        (splice,) = self._put(text, path, value)
        if self._draft(spliced(text, [splice])) != placed(self.parse(text), path, value):
            raise unsafe()
        return splice

    def check(self, text: str, path: Path, value: Any) -> None:
        """Refuse a text that has no place for a value at a path."""
        self._put(text, path, value)

    def drop(self, text: str, path: Path, ours: Ours = ()) -> str:
        """The text without what stands at a path; everything else says what it said, and only what is ours may go."""
        without = spliced(text, self._drop(text, path, ours))
        wanted = without_empty(removed(self.parse(text), path), path)
        if without_empty(self._draft(without), path) != wanted:
            raise unsafe()
        return without

    def _draft(self, text: str) -> Any:
        """What a text of our own says. If it says nothing, the fault is ours: no place in it is of use to anybody."""
        try:
            return self.parse(text)
        except FileMalformed:
            raise unsafe() from None


JSONC = Format(jsonc.parse, jsonc.put, jsonc.drop)
TOML = Format(toml.parse, toml.put, toml.drop)
YAML = Format(yaml.parse, yaml.put, yaml.drop)
