"""The files of a skill before it is registered."""

from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import NamedTuple

from holdfast.features.skills import paths as skill_paths
from holdfast.kernel.errors import Invalid

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


def encode_content(content: bytes) -> dict[str, str]:
    """Encode file content as text, or as base64 if it is not UTF-8."""
    try:
        return {"content": content.decode(), "encoding": "utf-8"}
    except UnicodeDecodeError:
        return {"content": b64encode(content).decode(), "encoding": "base64"}


def decode_content(content: str, encoding: str, field: str = "files") -> bytes:
    """Decode file content."""
    try:
        return content.encode() if encoding == "utf-8" else b64decode(content, validate=True)
    except ValueError:
        raise Invalid(f"{field}: must be base64", fields=[field]) from None
