"""Buffer of embeddings that wait to be written; many go to a private temporary file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from tempfile import SpooledTemporaryFile
from types import TracebackType

import msgspec

from holdfast.kernel.vector import Vector

SpooledPassage = tuple[int, int, Vector]
"""Start, end and vector of a passage; negative positions are not part of the text."""

MAX_IN_MEMORY = 1024 * 1024


class EmbeddingSpool:
    """Embeddings by text number. Leaving the context deletes them."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=MAX_IN_MEMORY)  # noqa: SIM115  # closed by __exit__
        self._at: dict[int, tuple[int, int]] = {}

    def __enter__(self) -> EmbeddingSpool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with suppress(OSError):  # after a full disk, the rest is not needed
            self._file.close()

    def __setitem__(self, number: int, passages: Sequence[SpooledPassage]) -> None:
        """Add the embeddings of a text. If the disk is full, all earlier ones are lost too."""
        packed = msgspec.msgpack.encode([(start, end, bytes(vector)) for start, end, vector in passages])
        try:
            begins = self._file.seek(0, 2)
            self._file.write(packed)
            self._file.flush()
        except OSError:
            self._at.clear()
            raise
        self._at[number] = (begins, len(packed))

    def get(self, number: int) -> list[SpooledPassage]:
        """Return the embeddings of a text; empty if there are none."""
        begins, size = self._at.get(number, (0, 0))
        if not size:
            return []
        self._file.seek(begins)
        read = msgspec.msgpack.decode(self._file.read(size), type=list[tuple[int, int, bytes]])
        return [(start, end, Vector(vector)) for start, end, vector in read]
