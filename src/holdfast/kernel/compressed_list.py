"""Append-only list that compresses its values in memory, for transactions with very many entries."""

import zlib
from collections.abc import Collection, Iterable, Iterator
from typing import TypeVar

import msgspec

from holdfast.kernel.msgspec_lock import register_type

T = TypeVar("T")

CHUNK_SIZE = 256
"""Values per compressed chunk. Common transactions have fewer and are never compressed."""
COMPRESSION_LEVEL = 1


class CompressedList(Collection[T]):
    """Values in insertion order; all but the last chunk are compressed."""

    def __init__(self, type: type[T], values: Iterable[T] = ()) -> None:
        self._type = list[type]  # type: ignore[valid-type]
        self._chunks: list[bytes] = []
        self._tail: list[T] = []
        for value in values:
            self.append(value)

    def append(self, value: T) -> None:
        self._tail.append(value)
        if len(self._tail) == CHUNK_SIZE:
            self._chunks.append(zlib.compress(msgspec.msgpack.encode(self._tail), COMPRESSION_LEVEL))
            self._tail = []

    def __len__(self) -> int:
        return CHUNK_SIZE * len(self._chunks) + len(self._tail)

    def __contains__(self, value: object) -> bool:
        return any(one == value for one in self)

    def __getitem__(self, index: int) -> T:
        portion, within = divmod(index, CHUNK_SIZE)
        return (self._tail if portion == len(self._chunks) else self._unpack(portion))[within]

    def __iter__(self) -> Iterator[T]:
        for portion in range(len(self._chunks)):
            yield from self._unpack(portion)
        yield from self._tail

    def drain(self) -> Iterator[T]:
        """Yield each value once and free it."""
        self._chunks.reverse()
        while self._chunks:
            yield from self._decode(self._chunks.pop())
        last, self._tail = self._tail, []
        yield from last

    def _unpack(self, chunk: int) -> list[T]:
        return self._decode(self._chunks[chunk])

    def _decode(self, packed: bytes) -> list[T]:
        register_type(self._type)
        return msgspec.msgpack.decode(zlib.decompress(packed), type=self._type)
