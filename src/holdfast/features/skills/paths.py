"""Where a file may lie in a skill's folder: inside it, on every system, and nowhere else."""

import re
import unicodedata
from collections.abc import Iterable

from holdfast.features.skills.model import MOST_BYTES, MOST_FILES, MOST_MANIFEST, is_manifest
from holdfast.kernel.errors import Invalid

MOST_PATH = 512
MOST_STEPS = 16
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f<>:"|?*\\\u200e\u200f\u202a-\u202e\u2066-\u2069]')
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)
"""Names that open a device on Windows, whatever follows the dot."""
_LEFT_OUT = (".git", ".DS_Store", "__MACOSX", "__pycache__")


def is_left_out(path: str) -> bool:
    """Whether a file is what a system or a tool leaves in folders and archives, and no part of a skill."""
    return any(step in _LEFT_OUT or step.startswith("._") for step in path.split("/"))


def must_be_inside(path: str) -> str:
    """Raise unless a path leads to a file below its folder, on every system that it may be written out on."""
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise refused(path, "is not valid Unicode text") from None
    if not 0 < size <= MOST_PATH:
        raise refused(path, f"has 1 to {MOST_PATH} bytes")
    if path.startswith("/"):
        raise refused(path, "is absolute: write it from the skill's folder on")
    if _FORBIDDEN.search(path):
        raise refused(
            path, 'has a character that is not allowed: no backslash, colon, < > " | ? * or control character'
        )
    steps = path.split("/")
    if len(steps) > MOST_STEPS:
        raise refused(path, f"has more than {MOST_STEPS} steps")
    for step in steps:
        _must_be_name(path, step)
    return path


def _must_be_name(path: str, step: str) -> None:
    if step in ("", ".", ".."):
        raise refused(path, "leads nowhere or out of the skill's folder: no empty, . or .. steps")
    if step.endswith((".", " ")) or step.startswith(" "):
        raise refused(path, "has a step that begins with a blank, or ends with a blank or a dot")
    if _DEVICE.fullmatch(step):
        raise refused(path, f"has a step {step!r} that is a device on some systems")


def must_be_together(paths: Iterable[str]) -> None:
    """Raise unless files with these paths can lie in one folder, where capitals and accents may not count."""
    seen: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path in paths:
        folded = _folded(path)
        if folded in seen:
            raise refused(path, f"is the same as {seen[folded]!r} where capital letters do not count")
        seen[folded] = path
        steps = path.split("/")
        for depth in range(1, len(steps)):
            above = "/".join(steps[:depth])
            if folders.setdefault(_folded(above), above) != above:
                raise refused(path, f"lies in {above!r}, which is {folders[_folded(above)]!r} elsewhere")
    for folded, path in seen.items():
        if folded in folders:
            raise refused(path, "is a file and a folder")


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def must_fit(path: str, size: int, files: int, together: int) -> None:
    """Raise unless one more file, of so many bytes, fits beside those that there are; asked before it is read whole."""
    if files > MOST_FILES:
        raise Invalid(f"A skill has at most {MOST_FILES} files.", fields=["files"])
    if is_manifest(path) and size > MOST_MANIFEST:
        raise refused(path, f"has at most {MOST_MANIFEST} bytes")
    if together > MOST_BYTES:
        raise Invalid(f"A skill has at most {MOST_BYTES} bytes, all files together.", fields=["files"])


def refused(path: str, what: str) -> Invalid:
    shown = path[:120].encode("utf-8", "replace").decode()
    return Invalid(f"files: {shown!r} {what}", fields=["files"], path=shown)
