"""Files of an export: a file, a folder or a zip. Never leaves it, follows links or unpacks to disk."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from holdfast.features.importers.model import Problem
from holdfast.kernel.errors import Invalid, NotFound

if TYPE_CHECKING:
    import zipfile

MOST_FILES = 1_000_000
MOST_LEVELS = 64
MOST_UNPACKED = 64 << 30
"""Total uncompressed bytes of a zip."""
LARGE = 64 << 20
MOST_RATIO = 200
"""Maximum compression ratio of a large file, against zip bombs; text has about 10."""
LEFT_OUT = (".git", ".obsidian", ".trash", "node_modules", "__MACOSX", ".DS_Store")
INLINE = "content"
"""Name of a text that is not a file."""
HEAD = 1 << 16
_OPENED = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class Piece(NamedTuple):
    """A file of an export."""

    name: str
    """Path within the export, or only the name."""
    size: int
    open: Callable[[], IO[bytes]]
    path: Path | None = None
    """Path on disk; None for a zip entry or a text."""

    def head(self) -> bytes:
        with self.open() as source:
            return source.read(HEAD)


class Place(NamedTuple):
    """All files of an export, sorted by name."""

    pieces: list[Piece]
    problems: list[Problem]
    whole: bool
    """It is a single file."""

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)


@contextmanager
def at(path: Path) -> Iterator[Place]:
    """Open the export at a path; a zip stays open within the context."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}.", fields=["path"]) from None
    if stat.S_ISDIR(mode):
        yield _folder(path)
    elif not stat.S_ISREG(mode):
        raise Invalid(f"path: {path} is neither a file nor a folder", fields=["path"])
    elif _is_zip(path):
        with _zipped(path) as place:
            yield place
    else:
        yield Place([Piece(path.name, path.stat().st_size, lambda: path.open("rb"), path)], [], whole=True)


def inline(text: str) -> Place:
    """Source with the text of a request."""
    data = text.encode()
    return Place([Piece(INLINE, len(data), lambda: io.BytesIO(data))], [], whole=True)


def _is_zip(path: Path) -> bool:
    try:
        with path.open("rb") as source:
            return source.read(4) in (b"PK\x03\x04", b"PK\x05\x06")
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}.", fields=["path"]) from None


def _folder(root: Path) -> Place:
    place = Place([], [], whole=False)
    _walk(root, "", place)
    return place


def _walk(folder: Path, above: str, place: Place) -> None:
    for entry in _listed(folder, above, place):
        name = f"{above}{entry.name}"
        if entry.name in LEFT_OUT:
            continue
        if entry.is_symlink():
            place.problems.append(Problem(where=name, what="link, not followed", rejected=False))
        elif entry.is_dir(follow_symlinks=False):
            _walk(Path(entry.path), f"{name}/", place)
        elif entry.is_file(follow_symlinks=False):
            _must_be_few(len(place.pieces))
            path = Path(entry.path)
            place.pieces.append(Piece(name, entry.stat(follow_symlinks=False).st_size, _opener(path), path))


def _listed(folder: Path, name: str, place: Place) -> list[os.DirEntry[str]]:
    """List a folder by name. Reports a folder that is unreadable or too deep."""
    if name.count("/") > MOST_LEVELS:
        place.problems.append(Problem(where=name, what=f"more than {MOST_LEVELS} folders deep"))
        return []
    try:
        return sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        place.problems.append(Problem(where=name or folder.name, what=f"unreadable: {error.strerror}"))
        return []


def _must_be_few(number: int) -> None:
    if number >= MOST_FILES:
        raise Invalid(f"path: contains more than {MOST_FILES} files", fields=["path"])


def _opener(path: Path) -> Callable[[], IO[bytes]]:
    """Opener that does not follow a link, even if the file was replaced by one."""
    return lambda: os.fdopen(os.open(path, _OPENED), "rb")


@contextmanager
def _zipped(path: Path) -> Iterator[Place]:
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            yield _entries(archive)
    except zipfile.BadZipFile as error:
        raise Invalid(f"path: {path.name} is not a valid zip: {error}", fields=["path"]) from None


def _entries(archive: zipfile.ZipFile) -> Place:
    place, total = Place([], [], whole=False), 0
    for entry in sorted(archive.infolist(), key=lambda entry: entry.filename):
        if entry.is_dir() or any(step in LEFT_OUT for step in entry.filename.split("/")):
            continue
        _must_be_few(len(place.pieces))
        if wrong := _wrong(entry):
            place.problems.append(Problem(where=entry.filename, what=wrong))
            continue
        total += entry.file_size
        if total > MOST_UNPACKED:
            raise Invalid(f"path: contains more than {MOST_UNPACKED} uncompressed bytes", fields=["path"])
        place.pieces.append(Piece(entry.filename, entry.file_size, _zip_opener(archive, entry)))
    return place


def _wrong(entry: zipfile.ZipInfo) -> str | None:
    steps = entry.orig_filename.replace("\\", "/").split("/")
    mode = stat.S_IFMT(entry.external_attr >> 16)
    if ".." in steps or steps[0] == "" or ":" in steps[0]:
        return "its path leaves the zip"
    if mode not in (0, stat.S_IFREG):
        return "link or device"
    if entry.flag_bits & 1:
        return "encrypted"
    if entry.filename.lower().endswith(".zip"):
        return "zip within a zip, not opened"
    if entry.file_size > LARGE and entry.file_size > MOST_RATIO * max(entry.compress_size, 1):
        return f"expands from {entry.compress_size} to {entry.file_size} bytes: not an export"
    return None


def _zip_opener(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Callable[[], IO[bytes]]:
    return lambda: archive.open(entry)


class Watched(io.RawIOBase):
    """Stream that reports the number of bytes read."""

    def __init__(self, source: IO[bytes], told: Callable[[int], None]) -> None:
        self._source = source
        self._told = told

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._source.read(len(buffer))
        buffer[: len(data)] = data
        self._told(len(data))
        return len(data)

    def close(self) -> None:
        self._source.close()
        super().close()


def watched(piece: Piece, told: Callable[[int], None]) -> IO[bytes]:
    """Open a file and report the bytes read."""
    return io.BufferedReader(Watched(piece.open(), told), 1 << 18)
