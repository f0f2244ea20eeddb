"""Fit hits into a token budget."""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from holdfast.kernel.text import token_count

T = TypeVar("T")


class PackResult(NamedTuple):
    kept: list[object]
    tokens: int
    dropped: int
    overflow: bool
    """The minimum exceeds the budget: what precedes the hits, and the first hit."""
    estimated: bool = False
    """There is no budget: the tokens are estimated from the characters."""


SAMPLE_CHARACTERS = 20_000
"""Characters of a text from which the tokens of the whole are estimated."""
TOKENS_PER_WORD, TOKENS_PER_BYTE = 1.1, 0.29
"""Tokens per ASCII word, and per byte of other text. Three digits are one token, and so is a run of symbols."""


def _make_filter_table(wanted: Callable[[str], bool]) -> bytes:
    """Make a translation table that turns all but some ASCII characters into blanks, so the rest can be split."""
    return bytes(byte if byte < 128 and wanted(chr(byte)) else ord(" ") for byte in range(256))


_LETTERS, _DIGITS = _make_filter_table(str.isalpha), _make_filter_table(str.isdigit)
_SIGNS = _make_filter_table(lambda char: char.isprintable() and not char.isalnum() and char != " ")
_HIGH, _WIDE = bytes(range(128, 256)), bytes(range(0xE0, 0xF0))


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text to about 10 %, without the vocabulary."""
    data = text[:SAMPLE_CHARACTERS].encode(errors="replace")
    words, numbers, signs = (data.translate(table).split() for table in (_LETTERS, _DIGITS, _SIGNS))
    ascii = TOKENS_PER_WORD * len(words) + sum(-(-len(number) // 3) for number in numbers) + len(signs)
    return round((ascii + _estimate_non_ascii(data)) * max(1.0, len(text) / SAMPLE_CHARACTERS))


def _estimate_non_ascii(data: bytes) -> float:
    """Estimate tokens beyond ASCII: a three-byte character (most East Asian ones) is one token, other bytes a part."""
    if data.isascii():
        return 0.0
    high, wide = (len(data) - len(data.translate(None, some)) for some in (_HIGH, _WIDE))
    return wide + TOKENS_PER_BYTE * (high - 3 * wide)


def fill_budget(
    items: Iterable[T], render: Callable[[T], str], budget: int | None, *, frame: str = "", before: str = ""
) -> tuple[list[T], PackResult]:
    """Fill a budget with whole hits in the given order. `frame` is the text around them; `before` is always sent.

    Counts cl100k tokens of the hits as sent. Counting stops when a hit exceeds the remaining budget; with none left,
    hits are not even rendered.
    """
    if budget is None:
        kept, packed = pack_items(items, lambda item: estimate_tokens(render(item)), None)
        return kept, packed._replace(
            tokens=packed.tokens + estimate_tokens(frame) + estimate_tokens(before), estimated=True
        )

    def count_tokens(item: T, room: int | None) -> int:
        return 1 if room is not None and room < 1 else token_count.count_tokens(render(item), room)

    return _pack(items, count_tokens, budget, token_count.count_tokens(before), token_count.count_tokens(frame))


def pack_items(items: Iterable[T], measure: Callable[[T], int], budget: int | None) -> tuple[list[T], PackResult]:
    """Fill a budget greedily in order, skipping items that do not fit; at least one, unless the budget is 0."""
    return _pack(items, lambda item, _: measure(item), budget)


def _pack(
    items: Iterable[T], measure: Callable[[T, int | None], int], budget: int | None, before: int = 0, frame: int = 0
) -> tuple[list[T], PackResult]:
    """`measure` gets the remaining budget, or None for an item that is taken whatever its size."""
    kept: list[T] = []
    used = before + frame
    dropped = 0
    for item in items:
        room = None if budget is None or (not kept and budget > 0) else budget - used
        costs = measure(item, room)
        if budget == 0 or (room is not None and costs > room):
            dropped += 1
        else:
            kept.append(item)
            used += costs
    used = used if kept else before
    return kept, PackResult(list(kept), used, dropped, budget is not None and used > budget)
