"""Read a skill from a folder, or write it to one."""

import os
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path

from holdfast.features.skills import paths as skill_paths
from holdfast.features.skills.archive import MAX_ARCHIVE_BYTES, read_archive
from holdfast.features.skills.files import Draft, validate_files
from holdfast.features.skills.model import File, build_file, is_manifest
from holdfast.kernel.errors import Conflict, Invalid, InvalidSetting, NotFound

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
    for name in sorted(entry.name for entry in os.scandir(folder) if not skill_paths.is_ignored(entry.name)):
        path = skill_paths.validate_path(f"{above}{name}")
        with _open_entry(folder, name, path) as handle:
            was = os.fstat(handle)
            if stat.S_ISDIR(was.st_mode):
                yield from _walk_folder(handle, f"{path}/", totals)
                continue
            _check_regular_file(path, was)
            totals[0], totals[1] = totals[0] + 1, totals[1] + was.st_size
            skill_paths.check_limits(path, was.st_size, totals[0], totals[1])
            yield path, (_read_handle(handle, path, was), _stamp_of(was))


@contextmanager
def _open_entry(folder: int, name: str, path: str) -> Iterator[int]:
    """Open an entry; never follows a link, opens a device or waits for a pipe."""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise skill_paths.path_error(path, "is a link, a pipe, a socket or a device: replace it by a regular file")
        handle = os.open(name, os.O_RDONLY | _OPEN_FLAGS, dir_fd=folder)
    except OSError as error:
        raise skill_paths.path_error(path, f"cannot be read: {error.strerror}") from None
    try:
        yield handle
    finally:
        os.close(handle)


def _check_regular_file(path: str, was: os.stat_result) -> None:
    if not stat.S_ISREG(was.st_mode):
        raise skill_paths.path_error(path, "is not a regular file")
    if was.st_nlink > 1:
        raise skill_paths.path_error(path, "is a hard link: replace it by a copy")


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
        if skill_paths.is_ignored(entry.name):
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
