"""Read a skill from an archive, in memory only."""

import gzip
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from io import BytesIO
from typing import IO

from holdfast.features.skills import paths as skill_paths
from holdfast.features.skills.files import Draft, validate_files
from holdfast.features.skills.model import MAX_BYTES, is_manifest
from holdfast.kernel.errors import Invalid

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
                    raise skill_paths.path_error(path, "is a link, a device or encrypted")
                skill_paths.check_limits(path, entry.file_size, number, total + entry.file_size)
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
                    raise skill_paths.path_error(path, "is a link, a device or a sparse file")
                number, total = number + 1, total + entry.size
                skill_paths.check_limits(path, entry.size, number, total)
                source = archive.extractfile(entry)
                assert source is not None
                yield path, _read_exactly(source, path, entry.size)
    except (tarfile.TarError, zlib.error, EOFError, ValueError, OSError) as error:
        raise _archive_error(f"cannot read the tar ({type(error).__name__})") from None


def _is_skipped(path: str, folder: bool) -> bool:
    return folder or skill_paths.is_ignored(path)


def _archive_path(path: str) -> str:
    """Return the validated path of an archive entry, without a leading ./"""
    return skill_paths.validate_path(path.removeprefix("./"))


def _read_exactly(source: IO[bytes], path: str, size: int) -> bytes:
    content = source.read(size + 1)
    if len(content) != size:
        raise skill_paths.path_error(path, f"does not have the {size} bytes that the archive declares")
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
