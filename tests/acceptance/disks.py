"""Failing disks under a real store: power loss and I/O errors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import apsw

SECTOR = 512
_names = count()


class DiskFile:
    """A file as read, as on the platter, and all states of each sector in between."""

    def __init__(self, content: bytes, *, named: bool) -> None:
        self.now = bytearray(content)
        self.synced = bytes(content)
        self.sectors: dict[int, list[bytes]] = {}
        self.sizes: list[int] = []
        self.named = named
        """Whether its directory entry is on the platter."""

    def write(self, data: bytes, offset: int) -> None:
        if offset > len(self.now):
            self.now.extend(bytes(offset - len(self.now)))
        self.now[offset : offset + len(data)] = data
        self.sizes.append(len(self.now))
        for sector in range(offset // SECTOR, (offset + len(data) - 1) // SECTOR + 1):
            self.sectors.setdefault(sector, []).append(bytes(self.now[sector * SECTOR : (sector + 1) * SECTOR]))

    def truncate(self, size: int) -> None:
        del self.now[size:]
        self.sizes.append(size)

    def sync(self) -> None:
        self.synced, self.named = bytes(self.now), True
        self.sectors.clear()
        self.sizes.clear()

    def after_the_cut(self, random: Random) -> bytes:
        """Return a possible platter content: any state of each sector, and of the size, since the last sync."""
        reached = random.choice([0.0, 0.3, 0.7, 1.0])
        found = bytearray(self.synced)
        for sector, states in self.sectors.items():
            if random.random() < reached:
                start, state = sector * SECTOR, random.choice(states)
                found.extend(bytes(max(0, start + len(state) - len(found))))
                found[start : start + len(state)] = state
        if self.sizes and random.random() < 0.5:
            size = random.choice(self.sizes)
            found.extend(random.randbytes(max(0, size - len(found))))
            del found[size:]
        return bytes(found)


class PowerDisk(apsw.VFS):
    """A disk that loses power at one of its operations; later writes are lost."""

    def __init__(self, cut_at: int, random: Random) -> None:
        self.name = f"power-{next(_names)}"
        self.files: dict[str, DiskFile] = {}
        self.deleted: dict[str, bytes] = {}
        """Deleted files whose deletion is not on the platter yet."""
        self.image: dict[str, bytes] | None = None
        self._left = cut_at
        self._random = random
        super().__init__(self.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return PowerFile(self, name, flags)

    def xDelete(self, name: str, sync: bool) -> None:
        self.reach()
        if (file := self.files.pop(name, None)) and file.named and not sync:
            self.deleted[name] = file.synced
        super().xDelete(name, sync)

    def reach(self) -> None:
        """Count an operation; from the power loss on, nothing is written."""
        self._left -= 1
        if self._left == 0:
            self.cut()
        if self.image is not None:
            raise apsw.IOError("the power is off")

    def cut(self) -> None:
        """Choose the content of the platter."""
        back = {name: content for name, content in self.deleted.items() if self._random.random() < 0.5}
        there = {name: file for name, file in self.files.items() if file.named or self._random.random() < 0.5}
        self.image = back | {name: file.after_the_cut(self._random) for name, file in there.items()}

    def restart_into(self, folder: Path) -> None:
        """Write the content of the platter to a folder."""
        if self.image is None:
            self.cut()
        for name, content in (self.image or {}).items():
            (folder / Path(name).name).write_bytes(content)


class PowerFile(apsw.VFSFile):
    def __init__(self, disk: PowerDisk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        self._path = name.filename() if isinstance(name, apsw.URIFilename) else name
        found = Path(self._path).read_bytes() if self._path and Path(self._path).exists() else None
        super().__init__("", name, flags)
        if self._path and self._path not in disk.files:
            disk.files[self._path] = DiskFile(found or b"", named=found is not None)

    @property
    def _disk_file(self) -> DiskFile | None:
        return self._disk.files.get(self._path)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.reach()
        if self._disk_file:
            self._disk_file.write(data, offset)
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:
        self._disk.reach()
        if self._disk_file:
            self._disk_file.truncate(size)
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        self._disk.reach()
        if self._disk_file:
            if not self._disk_file.named:  # SQLite syncs the folder with a new log or journal
                self._disk.deleted.clear()
            self._disk_file.sync()
        # The platter is simulated: syncing the real file would only take time.


_AT = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, use_errno=True)
_TRUNCATE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int64, use_errno=True)


class RefusedCalls(apsw.VFS):
    """Inject real errors into SQLite's system calls, for all stores of this process."""

    WRITES = (("pwrite64", _AT), ("pwrite", _AT), ("ftruncate", _TRUNCATE))
    READS = (("pread64", _AT), ("pread", _AT))

    def __init__(self, error: int, refuses: Callable[[int], bool], calls: tuple[Any, ...] = WRITES) -> None:
        self._calls = calls
        self.done = 0
        self.refused = 0
        self._error, self._refuses = error, refuses
        self._real: dict[str, int] = {}
        self._ours: list[Any] = []
        super().__init__(f"calls-{next(_names)}", "unix")

    def __enter__(self) -> RefusedCalls:
        for name, shape in self._calls:
            if pointer := self.xGetSystemCall(name):
                self._real[name] = pointer
                call = shape(self._refusing(shape(pointer)))
                self._ours.append(call)
                self.xSetSystemCall(name, ctypes.cast(call, ctypes.c_void_p).value or 0)
        return self

    def __exit__(self, *_: object) -> None:
        for name, pointer in self._real.items():
            self.xSetSystemCall(name, pointer)
        self.unregister()

    def _refusing(self, real: Callable[..., int]) -> Callable[..., int]:
        def call(*arguments: int) -> int:
            self.done += 1
            if self._refuses(self.done):
                self.refused += 1
                ctypes.set_errno(self._error)
                return -1
            return real(*arguments)

        return call


class RefusedSyncs(apsw.VFS):
    """A disk that fails some of the syncs of commits.

    Those of a checkpoint, whose failure SQLite bears, would come through as errors here and not on a real disk.
    """

    def __init__(self, refuses: Callable[[int], bool]) -> None:
        self.name = f"syncs-{next(_names)}"
        self.refused = 0
        self._done = 0
        self._failing = False
        self._refuses = refuses
        super().__init__(self.name, "")

    def __enter__(self) -> None:
        self._done, self._failing = 0, True

    def __exit__(self, *_: object) -> None:
        self._failing = False

    def reach(self) -> None:
        self._done += 1
        if self._failing and self._refuses(self._done):
            self.refused += 1
            raise apsw.IOError("refused")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return RefusedSync(self, name, flags)


class RefusedSync(apsw.VFSFile):
    def __init__(self, disk: RefusedSyncs, name: Any, flags: list[int]) -> None:
        self._disk = disk
        self._log = (name.filename() if isinstance(name, apsw.URIFilename) else name or "").endswith("-wal")
        self._written = False
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._written = True
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        written, self._written = self._written, False
        if self._log and written:
            self._disk.reach()
        super().xSync(flags)
