"""One door to the three editors: what comes out says what it said before, and ours, or nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import jsonc, toml, yaml
from .text import Path, Splice, placed, removed, spliced, unsafe, without_empty


@dataclass(frozen=True)
class Format:
    """How files of a kind are read, added to and taken from."""

    parse: Callable[[str], Any]
    _put: Callable[[str, Path, Any], list[Splice]]
    _drop: Callable[[str, Path], list[Splice]]

    def put(self, text: str, path: Path, value: Any) -> Splice:
        """What lets a value stand at a path, and changes nothing else that the text says."""
        (splice,) = self._put(text, path, value)
        if self.parse(spliced(text, [splice])) != placed(self.parse(text), path, value):
            raise unsafe()
        return splice

    def drop(self, text: str, path: Path) -> str:
        """The text without what stands at a path; everything else says what it said."""
        without = spliced(text, self._drop(text, path))
        wanted = without_empty(removed(self.parse(text), path), path)
        if without_empty(self.parse(without), path) != wanted:
            raise unsafe()
        return without


JSONC = Format(jsonc.parse, jsonc.put, jsonc.drop)
TOML = Format(toml.parse, toml.put, toml.drop)
YAML = Format(yaml.parse, yaml.put, yaml.drop)
