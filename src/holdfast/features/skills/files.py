"""The files of a skill before it is registered."""

from collections.abc import Iterable
from typing import NamedTuple

from holdfast.features.skills import paths as skill_paths

Files = dict[str, bytes]


class Draft(NamedTuple):
    """The files of a skill before validation."""

    files: Files
    folder: str | None = None
    """Name of the folder it was in."""


def validate_files(files: Iterable[tuple[str, bytes]]) -> Files:
    """Return files by path; raise an error with the offending path if one is unsafe or too large, or if two collide."""
    found: Files = {}
    total = 0
    paths = []
    for path, content in files:
        paths.append(skill_paths.validate_path(path))
        total += len(content)
        skill_paths.check_limits(path, len(content), len(paths), total)
        found[path] = content
    skill_paths.reject_collisions(paths)
    return found
