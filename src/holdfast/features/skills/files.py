"""Read a skill's files from a folder, archive or request; write them to a folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from holdfast.features.skills import paths as skill_paths
from holdfast.features.skills.model import MOST_BYTES, File, file_of, is_manifest
from holdfast.kernel.errors import Conflict, Invalid, Misconfigured, NotFound

Files = dict[str, bytes]
MOST_ARCHIVE = 16 << 20
"""Size of an archive, packed."""
MOST_UNPACKED = MOST_BYTES + (4 << 20)
"""Size of an unpacked tar: its files and their headers."""
ARCHIVES = (".zip", ".tar.gz", ".tgz")
_OPENED = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class Draft(NamedTuple):
    """The files of a skill before validation."""

    files: Files
    folder: str | None = None
    """Name of the folder it was in."""


def admitted(files: Iterable[tuple[str, bytes]]) -> Files:
    """Return files by path; raise an error with the offending path if one is unsafe or too large, or if two collide."""
    found: Files = {}
    total = 0
    paths = []
    for path, content in files:
        paths.append(skill_paths.must_be_inside(path))
        total += len(content)
        skill_paths.must_fit(path, len(content), len(paths), total)
        found[path] = content
    skill_paths.must_be_together(paths)
    return found


def at(place: Path) -> Draft:
    """Read the skill at a path: a folder, its SKILL.md, or an archive of one."""
    with _reading(place):
        if place.is_dir():
            return from_folder(place)
        if is_manifest(place.name):
            return from_folder(place.parent)
        if place.name.lower().endswith(ARCHIVES):
            return from_archive(_bounded(place))
        if not place.exists():
            raise NotFound(f"folder_path: {place} does not exist", fields=["folder_path"])
    raise Invalid(
        f"folder_path: {place} is neither a folder with a SKILL.md nor an archive ({', '.join(ARCHIVES)})",
        fields=["folder_path"],
    )


def _bounded(place: Path) -> bytes:
    with place.open("rb") as source:
        return source.read(MOST_ARCHIVE + 1)


@contextmanager
def _reading(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = error.strerror or type(error).__name__
        raise Invalid(f"folder_path: cannot read {place}: {what}", fields=["folder_path"]) from None


# From a folder


def from_folder(place: Path) -> Draft:
    """Read every file of a folder as a consistent snapshot; raise if it holds anything but regular files."""
    if os.open not in os.supports_dir_fd:
        raise Misconfigured("This system cannot read a skill from a folder. Use an archive.")
    handle = os.open(place, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        read = dict(_walked(handle, ""))
        found = admitted((path, content) for path, (content, _) in read.items())
        _must_be_the_same(handle, {path: seen for path, (_, seen) in read.items()})
    finally:
        os.close(handle)
    return Draft(found, place.absolute().name)


Seen = tuple[int, ...]


def _walked(folder: int, above: str, held: list[int] | None = None) -> Iterator[tuple[str, tuple[bytes, Seen]]]:
    """Yield every file below an open folder with its stamp; checks the limits before reading a file."""
    held = [0, 0] if held is None else held
    for name in sorted(entry.name for entry in os.scandir(folder) if not skill_paths.is_left_out(entry.name)):
        path = skill_paths.must_be_inside(f"{above}{name}")
        with _opened(folder, name, path) as handle:
            was = os.fstat(handle)
            if stat.S_ISDIR(was.st_mode):
                yield from _walked(handle, f"{path}/", held)
                continue
            _must_be_plain(path, was)
            held[0], held[1] = held[0] + 1, held[1] + was.st_size
            skill_paths.must_fit(path, was.st_size, held[0], held[1])
            yield path, (_read(handle, path, was), _seen(was))


@contextmanager
def _opened(folder: int, name: str, path: str) -> Iterator[int]:
    """Open an entry; never follows a link, opens a device or waits for a pipe."""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise skill_paths.refused(path, "is a link, a pipe, a socket or a device: replace it by a regular file")
        handle = os.open(name, os.O_RDONLY | _OPENED, dir_fd=folder)
    except OSError as error:
        raise skill_paths.refused(path, f"cannot be read: {error.strerror}") from None
    try:
        yield handle
    finally:
        os.close(handle)


def _must_be_plain(path: str, was: os.stat_result) -> None:
    if not stat.S_ISREG(was.st_mode):
        raise skill_paths.refused(path, "is not a regular file")
    if was.st_nlink > 1:
        raise skill_paths.refused(path, "is a hard link: replace it by a copy")


def _read(handle: int, path: str, was: os.stat_result) -> bytes:
    with os.fdopen(os.dup(handle), "rb") as source:
        content = source.read(was.st_size + 1)
    if len(content) != was.st_size:
        raise _changed(path)
    return content


def _must_be_the_same(folder: int, read: Mapping[str, Seen]) -> None:
    """Raise if any file was changed, added or removed since it was read."""
    now = dict(_looked(folder, ""))
    for path in sorted(read.keys() | now.keys()):
        if read.get(path) != now.get(path):
            raise _changed(path)


def _looked(folder: int, above: str) -> Iterator[tuple[str, Seen]]:
    for entry in os.scandir(folder):
        path = f"{above}{entry.name}"
        if skill_paths.is_left_out(entry.name):
            continue
        if entry.is_dir(follow_symlinks=False):
            with _opened(folder, entry.name, path) as handle:
                yield from _looked(handle, f"{path}/")
        else:
            yield path, _seen(entry.stat(follow_symlinks=False))


def _seen(was: os.stat_result) -> Seen:
    return was.st_ino, was.st_dev, was.st_size, was.st_mtime_ns, was.st_ctime_ns


def _changed(path: str) -> Conflict:
    return Conflict(
        f"{path!r} was changed while it was read. Register the skill again when the folder no longer changes.",
        path=path,
    )


# From an archive


def from_archive(data: bytes) -> Draft:
    """Read a zip or a gzipped tar with the skill in its root or in one folder. Unpacks in memory only."""
    if len(data) > MOST_ARCHIVE:
        raise Invalid(f"archive: at most {MOST_ARCHIVE} bytes", fields=["archive"])
    if data.startswith(b"PK"):
        read = list(_zipped(data))
    elif data.startswith(b"\x1f\x8b"):
        read = list(_tarred(data))
    else:
        raise _bad_archive("is neither a zip nor a gzipped tar")
    return _rooted(read)


def _zipped(data: bytes) -> Iterator[tuple[str, bytes]]:
    import zipfile
    import zlib
    from io import BytesIO

    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            entries = [entry for entry in archive.infolist() if not _passed_over(entry.orig_filename, entry.is_dir())]
            total = 0
            for number, entry in enumerate(entries, 1):
                path = _inside(entry.orig_filename)
                mode = entry.external_attr >> 16
                if stat.S_IFMT(mode) not in (0, stat.S_IFREG) or entry.flag_bits & 1:
                    raise skill_paths.refused(path, "is a link, a device or encrypted")
                skill_paths.must_fit(path, entry.file_size, number, total + entry.file_size)
                with archive.open(entry) as source:
                    content = _exactly(source, path, entry.file_size)
                total += len(content)
                yield path, content
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        raise _bad_archive(f"cannot read the zip ({type(error).__name__})") from None


def _tarred(data: bytes) -> Iterator[tuple[str, bytes]]:
    import gzip
    import tarfile
    import zlib
    from io import BytesIO

    try:
        with gzip.GzipFile(fileobj=BytesIO(data)) as packed:
            unpacked = packed.read(MOST_UNPACKED + 1)
        if len(unpacked) > MOST_UNPACKED:
            raise Invalid(f"archive: at most {MOST_UNPACKED} bytes unpacked", fields=["archive"])
        with tarfile.open(fileobj=BytesIO(unpacked), mode="r:") as archive:
            number = total = 0
            for entry in archive:
                if _passed_over(entry.name, entry.isdir()):
                    continue
                path = _inside(entry.name)
                if not entry.isreg() or entry.issparse():
                    raise skill_paths.refused(path, "is a link, a device or a sparse file")
                number, total = number + 1, total + entry.size
                skill_paths.must_fit(path, entry.size, number, total)
                source = archive.extractfile(entry)
                assert source is not None
                yield path, _exactly(source, path, entry.size)
    except (tarfile.TarError, zlib.error, EOFError, ValueError, OSError) as error:
        raise _bad_archive(f"cannot read the tar ({type(error).__name__})") from None


def _passed_over(path: str, folder: bool) -> bool:
    return folder or skill_paths.is_left_out(path)


def _inside(path: str) -> str:
    """Return the validated path of an archive entry, without a leading ./"""
    return skill_paths.must_be_inside(path.removeprefix("./"))


def _exactly(source: IO[bytes], path: str, size: int) -> bytes:
    content = source.read(size + 1)
    if len(content) != size:
        raise skill_paths.refused(path, f"does not have the {size} bytes that the archive declares")
    return content


def _rooted(read: list[tuple[str, bytes]]) -> Draft:
    """Return the skill in the root, or in the only top-level folder."""
    found = admitted(read)
    if any(map(is_manifest, found)):
        return Draft(found)
    tops = {path.partition("/")[0] for path in found}
    within = {path.partition("/")[2]: content for path, content in found.items()}
    if len(tops) != 1 or not any(map(is_manifest, within)):
        raise _bad_archive("no SKILL.md in its root or in its only top-level folder")
    return Draft(within, tops.pop())


def _bad_archive(what: str) -> Invalid:
    return Invalid(f"archive: {what}", fields=["archive"])


# Writing to a folder


def write(files: Mapping[str, bytes], target: Path, known: Collection[File] = ()) -> None:
    """Replace a folder atomically by exactly these files.

    Refuses to replace a folder that holds other files than the known ones, so no file is lost.
    """
    admitted(files.items())
    with _writing(target):
        _must_be_known(target, target, known)
        partial = target.with_name(f".{target.name}.{os.getpid()}-{os.urandom(4).hex()}.partial")
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir()
        try:
            for path, content in files.items():
                _write(partial, path, content)
            _swap(partial, target, known)
        finally:
            _removed(partial)


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = error.strerror or type(error).__name__
        raise Invalid(f"target_folder: cannot write {target}: {what}", fields=["target_folder"]) from None


def _must_be_known(folder: Path, target: Path, known: Collection[File]) -> None:
    """Raise unless the folder is missing, is empty or holds only known files."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise Conflict(f"target_folder: {target} is not a folder. Nothing was changed. Choose a new folder.")
    strange = next(_strange(folder, "", set(known)), None) if folder.is_dir() else None
    if strange is not None:
        raise Conflict(
            f"target_folder: {target} holds {strange!r}, which is in no version of this skill. Nothing was changed. "
            "Choose a new folder, register what is there first, or move it away.",
            path=strange,
        )


def _strange(folder: Path, above: str, known: Set[File]) -> Iterator[str]:
    """Yield paths in a folder that are neither a known file, byte for byte, nor a folder of one."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        path = f"{above}{entry.name}"
        if entry.is_dir(follow_symlinks=False) and any(file.path.startswith(f"{path}/") for file in known):
            yield from _strange(Path(entry.path), f"{path}/", known)
        elif not entry.is_file(follow_symlinks=False) or not _is_known(entry, path, known):
            yield path


def _is_known(entry: os.DirEntry[str], path: str, known: Set[File]) -> bool:
    """Return whether a file is a known one; reads it only if path and size match."""
    size = entry.stat(follow_symlinks=False).st_size
    return (
        any(file.path == path and file.size == size for file in known)
        and file_of(path, Path(entry.path).read_bytes()) in known
    )


def _write(folder: Path, path: str, content: bytes) -> None:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("xb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())


def _swap(partial: Path, target: Path, known: Collection[File]) -> None:
    """Replace the old folder by the new one; restore the old one if that fails or it was changed meanwhile."""
    if not target.exists():
        partial.rename(target)
        return
    old = partial.with_suffix(".old")
    target.rename(old)
    try:
        _must_be_known(old, target, known)
        partial.rename(target)
    except (OSError, Conflict):
        old.rename(target)
        raise
    _removed(old)


def _removed(folder: Path) -> None:
    import shutil

    if folder.exists():
        shutil.rmtree(folder)
