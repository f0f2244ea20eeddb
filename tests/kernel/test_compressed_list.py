"""A compressed list returns its values unchanged and in order."""

import tracemalloc
from typing import NamedTuple

import pytest

from holdfast.kernel.journal.transaction import CHUNK_SIZE, CompressedList

MANY = [0, 1, CHUNK_SIZE - 1, CHUNK_SIZE, CHUNK_SIZE + 1, 3 * CHUNK_SIZE + 7]


class Note(NamedTuple):
    number: int
    text: str | None


def notes(count: int) -> list[Note]:
    return [Note(number, None if number % 3 else f"The gate {number} was opened.") for number in range(count)]


@pytest.mark.parametrize("count", MANY)
def test_a_compressed_list_returns_items_in_order(count: int) -> None:
    aside = CompressedList(Note, notes(count))
    assert (len(aside), list(aside), list(aside)) == (count, notes(count), notes(count))
    assert [aside[place] for place in range(count)] == notes(count)
    assert all(one in aside for one in notes(count)[::100])


@pytest.mark.parametrize("count", MANY)
def test_draining_returns_each_item_once_and_releases_it(count: int) -> None:
    aside = CompressedList(Note, notes(count))
    assert (list(aside.drain()), list(aside), len(aside)) == (notes(count), [], 0)


def test_a_compressed_list_takes_a_fraction_of_the_memory() -> None:
    tracemalloc.start()
    try:
        held = notes(10 * CHUNK_SIZE)
        plain = tracemalloc.get_traced_memory()[0]
        aside = CompressedList(Note, held)
        packed = tracemalloc.get_traced_memory()[0] - plain
    finally:
        tracemalloc.stop()
    assert len(aside) == len(held)
    assert packed < plain / 8
