"""Where an export lies: a file, a folder or a zip, walked without ever leaving it, following a link or unpacking."""

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
"""Bytes that all files of a zip may have together."""
LARGE = 64 << 20
MOST_RATIO = 200
"""How much smaller a large file may be in a zip than outside; text is some ten times smaller."""
LEFT_OUT = (".git", ".obsidian", ".trash", "node_modules", "__MACOSX", ".DS_Store")
INLINE = "content"
"""The name of what is no file."""
HEAD = 1 << 16
_OPENED = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class Piece(NamedTuple):
    """A file of an export."""

    name: str
    """Its path within the export, or its name alone."""
    size: int
    open: Callable[[], IO[bytes]]
    path: Path | None = None
    """Where it lies, if it is a file by itself."""

    def head(self) -> bytes:
        with self.open() as source:
            return source.read(HEAD)


class Place(NamedTuple):
    """Everything that an export consists of, in the order of its names."""

    pieces: list[Piece]
    problems: list[Problem]
    whole: bool
    """It is one file by itself, not one of several."""

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)


@contextmanager
def at(path: Path) -> Iterator[Place]:
    """What lies at a path, as long as it is looked at."""
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
    """A text that came with a request."""
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
            place.problems.append(Problem(where=name, what="is a link, which is not followed", rejected=False))
        elif entry.is_dir(follow_symlinks=False):
            _walk(Path(entry.path), f"{name}/", place)
        elif entry.is_file(follow_symlinks=False):
            _must_be_few(len(place.pieces))
            path = Path(entry.path)
            place.pieces.append(Piece(name, entry.stat(follow_symlinks=False).st_size, _opener(path), path))


def _listed(folder: Path, name: str, place: Place) -> list[os.DirEntry[str]]:
    """What lies in a folder, by name; of one that cannot be read, or lies too deep, it is told."""
    if name.count("/") > MOST_LEVELS:
        place.problems.append(Problem(where=name, what=f"lies more than {MOST_LEVELS} folders deep"))
        return []
    try:
        return sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        place.problems.append(Problem(where=name or folder.name, what=f"cannot be read: {error.strerror}"))
        return []


def _must_be_few(number: int) -> None:
    if number >= MOST_FILES:
        raise Invalid(f"path: more than {MOST_FILES} files", fields=["path"])


def _opener(path: Path) -> Callable[[], IO[bytes]]:
    """Opened without following a link, should it have become one since it was seen."""
    return lambda: os.fdopen(os.open(path, _OPENED), "rb")


@contextmanager
def _zipped(path: Path) -> Iterator[Place]:
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            yield _entries(archive)
    except zipfile.BadZipFile as error:
        raise Invalid(f"path: {path.name} cannot be read as a zip: {error}", fields=["path"]) from None


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
            raise Invalid(f"path: more than {MOST_UNPACKED} bytes when it is unpacked", fields=["path"])
        place.pieces.append(Piece(entry.filename, entry.file_size, _zip_opener(archive, entry)))
    return place


def _wrong(entry: zipfile.ZipInfo) -> str | None:
    steps = entry.orig_filename.replace("\\", "/").split("/")
    mode = stat.S_IFMT(entry.external_attr >> 16)
    if ".." in steps or steps[0] == "" or ":" in steps[0]:
        return "its path leads out of the zip"
    if mode not in (0, stat.S_IFREG):
        return "is a link or a device"
    if entry.flag_bits & 1:
        return "is encrypted"
    if entry.filename.lower().endswith(".zip"):
        return "is a zip within the zip, which is not opened"
    if entry.file_size > LARGE and entry.file_size > MOST_RATIO * max(entry.compress_size, 1):
        return f"would be {entry.file_size} bytes out of {entry.compress_size}: that is no export"
    return None


def _zip_opener(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Callable[[], IO[bytes]]:
    return lambda: archive.open(entry)


class Watched(io.RawIOBase):
    """A stream that tells how many bytes were read from it."""

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
    """A piece, opened, of which it is told how much was read."""
    return io.BufferedReader(Watched(piece.open(), told), 1 << 18)
