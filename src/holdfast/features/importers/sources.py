"""Files of an export: a file, a folder or a zip. Never leaves it, follows links or unpacks to disk."""

from __future__ import annotations

import io
import os
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from holdfast.features.importers.model import Problem
from holdfast.kernel.errors import Invalid, NotFound

MAX_FILES = 1_000_000
MAX_DEPTH = 64
MAX_UNPACKED_BYTES = 64 << 30
"""Total uncompressed bytes of a zip."""
LARGE_FILE_BYTES = 64 << 20
MAX_COMPRESSION_RATIO = 200
"""Maximum compression ratio of a large file, against zip bombs; text has about 10."""
IGNORED_NAMES = (".git", ".obsidian", ".trash", "node_modules", "__MACOSX", ".DS_Store")
INLINE_NAME = "content"
"""Name of a text that is not a file."""
HEAD_BYTES = 1 << 16
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class Piece(NamedTuple):
    """A file of an export."""

    name: str
    """Path within the export, or only the name."""
    size: int
    open: Callable[[], IO[bytes]]
    path: Path | None = None
    """Path on disk; None for a zip entry or a text."""

    def read_head(self) -> bytes:
        with self.open() as source:
            return source.read(HEAD_BYTES)


class Source(NamedTuple):
    """All files of an export, sorted by name."""

    pieces: list[Piece]
    problems: list[Problem]
    is_single_file: bool
    """It is a single file."""

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)


@contextmanager
def open_source(path: Path) -> Iterator[Source]:
    """Open the export at a path; a zip stays open within the context."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}.", fields=["path"]) from None
    if stat.S_ISDIR(mode):
        yield _read_folder(path)
    elif not stat.S_ISREG(mode):
        raise Invalid(f"path: {path} is neither a file nor a folder", fields=["path"])
    elif _is_zip(path):
        with _open_zip(path) as place:
            yield place
    else:
        yield Source([Piece(path.name, path.stat().st_size, lambda: path.open("rb"), path)], [], is_single_file=True)


def source_from_text(text: str) -> Source:
    """Source with the text of a request."""
    data = text.encode()
    return Source([Piece(INLINE_NAME, len(data), lambda: io.BytesIO(data))], [], is_single_file=True)


def _is_zip(path: Path) -> bool:
    try:
        with path.open("rb") as source:
            return source.read(4) in (b"PK\x03\x04", b"PK\x05\x06")
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}.", fields=["path"]) from None


def _read_folder(root: Path) -> Source:
    place = Source([], [], is_single_file=False)
    _walk_folder(root, "", place)
    return place


def _walk_folder(folder: Path, prefix: str, source: Source) -> None:
    for entry in _list_folder(folder, prefix, source):
        name = f"{prefix}{entry.name}"
        if entry.name in IGNORED_NAMES:
            continue
        if entry.is_symlink():
            source.problems.append(Problem(where=name, what="link, not followed", rejected=False))
        elif entry.is_dir(follow_symlinks=False):
            _walk_folder(Path(entry.path), f"{name}/", source)
        elif entry.is_file(follow_symlinks=False):
            _check_file_count(len(source.pieces))
            path = Path(entry.path)
            source.pieces.append(Piece(name, entry.stat(follow_symlinks=False).st_size, _make_opener(path), path))


def _list_folder(folder: Path, name: str, source: Source) -> list[os.DirEntry[str]]:
    """List a folder by name. Reports a folder that is unreadable or too deep."""
    if name.count("/") > MAX_DEPTH:
        source.problems.append(Problem(where=name, what=f"more than {MAX_DEPTH} folders deep"))
        return []
    try:
        return sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        source.problems.append(Problem(where=name or folder.name, what=f"unreadable: {error.strerror}"))
        return []


def _check_file_count(number: int) -> None:
    if number >= MAX_FILES:
        raise Invalid(f"path: contains more than {MAX_FILES} files", fields=["path"])


def _make_opener(path: Path) -> Callable[[], IO[bytes]]:
    """Opener that does not follow a link, even if the file was replaced by one."""
    return lambda: os.fdopen(os.open(path, _OPEN_FLAGS), "rb")


@contextmanager
def _open_zip(path: Path) -> Iterator[Source]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield _read_zip_entries(archive)
    except zipfile.BadZipFile as error:
        raise Invalid(f"path: {path.name} is not a valid zip: {error}", fields=["path"]) from None


def _read_zip_entries(archive: zipfile.ZipFile) -> Source:
    place, total = Source([], [], is_single_file=False), 0
    for entry in sorted(archive.infolist(), key=lambda entry: entry.filename):
        if entry.is_dir() or any(step in IGNORED_NAMES for step in entry.filename.split("/")):
            continue
        _check_file_count(len(place.pieces))
        if wrong := _find_zip_problem(entry):
            place.problems.append(Problem(where=entry.filename, what=wrong))
            continue
        total += entry.file_size
        if total > MAX_UNPACKED_BYTES:
            raise Invalid(f"path: contains more than {MAX_UNPACKED_BYTES} uncompressed bytes", fields=["path"])
        place.pieces.append(Piece(entry.filename, entry.file_size, _make_zip_opener(archive, entry)))
    return place


def _find_zip_problem(entry: zipfile.ZipInfo) -> str | None:
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
    if entry.file_size > LARGE_FILE_BYTES and entry.file_size > MAX_COMPRESSION_RATIO * max(entry.compress_size, 1):
        return f"expands from {entry.compress_size} to {entry.file_size} bytes: not an export"
    return None


def _make_zip_opener(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Callable[[], IO[bytes]]:
    return lambda: archive.open(entry)


class CountingReader(io.RawIOBase):
    """Stream that reports the number of bytes read."""

    def __init__(self, source: IO[bytes], on_read: Callable[[int], None]) -> None:
        self._source = source
        self._on_read = on_read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._source.read(len(buffer))
        buffer[: len(data)] = data
        self._on_read(len(data))
        return len(data)

    def close(self) -> None:
        self._source.close()
        super().close()


def open_with_progress(piece: Piece, on_read: Callable[[int], None]) -> IO[bytes]:
    """Open a file and report the bytes read."""
    return io.BufferedReader(CountingReader(piece.open(), on_read), 1 << 18)
