"""Append-only list that compresses its values in memory, for transactions with very many entries."""

import zlib
from collections.abc import Collection, Iterable, Iterator
from typing import TypeVar

import msgspec

from holdfast.kernel.msgspec_lock import learn

T = TypeVar("T")

PORTION = 256
"""Values per compressed chunk. Common transactions have fewer and are never compressed."""
LEVEL = 1


class Aside(Collection[T]):
    """Values in insertion order; all but the last chunk are compressed."""

    def __init__(self, type: type[T], values: Iterable[T] = ()) -> None:
        self._type = list[type]  # type: ignore[valid-type]
        self._packed: list[bytes] = []
        self._last: list[T] = []
        for value in values:
            self.append(value)

    def append(self, value: T) -> None:
        self._last.append(value)
        if len(self._last) == PORTION:
            self._packed.append(zlib.compress(msgspec.msgpack.encode(self._last), LEVEL))
            self._last = []

    def __len__(self) -> int:
        return PORTION * len(self._packed) + len(self._last)

    def __contains__(self, value: object) -> bool:
        return any(one == value for one in self)

    def __getitem__(self, place: int) -> T:
        portion, within = divmod(place, PORTION)
        return (self._last if portion == len(self._packed) else self._unpacked(portion))[within]

    def __iter__(self) -> Iterator[T]:
        for portion in range(len(self._packed)):
            yield from self._unpacked(portion)
        yield from self._last

    def drained(self) -> Iterator[T]:
        """Yield each value once and free it."""
        self._packed.reverse()
        while self._packed:
            yield from self._decoded(self._packed.pop())
        last, self._last = self._last, []
        yield from last

    def _unpacked(self, portion: int) -> list[T]:
        return self._decoded(self._packed[portion])

    def _decoded(self, packed: bytes) -> list[T]:
        learn(self._type)
        return msgspec.msgpack.decode(zlib.decompress(packed), type=self._type)
