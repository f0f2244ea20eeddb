"""Path rules for files of a skill: inside its folder and portable to every operating system."""

import re
import unicodedata
from collections.abc import Iterable

from holdfast.features.skills.model import MOST_BYTES, MOST_FILES, MOST_MANIFEST, is_manifest
from holdfast.kernel.errors import Invalid

MOST_PATH = 512
MOST_STEPS = 16
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f<>:"|?*\\\u200e\u200f\u202a-\u202e\u2066-\u2069]')
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)
"""Device names on Windows, with any extension."""
_LEFT_OUT = (".git", ".DS_Store", "__MACOSX", "__pycache__")


def is_left_out(path: str) -> bool:
    """Return whether the path is a leftover of a system or tool (.git, .DS_Store ...) and not part of a skill."""
    return any(step in _LEFT_OUT or step.startswith("._") for step in path.split("/"))


def must_be_inside(path: str) -> str:
    """Return the path; raise unless it stays inside the skill's folder on every operating system."""
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise refused(path, "is not valid Unicode text") from None
    if not 0 < size <= MOST_PATH:
        raise refused(path, f"must have 1 to {MOST_PATH} bytes")
    if path.startswith("/"):
        raise refused(path, "is absolute: make it relative to the skill's folder")
    if _FORBIDDEN.search(path):
        raise refused(path, 'has a forbidden character: no backslash, colon, < > " | ? * or control character')
    steps = path.split("/")
    if len(steps) > MOST_STEPS:
        raise refused(path, f"has more than {MOST_STEPS} segments")
    for step in steps:
        _must_be_name(path, step)
    return path


def _must_be_name(path: str, step: str) -> None:
    if step in ("", ".", ".."):
        raise refused(path, "has an empty, . or .. segment: it must stay inside the skill's folder")
    if step.endswith((".", " ")) or step.startswith(" "):
        raise refused(path, "has a segment that begins with a space, or ends with a space or a dot")
    if _DEVICE.fullmatch(step):
        raise refused(path, f"has a segment {step!r} that is a device name on Windows")


def must_be_together(paths: Iterable[str]) -> None:
    """Raise if two paths collide on a file system that ignores case or Unicode normalization."""
    seen: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path in paths:
        folded = _folded(path)
        if folded in seen:
            raise refused(path, f"equals {seen[folded]!r} on case-insensitive file systems")
        seen[folded] = path
        steps = path.split("/")
        for depth in range(1, len(steps)):
            above = "/".join(steps[:depth])
            if folders.setdefault(_folded(above), above) != above:
                raise refused(
                    path, f"is in {above!r}, which equals {folders[_folded(above)]!r} on case-insensitive file systems"
                )
    for folded, path in seen.items():
        if folded in folders:
            raise refused(path, "is both a file and a folder")


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def must_fit(path: str, size: int, files: int, together: int) -> None:
    """Raise if a file exceeds the limits, given the count and total size including it. Call before reading it."""
    if files > MOST_FILES:
        raise Invalid(f"files: at most {MOST_FILES} files per skill", fields=["files"])
    if is_manifest(path) and size > MOST_MANIFEST:
        raise refused(path, f"must have at most {MOST_MANIFEST} bytes")
    if together > MOST_BYTES:
        raise Invalid(f"files: at most {MOST_BYTES} bytes per skill, all files together", fields=["files"])


def refused(path: str, what: str) -> Invalid:
    shown = path[:120].encode("utf-8", "replace").decode()
    return Invalid(f"files: {shown!r} {what}", fields=["files"], path=shown)
