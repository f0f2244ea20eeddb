"""Change files of other programs safely: check permissions, back up, replace atomically."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import msgspec

from holdfast.kernel.errors import FileMalformed, FileRefused, FileUnsafe
from holdfast.kernel.storage.open_by_address import data_folder

MAX_BYTES = 32 * 1024 * 1024
BOM = "\ufeff"


@dataclass(frozen=True)
class Document:
    """A file as it was read; `text` has no byte order mark."""

    file: Path
    """The requested path, which may be a link."""
    real: Path
    """The file that is changed: the link's target."""
    data: bytes | None
    """None if the file does not exist."""
    text: str
    bom: str

    def encode(self, text: str) -> bytes:
        return (self.bom + text).encode()


def read_document(file: Path) -> Document:
    """Read a file; raise if it must not be changed."""
    real = _real_path(file)
    data = _read_bytes(file, real)
    try:
        text = (data or b"").decode()
    except UnicodeDecodeError as error:
        raise FileMalformed(f"{file} is not UTF-8 text (byte {error.start + 1}).", file=str(file)) from None
    mark = BOM if text.startswith(BOM) else ""
    return Document(file, real, data, text.removeprefix(BOM), mark)


def _real_path(file: Path) -> Path:
    try:
        return Path(os.path.realpath(file, strict=file.exists()))
    except OSError as error:
        raise FileRefused(f"{file} is a broken link: {error.strerror}.", file=str(file)) from None


def _read_bytes(file: Path, real: Path) -> bytes | None:
    try:
        status = real.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise FileRefused(f"{file} is not a regular file.", file=str(file))
        if status.st_size > MAX_BYTES:
            raise FileRefused(f"{file} is larger than {MAX_BYTES:,} bytes.", file=str(file))
        return real.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileRefused(f"{file} cannot be read: {error.strerror}.", file=str(file)) from None


def check_writable(document: Document) -> None:
    """Raise if others can write the file or its folder, or if either is read-only."""
    file, real = document.file, document.real
    if os.name == "nt":
        if document.data is not None and not os.access(real, os.W_OK):
            raise FileRefused(f"{file} is read-only.", file=str(file))
        return
    folder = next(place for place in real.parents if place.exists())
    mode = folder.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise FileUnsafe(f"{folder} is writable by everyone: run `chmod o-w {folder}` first.", file=str(file))
    if not (mode & 0o222 and os.access(folder, os.W_OK)):
        raise FileRefused(f"{folder} is read-only, so {file} cannot be changed.", file=str(file))
    if document.data is not None:
        _check_file_writable(file, real)


def _check_file_writable(file: Path, real: Path) -> None:
    status = real.stat()
    if status.st_mode & stat.S_IWOTH:
        raise FileUnsafe(f"{file} is writable by everyone: run `chmod o-w {real}` first.", file=str(file))
    if not status.st_mode & stat.S_IWUSR or not os.access(real, os.W_OK):
        raise FileRefused(f"{file} is read-only: run `chmod u+w {real}` first to allow the change.", file=str(file))


def replace_file(document: Document, data: bytes | None) -> Path | None:
    """Replace a file atomically, or delete it; return its backup. Raise if it changed since it was read.

    A reader sees the old or the new content, never a part.
    """
    check_writable(document)
    backup = _back_up(document)
    if data is None:
        _check_unchanged(document, backup)
        document.real.unlink()
        return backup
    document.real.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{document.real.name}.", dir=document.real.parent)
    try:
        with os.fdopen(handle, "wb") as written:
            written.write(data)
            written.flush()
            _copy_owner_and_mode(written.fileno(), document)
            os.fsync(written.fileno())
        _check_unchanged(document, backup)
        os.replace(name, document.real)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise
    return backup


class FileChanged(Exception):
    """The file changed since it was read."""


def _check_unchanged(document: Document, backup: Path | None) -> None:
    if _read_bytes(document.file, document.real) != document.data:
        if backup is not None:
            backup.unlink()
        raise FileChanged


def _copy_owner_and_mode(handle: int, document: Document) -> None:
    """Copy owner and mode of the old file; a new file is private."""
    if os.name == "nt" or document.data is None:
        return
    status = document.real.stat()
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        with suppress(PermissionError):
            os.fchown(handle, status.st_uid, status.st_gid)
    os.fchmod(handle, stat.S_IMODE(status.st_mode))


def _back_up(document: Document) -> Path | None:
    """Copy the file beside itself under an unused name."""
    if document.data is None:
        return None
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    for number in range(1000):
        copy = document.real.with_name(f"{document.real.name}.bak.{stamp}{f'-{number}' if number else ''}")
        with suppress(FileExistsError):
            handle = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
            with os.fdopen(handle, "wb") as written:
                written.write(document.data)
                _copy_owner_and_mode(written.fileno(), document)
            return copy
    raise FileRefused(f"Cannot back up {document.file}: delete old backups beside it.", file=str(document.file))


class Piece(msgspec.Struct, frozen=True):
    """Text that we wrote into a file, and the text it replaced."""

    old: str
    new: str
    at: int = -1
    """Position in the text; negative if unknown."""

    def undo(self, text: str) -> str | None:
        """Undo the change, if our text is still at its position or occurs exactly once; else None."""
        if self.at >= 0 and text.startswith(self.new, self.at):
            return text[: self.at] + self.old + text[self.at + len(self.new) :]
        return text.replace(self.new, self.old) if text.count(self.new) == 1 else None


class Receipt(msgspec.Struct, frozen=True):
    """What we did to a file, so it can be undone exactly."""

    file: str
    made: bool
    """Whether we created the file."""
    base: str
    """The initial text of a file that we created."""
    pieces: list[Piece]
    keys: list[tuple[str, ...]] = []
    """Paths of the parents that we created for our entry."""

    def undo(self, text: str) -> str | None:
        """Undo all changes, if all of our text is still there; else None."""
        before: str | None = text
        for piece in reversed(self.pieces):
            before = None if before is None else piece.undo(before)
        return before


def _receipt_path(real: Path) -> Path:
    return data_folder() / "installed" / f"{sha256(os.fsencode(real)).hexdigest()[:32]}.json"


def load_receipt(real: Path) -> Receipt | None:
    """Load the receipt of a file; None if it is missing or unreadable."""
    try:
        return msgspec.json.decode(_receipt_path(real).read_bytes(), type=Receipt)
    except (OSError, msgspec.DecodeError, RuntimeError):
        return None


def save_receipt(real: Path, receipt: Receipt | None) -> None:
    place = _receipt_path(real)
    if receipt is None:
        place.unlink(missing_ok=True)
        return
    part = place.with_suffix(f".{os.getpid()}")
    part.write_bytes(msgspec.json.encode(receipt))
    os.replace(part, place)


@contextmanager
def install_lock() -> Iterator[None]:
    """Lock out other installers; wait for a running one."""
    folder = data_folder() / "installed"
    try:
        folder.parent.parent.mkdir(parents=True, exist_ok=True)
        for place in (folder.parent, folder):
            place.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise FileRefused(f"Cannot write {folder}: {error.strerror}.", file=str(folder)) from None
    try:
        _lock(handle)
        yield
    finally:
        os.close(handle)


if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX)
