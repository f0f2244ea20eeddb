"""Files of a skill before it is registered, and the rules of their paths: inside its folder, portable to any system."""

import re
import unicodedata
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import NamedTuple

from holdfast.features.skills.model import MAX_BYTES, MAX_FILES, MAX_MANIFEST_BYTES, is_manifest
from holdfast.kernel.errors import Invalid

MAX_PATH_BYTES = 512
MAX_SEGMENTS = 16
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f<>:"|?*\\\u200e\u200f\u202a-\u202e\u2066-\u2069]')
_DEVICE_NAME = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)
"""Device names on Windows, with any extension."""
_IGNORED = (".git", ".DS_Store", "__MACOSX", "__pycache__")


def is_ignored(path: str) -> bool:
    """Return whether the path is a leftover of a system or tool (.git, .DS_Store ...) and not part of a skill."""
    return any(step in _IGNORED or step.startswith("._") for step in path.split("/"))


def validate_path(path: str) -> str:
    """Return the path; raise unless it stays inside the skill's folder on every operating system."""
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise path_error(path, "is not valid Unicode text") from None
    if not 0 < size <= MAX_PATH_BYTES:
        raise path_error(path, f"must have 1 to {MAX_PATH_BYTES} bytes")
    if path.startswith("/"):
        raise path_error(path, "is absolute: make it relative to the skill's folder")
    if _FORBIDDEN.search(path):
        raise path_error(path, 'has a forbidden character: no backslash, colon, < > " | ? * or control character')
    steps = path.split("/")
    if len(steps) > MAX_SEGMENTS:
        raise path_error(path, f"has more than {MAX_SEGMENTS} segments")
    for step in steps:
        _validate_segment(path, step)
    return path


def _validate_segment(path: str, step: str) -> None:
    if step in ("", ".", ".."):
        raise path_error(path, "has an empty, . or .. segment: it must stay inside the skill's folder")
    if step.endswith((".", " ")) or step.startswith(" "):
        raise path_error(path, "has a segment that begins with a space, or ends with a space or a dot")
    if _DEVICE_NAME.fullmatch(step):
        raise path_error(path, f"has a segment {step!r} that is a device name on Windows")


def reject_collisions(paths: Iterable[str]) -> None:
    """Raise if two paths collide on a file system that ignores case or Unicode normalization."""
    seen: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path in paths:
        folded = _fold_case(path)
        if folded in seen:
            raise path_error(path, f"equals {seen[folded]!r} on case-insensitive file systems")
        seen[folded] = path
        steps = path.split("/")
        for depth in range(1, len(steps)):
            above = "/".join(steps[:depth])
            if folders.setdefault(_fold_case(above), above) != above:
                raise path_error(
                    path,
                    f"is in {above!r}, which equals {folders[_fold_case(above)]!r} on case-insensitive file systems",
                )
    for folded, path in seen.items():
        if folded in folders:
            raise path_error(path, "is both a file and a folder")


def _fold_case(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def check_limits(path: str, size: int, files: int, together: int) -> None:
    """Raise if a file exceeds the limits, given the count and total size including it. Call before reading it."""
    if files > MAX_FILES:
        raise Invalid(f"files: at most {MAX_FILES} files per skill", fields=["files"])
    if is_manifest(path) and size > MAX_MANIFEST_BYTES:
        raise path_error(path, f"must have at most {MAX_MANIFEST_BYTES} bytes")
    if together > MAX_BYTES:
        raise Invalid(f"files: at most {MAX_BYTES} bytes per skill, all files together", fields=["files"])


def path_error(path: str, what: str) -> Invalid:
    escaped_path = path[:120].encode("utf-8", "replace").decode()
    return Invalid(f"files: {escaped_path!r} {what}", fields=["files"], path=escaped_path)


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
        paths.append(validate_path(path))
        total += len(content)
        check_limits(path, len(content), len(paths), total)
        found[path] = content
    reject_collisions(paths)
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
