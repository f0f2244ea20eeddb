"""Vectors that wait to be written: in a file that nobody else can open, once they are many."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from tempfile import SpooledTemporaryFile
from types import TracebackType

import msgspec

from holdfast.kernel.vector import Vector

Made = tuple[int, int, Vector]
"""From where to where, and the vector; places below zero are no part of the text."""

IN_MEMORY = 1024 * 1024


class Spool:
    """The vectors of texts, by a number of the text; gone when it is left."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115  # closed by __exit__
        self._at: dict[int, tuple[int, int]] = {}

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with suppress(OSError):  # what a full disk did not take is not wanted any more
            self._file.close()

    def __setitem__(self, number: int, made: Sequence[Made]) -> None:
        """Hold the vectors of a text. If a disk is full, none that were held before can be had either."""
        packed = msgspec.msgpack.encode([(start, end, bytes(vector)) for start, end, vector in made])
        try:
            begins = self._file.seek(0, 2)
            self._file.write(packed)
            self._file.flush()
        except OSError:
            self._at.clear()
            raise
        self._at[number] = (begins, len(packed))

    def get(self, number: int) -> list[Made]:
        """The vectors of a text; none, if none were given."""
        begins, size = self._at.get(number, (0, 0))
        if not size:
            return []
        self._file.seek(begins)
        read = msgspec.msgpack.decode(self._file.read(size), type=list[tuple[int, int, bytes]])
        return [(start, end, Vector(vector)) for start, end, vector in read]
