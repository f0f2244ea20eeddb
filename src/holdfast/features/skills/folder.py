"""Read a skill from an archive or a folder, or write it to a folder."""

import gzip
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Set
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO

from holdfast.features.skills import files as skill_files
from holdfast.features.skills.files import Draft, validate_files
from holdfast.features.skills.model import MAX_BYTES, File, build_file, is_manifest
from holdfast.kernel.errors import Conflict, Invalid, InvalidSetting, NotFound

MAX_ARCHIVE_BYTES = 16 << 20
"""Size of an archive, packed."""
MAX_UNPACKED_BYTES = MAX_BYTES + (4 << 20)
"""Size of an unpacked tar: its files and their headers."""


def read_archive(data: bytes) -> Draft:
    """Read a zip or a gzipped tar with the skill in its root or in one folder. Unpacks in memory only."""
    if len(data) > MAX_ARCHIVE_BYTES:
        raise Invalid(f"archive: at most {MAX_ARCHIVE_BYTES} bytes", fields=["archive"])
    if data.startswith(b"PK"):
        read = list(_read_zip(data))
    elif data.startswith(b"\x1f\x8b"):
        read = list(_read_tar(data))
    else:
        raise _archive_error("is neither a zip nor a gzipped tar")
    return _find_root(read)


def _read_zip(data: bytes) -> Iterator[tuple[str, bytes]]:
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            entries = [entry for entry in archive.infolist() if not _is_skipped(entry.orig_filename, entry.is_dir())]
            total = 0
            for number, entry in enumerate(entries, 1):
                path = _archive_path(entry.orig_filename)
                mode = entry.external_attr >> 16
                if stat.S_IFMT(mode) not in (0, stat.S_IFREG) or entry.flag_bits & 1:
                    raise skill_files.path_error(path, "is a link, a device or encrypted")
                skill_files.check_limits(path, entry.file_size, number, total + entry.file_size)
                with archive.open(entry) as source:
                    content = _read_exactly(source, path, entry.file_size)
                total += len(content)
                yield path, content
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        raise _archive_error(f"cannot read the zip ({type(error).__name__})") from None


def _read_tar(data: bytes) -> Iterator[tuple[str, bytes]]:
    try:
        with gzip.GzipFile(fileobj=BytesIO(data)) as packed:
            unpacked = packed.read(MAX_UNPACKED_BYTES + 1)
        if len(unpacked) > MAX_UNPACKED_BYTES:
            raise Invalid(f"archive: at most {MAX_UNPACKED_BYTES} bytes unpacked", fields=["archive"])
        with tarfile.open(fileobj=BytesIO(unpacked), mode="r:") as archive:
            number = total = 0
            for entry in archive:
                if _is_skipped(entry.name, entry.isdir()):
                    continue
                path = _archive_path(entry.name)
                if not entry.isreg() or entry.issparse():
                    raise skill_files.path_error(path, "is a link, a device or a sparse file")
                number, total = number + 1, total + entry.size
                skill_files.check_limits(path, entry.size, number, total)
                source = archive.extractfile(entry)
                assert source is not None
                yield path, _read_exactly(source, path, entry.size)
    except (tarfile.TarError, zlib.error, EOFError, ValueError, OSError) as error:
        raise _archive_error(f"cannot read the tar ({type(error).__name__})") from None


def _is_skipped(path: str, folder: bool) -> bool:
    return folder or skill_files.is_ignored(path)


def _archive_path(path: str) -> str:
    """Return the validated path of an archive entry, without a leading ./"""
    return skill_files.validate_path(path.removeprefix("./"))


def _read_exactly(source: IO[bytes], path: str, size: int) -> bytes:
    content = source.read(size + 1)
    if len(content) != size:
        raise skill_files.path_error(path, f"does not have the {size} bytes that the archive declares")
    return content


def _find_root(read: list[tuple[str, bytes]]) -> Draft:
    """Return the skill in the root, or in the only top-level folder."""
    found = validate_files(read)
    if any(map(is_manifest, found)):
        return Draft(found)
    tops = {path.partition("/")[0] for path in found}
    within = {path.partition("/")[2]: content for path, content in found.items()}
    if len(tops) != 1 or not any(map(is_manifest, within)):
        raise _archive_error("no SKILL.md in its root or in its only top-level folder")
    return Draft(within, tops.pop())


def _archive_error(what: str) -> Invalid:
    return Invalid(f"archive: {what}", fields=["archive"])


FileStamp = tuple[int, ...]
ARCHIVE_SUFFIXES = (".zip", ".tar.gz", ".tgz")
_OPEN_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def read_skill(place: Path) -> Draft:
    """Read the skill at a path: a folder, its SKILL.md, or an archive of one."""
    with _translate_read_errors(place):
        if place.is_dir():
            return read_folder(place)
        if is_manifest(place.name):
            return read_folder(place.parent)
        if place.name.lower().endswith(ARCHIVE_SUFFIXES):
            return read_archive(_read_bounded(place))
        if not place.exists():
            raise NotFound(f"folder_path: {place} does not exist", fields=["folder_path"])
    raise Invalid(
        f"folder_path: {place} is neither a folder with a SKILL.md nor an archive ({', '.join(ARCHIVE_SUFFIXES)})",
        fields=["folder_path"],
    )


def _read_bounded(place: Path) -> bytes:
    with place.open("rb") as source:
        return source.read(MAX_ARCHIVE_BYTES + 1)


@contextmanager
def _translate_read_errors(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = error.strerror or type(error).__name__
        raise Invalid(f"folder_path: cannot read {place}: {what}", fields=["folder_path"]) from None


def read_folder(place: Path) -> Draft:
    """Read every file of a folder as a consistent snapshot; raise if it holds anything but regular files."""
    if os.open not in os.supports_dir_fd:
        raise InvalidSetting("This system cannot read a skill from a folder. Use an archive.")
    handle = os.open(place, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        read = dict(_walk_folder(handle, ""))
        found = validate_files((path, content) for path, (content, _) in read.items())
        _check_unchanged(handle, {path: seen for path, (_, seen) in read.items()})
    finally:
        os.close(handle)
    return Draft(found, place.absolute().name)


def _walk_folder(
    folder: int, above: str, totals: list[int] | None = None
) -> Iterator[tuple[str, tuple[bytes, FileStamp]]]:
    """Yield every file below an open folder with its stamp; checks the limits before reading a file."""
    totals = [0, 0] if totals is None else totals
    for name in sorted(entry.name for entry in os.scandir(folder) if not skill_files.is_ignored(entry.name)):
        path = skill_files.validate_path(f"{above}{name}")
        with _open_entry(folder, name, path) as handle:
            was = os.fstat(handle)
            if stat.S_ISDIR(was.st_mode):
                yield from _walk_folder(handle, f"{path}/", totals)
                continue
            _check_regular_file(path, was)
            totals[0], totals[1] = totals[0] + 1, totals[1] + was.st_size
            skill_files.check_limits(path, was.st_size, totals[0], totals[1])
            yield path, (_read_handle(handle, path, was), _stamp_of(was))


@contextmanager
def _open_entry(folder: int, name: str, path: str) -> Iterator[int]:
    """Open an entry; never follows a link, opens a device or waits for a pipe."""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise skill_files.path_error(path, "is a link, a pipe, a socket or a device: replace it by a regular file")
        handle = os.open(name, os.O_RDONLY | _OPEN_FLAGS, dir_fd=folder)
    except OSError as error:
        raise skill_files.path_error(path, f"cannot be read: {error.strerror}") from None
    try:
        yield handle
    finally:
        os.close(handle)


def _check_regular_file(path: str, was: os.stat_result) -> None:
    if not stat.S_ISREG(was.st_mode):
        raise skill_files.path_error(path, "is not a regular file")
    if was.st_nlink > 1:
        raise skill_files.path_error(path, "is a hard link: replace it by a copy")


def _read_handle(handle: int, path: str, was: os.stat_result) -> bytes:
    with os.fdopen(os.dup(handle), "rb") as source:
        content = source.read(was.st_size + 1)
    if len(content) != was.st_size:
        raise _changed_error(path)
    return content


def _check_unchanged(folder: int, read: Mapping[str, FileStamp]) -> None:
    """Raise if any file was changed, added or removed since it was read."""
    now = dict(_scan_folder(folder, ""))
    for path in sorted(read.keys() | now.keys()):
        if read.get(path) != now.get(path):
            raise _changed_error(path)


def _scan_folder(folder: int, above: str) -> Iterator[tuple[str, FileStamp]]:
    for entry in os.scandir(folder):
        path = f"{above}{entry.name}"
        if skill_files.is_ignored(entry.name):
            continue
        if entry.is_dir(follow_symlinks=False):
            with _open_entry(folder, entry.name, path) as handle:
                yield from _scan_folder(handle, f"{path}/")
        else:
            yield path, _stamp_of(entry.stat(follow_symlinks=False))


def _stamp_of(was: os.stat_result) -> FileStamp:
    return was.st_ino, was.st_dev, was.st_size, was.st_mtime_ns, was.st_ctime_ns


def _changed_error(path: str) -> Conflict:
    return Conflict(
        f"{path!r} was changed while it was read. Register the skill again when the folder no longer changes.",
        path=path,
    )


# Writing


def write_folder(files: Mapping[str, bytes], target: Path, known: Collection[File] = ()) -> None:
    """Replace a folder atomically by exactly these files.

    Refuses to replace a folder that holds other files than the known ones, so no file is lost.
    """
    validate_files(files.items())
    with _translate_write_errors(target):
        _check_known(target, target, known)
        partial = target.with_name(f".{target.name}.{os.getpid()}-{os.urandom(4).hex()}.partial")
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir()
        try:
            for path, content in files.items():
                _write_file(partial, path, content)
            _swap_folders(partial, target, known)
        finally:
            _remove_folder(partial)


@contextmanager
def _translate_write_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = error.strerror or type(error).__name__
        raise Invalid(f"target_folder: cannot write {target}: {what}", fields=["target_folder"]) from None


def _check_known(folder: Path, target: Path, known: Collection[File]) -> None:
    """Raise unless the folder is missing, is empty or holds only known files."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise Conflict(f"target_folder: {target} is not a folder. Nothing was changed. Choose a new folder.")
    strange = next(_find_unknown(folder, "", set(known)), None) if folder.is_dir() else None
    if strange is not None:
        raise Conflict(
            f"target_folder: {target} holds {strange!r}, which is in no version of this skill. Nothing was changed. "
            "Choose a new folder, register what is there first, or move it away.",
            path=strange,
        )


def _find_unknown(folder: Path, above: str, known: Set[File]) -> Iterator[str]:
    """Yield paths in a folder that are neither a known file, byte for byte, nor a folder of one."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        path = f"{above}{entry.name}"
        if entry.is_dir(follow_symlinks=False) and any(file.path.startswith(f"{path}/") for file in known):
            yield from _find_unknown(Path(entry.path), f"{path}/", known)
        elif not entry.is_file(follow_symlinks=False) or not _is_known(entry, path, known):
            yield path


def _is_known(entry: os.DirEntry[str], path: str, known: Set[File]) -> bool:
    """Return whether a file is a known one; reads it only if path and size match."""
    size = entry.stat(follow_symlinks=False).st_size
    return (
        any(file.path == path and file.size == size for file in known)
        and build_file(path, Path(entry.path).read_bytes()) in known
    )


def _write_file(folder: Path, path: str, content: bytes) -> None:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("xb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())


def _swap_folders(partial: Path, target: Path, known: Collection[File]) -> None:
    """Replace the old folder by the new one; restore the old one if that fails or it was changed meanwhile."""
    if not target.exists():
        partial.rename(target)
        return
    old = partial.with_suffix(".old")
    target.rename(old)
    try:
        _check_known(old, target, known)
        partial.rename(target)
    except (OSError, Conflict):
        old.rename(target)
        raise
    _remove_folder(old)


def _remove_folder(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
