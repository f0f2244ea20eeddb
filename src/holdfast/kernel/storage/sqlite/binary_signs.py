"""The signs of many vectors: packed into blocks, read in pages."""

import struct
from collections.abc import Iterator, Sequence

from holdfast.kernel.storage.port import Row, Session

PAGE_SIZE = 50_000
"""Vectors read per statement."""
BLOCK_SIZE = 1024
"""Vectors per packed block, as in the migration."""


def pack_block(rows: Sequence[tuple[int, int, bytes]]) -> bytes:
    """Encode numbers, rows and bits of a block as one value."""
    ordered = sorted(rows)
    numbers = [*(number for number, _, _ in ordered), *(row for _, row, _ in ordered)]
    return struct.pack(f"<{len(numbers)}q", *numbers) + b"".join(signs for _, _, signs in ordered)


def read_pages(session: Session, model: str, size: int, after: int, last: int) -> Iterator[list[Row]]:
    """Read the rows between two numbers in pages: a million Python rows would take a gigabyte."""
    while after < last:
        page = session.rows("binary_index_page", model=model, size=size, after=after, last=last, limit=PAGE_SIZE)
        if page:
            yield page
        if len(page) < PAGE_SIZE:
            return
        after = page[-1][0]
