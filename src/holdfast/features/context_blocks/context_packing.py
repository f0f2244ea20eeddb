"""Pack recalled memories into one block for a prompt: within a budget, in time order, fenced as data."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from holdfast.features.context_blocks.cut_text import cut_text
from holdfast.features.context_blocks.fence_text import add_frame, clean_text
from holdfast.features.context_blocks.format_entry import format_day, format_entry
from holdfast.features.context_blocks.packed_memory import Entry, PackedMemory
from holdfast.kernel import timestamps
from holdfast.kernel.text import token_count

MIN_TEXT_TOKENS = 12
"""Minimum tokens of a shown text; with fewer it is left out."""
DEFAULT_TEXT_TOKENS = 200
"""Tokens up to which a memory is shown whole. A longer one is cut to its passages, and widened if there is room."""
MIN_GAP = 28 * timestamps.DAY
LARGE_GAP_FACTOR = 2
"""A gap is this many times longer than the usual distance, and not shorter than the minimum."""
MAX_GAPS = 3
MIN_CITE = 8


class PackedBlock(NamedTuple):
    text: str
    tokens: int
    """Tokens of the whole text, including the frame."""
    cited: tuple[str, ...] = ()
    """Ids of the shown memories, in order."""
    cut: tuple[str, ...] = ()
    """Ids of memories of which only passages are shown."""
    dropped: int = 0
    """Number of hits that did not fit."""
    reason: str | None = None
    """Why the text is empty."""


class _Line(NamedTuple):
    """The texts of an entry, whole or cut, and the tokens of the whole line."""

    entry: Entry
    texts: tuple[str, ...]
    cost: int
    cut: bool


class _Note(NamedTuple):
    """A note of the block itself, shown before the memories of its time."""

    at: int
    text: str


def pack_block(
    hits: Sequence[PackedMemory], *, budget: int, fence: str, now: int | None = None, times: Iterable[int] | None = ()
) -> PackedBlock:
    """Build the block for these hits, best hits first, never exceeding the budget.

    What a budget shows, every larger budget shows too. `fence` is an unpredictable word of letters and digits; it is
    removed from recalled text. Without hits, or if not even a few words of the best hit fit, the text is empty and
    `reason` is set. `times` are the times of all other matches, for the notes on gaps; None: unknown, so no notes.
    """
    if not re.fullmatch("[A-Za-z0-9]{6,}", fence):
        raise ValueError("a fence is a word of at least six letters and digits")
    if not hits:
        return PackedBlock("", 0, reason="Nothing was found.")
    entries = _group_entries(hits, fence)
    notes = [] if times is None else _find_gaps(entries, times, now)
    frame = token_count.count_tokens(add_frame([], fence))
    extras = [*notes, _format_dropped(len(hits))] if len(entries) > 1 else notes
    lines = _choose_lines(entries, budget - frame, sum(_count_line(note.text) for note in extras), fence)
    if not lines:
        return PackedBlock(
            "",
            0,
            dropped=len(hits),
            reason=_format_too_small(budget, frame + _build_smallest_line(entries[0], fence).cost),
        )
    return _build_block(lines, notes, hits, budget, fence)


def shortest_prefix(id: str, others: Iterable[str]) -> str:
    """Return the shortest prefix of an id that none of the others has. Its neighbours in id order are enough."""
    shared = max((_count_common_prefix(id, other) for other in others if other != id), default=0)
    return id[: max(MIN_CITE, shared + 1)]


def _group_entries(hits: Sequence[PackedMemory], fence: str) -> list[Entry]:
    """Group hits into one entry per current memory, with those it superseded, best entry first."""
    known = {hit.id: hit for hit in hits}
    became: dict[str, list[PackedMemory]] = {}
    for hit in tuple(known.values()):
        current = _find_current(hit, known)
        became.setdefault(current.id, []).append(hit)
        known.setdefault(current.id, current)
    found = (_build_entry(known[id], group, _find_cycle(known[id], known), fence) for id, group in became.items())
    return sorted(found, key=lambda entry: entry.rank_key)


def _find_current(hit: PackedMemory, known: dict[str, PackedMemory]) -> PackedMemory:
    """Follow successors to the current memory. In a cycle, each memory counts as current."""
    while (newer := hit.superseded_by) is not None and not _find_cycle(hit, known):
        hit = known.get(newer.id, newer)
    return hit


def _find_cycle(hit: PackedMemory, known: dict[str, PackedMemory]) -> list[PackedMemory]:
    """Return the cycle of successors that a memory is in; empty if there is none."""
    ring, seen = [hit], {hit.id}
    while (newer := ring[-1].superseded_by) is not None and newer.id not in seen:
        seen.add(newer.id)
        ring.append(known.get(newer.id, newer))
    return ring if newer is not None and newer.id == hit.id else []


def _build_entry(memory: PackedMemory, group: list[PackedMemory], cycle: list[PackedMemory], fence: str) -> Entry:
    was = sorted((hit for hit in group if hit.id != memory.id), key=lambda hit: (hit.at, hit.id))
    return Entry(tuple(was), memory, tuple(clean_text(hit.text, fence) for hit in (*was, memory)), tuple(cycle[1:]))


def _choose_lines(entries: Sequence[Entry], room: int, reserve: int, fence: str) -> list[_Line]:
    """Choose the best entries at their default size, and shrink the first that does not fit; what is left widens cut
    ones. Sizes do not depend on the budget, so a larger one never shows fewer. `reserve` is kept for notes if possible.
    """
    lines: list[_Line] = []
    left = room
    for entry in entries:
        usual = _build_default_line(entry, fence)
        line = usual if usual.cost <= left else _shrink_to_fit(entry, left, reserve, fence)
        if line is not None:
            lines.append(line)
            left -= line.cost
        if line is not usual:
            break
    return _widen_lines(lines, left - reserve, fence)


def _build_default_line(entry: Entry, fence: str) -> _Line:
    """Show a short entry whole, of a longer one the passages that matched."""
    return _fit_entry(entry, DEFAULT_TEXT_TOKENS, fence) or _build_short_line(entry, fence)


def _shrink_to_fit(entry: Entry, left: int, reserve: int, fence: str) -> _Line | None:
    """Shrink an entry to the remaining budget; as a last resort, drop the superseded memories."""
    for some in (entry, entry.without_superseded):
        shortest_line = _build_short_line(some, fence)
        if shortest_line.cost <= left:
            return _fit_entry(some, max(shortest_line.cost, left - reserve), fence) or shortest_line
    return None


def _build_smallest_line(entry: Entry, fence: str) -> _Line:
    """Build the smallest form of an entry."""
    forms = (
        _build_default_line(entry, fence),
        _build_short_line(entry, fence),
        _build_short_line(entry.without_superseded, fence),
    )
    return min(forms, key=lambda line: line.cost)


def _build_short_line(entry: Entry, fence: str) -> _Line:
    """Show a few words of each text of an entry."""
    texts = _share_room(entry, MIN_TEXT_TOKENS * len(entry.hits), fence, wide=False)
    return _Line(entry, texts, _count_entry(entry, texts, fence), cut=texts != entry.texts)


def _widen_lines(lines: list[_Line], left: int, fence: str) -> list[_Line]:
    """Widen cut lines with what is left, best first."""
    found = []
    for line in lines:
        longer = _fit_entry(line.entry, line.cost + left, fence, wide=True) if line.cut and left > 0 else None
        left -= (longer or line).cost - line.cost
        found.append(longer or line)
    return found


def _fit_entry(entry: Entry, room: int, fence: str, *, wide: bool = False) -> _Line | None:
    """Fit an entry into some tokens: whole, or with its texts cut; None if hardly anything would be left."""
    cost = _count_entry(entry, entry.texts, fence, room)
    if cost <= room:
        return _Line(entry, entry.texts, cost, cut=False)
    left = room - _count_entry(entry, ("",) * len(entry.texts), fence)
    while left >= MIN_TEXT_TOKENS * len(entry.hits):
        texts = _share_room(entry, left, fence, wide=wide)
        cost = _count_entry(entry, texts, fence)
        if cost <= room:
            return _Line(entry, texts, cost, cut=True)
        left -= cost - room
    return None


def _count_entry(entry: Entry, texts: Sequence[str], fence: str, most: int | None = None) -> int:
    """Count the tokens of an entry in its longest form: dated, and indented if it may follow another."""
    indent = "" if entry.memory.thread is None or entry.superseded else "  "
    return _count_line(indent + format_entry(entry, texts, fence), most)


def _share_room(entry: Entry, room: int, fence: str, *, wide: bool) -> tuple[str, ...]:
    """Cut the texts: the current one gets half of the room and all that the superseded ones do not need."""
    each = room // (2 * len(entry.superseded)) if entry.superseded else 0
    before = [
        cut_text(hit, text, each, fence, wide=wide) for hit, text in zip(entry.superseded, entry.texts, strict=False)
    ]
    rest = room - sum(token_count.count_tokens(text) for text in before)
    return (*before, cut_text(entry.memory, entry.texts[-1], rest, fence, wide=wide))


def _find_gaps(entries: Sequence[Entry], others: Iterable[int], now: int | None) -> list[_Note]:
    """Find periods without memories, most important first: after the last memory, then long gaps between two.

    All known times count, including those of hits that do not fit, so the notes are true.
    """
    times = sorted({hit.at for entry in entries for hit in entry.hits}.union(others))
    gaps = _find_long_gaps([(end - start, start, end) for start, end in pairwise(times)])
    notes = [_Note(end, f"(nothing between {format_day(start)} and {format_day(end)})") for _, start, end in gaps]
    last = times[-1]
    up_to_now = now is not None and (now <= last or format_day(now) == format_day(last))
    return notes if up_to_now else [_Note(timestamps.NO_END, f"(nothing after {format_day(last)})"), *notes]


def _find_long_gaps(between: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Find long gaps, compared with the lower quartile of all distances; a single distance counts as long."""
    lengths = sorted(length for length, _, _ in between)
    usual = lengths[(len(lengths) - 1) // 4] if len(lengths) > 1 else 0
    large = [one for one in between if one[0] >= max(MIN_GAP, LARGE_GAP_FACTOR * usual)]
    return sorted(large, reverse=True)[:MAX_GAPS]


def _build_block(
    lines: list[_Line], notes: list[_Note], hits: Sequence[PackedMemory], budget: int, fence: str
) -> PackedBlock:
    """Build the block, with as many notes as fit."""
    shown = sorted(lines, key=lambda line: line.entry.time_key)
    cited = tuple(hit.id for line in shown for hit in line.entry.hits)
    dropped = len({hit.id for hit in hits} - set(cited))
    left_out = [_format_dropped(dropped)] if dropped else []
    kept: list[_Note] = []
    text = add_frame(_order_lines(lines, kept, fence), fence)
    for note in (*notes, *left_out):
        longer = add_frame(_order_lines(lines, [*kept, note], fence), fence)
        if token_count.count_tokens(longer, budget) <= budget:
            kept, text = [*kept, note], longer
    cut = tuple(hit.id for line in shown if line.cut for hit in line.entry.hits)
    return PackedBlock(text, token_count.count_tokens(text), cited, cut, dropped)


def _format_dropped(number: int) -> _Note:
    return _Note(timestamps.NO_END, f"({number} more did not fit)")


def _order_lines(lines: Sequence[_Line], notes: Sequence[_Note], fence: str) -> list[str]:
    """Order lines by time, each note before the memories of its time."""
    found: list[tuple[int, str]] = []
    before: Entry | None = None
    for line in sorted(lines, key=lambda line: line.entry.time_key):
        follows = before.at if before is not None and _are_neighbours(before, line.entry) else None
        found.append((line.entry.at, format_entry(line.entry, line.texts, fence, follows=follows)))
        before = line.entry
    note_lines = [(note.at, note.text) for note in notes]
    return [text for _, text in sorted([*note_lines, *found], key=lambda one: one[0])]


def _are_neighbours(one: Entry, other: Entry) -> bool:
    """Whether the other directly follows the first in a thread."""
    alone = (
        one.memory.thread is None
        or one.superseded
        or other.superseded
        or one.memory.place is None
        or other.memory.place is None
    )
    return not alone and one.memory.thread == other.memory.thread and other.memory.place == (one.memory.place or 0) + 1


def _count_line(line: str, most: int | None = None) -> int:
    return token_count.count_tokens(line + "\n", most)


def _format_too_small(budget: int, least: int) -> str:
    return f"A budget of {budget} tokens is too small; the smallest block needs {least}."


def _count_common_prefix(one: str, other: str) -> int:
    """Count the characters that two texts begin with in common."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
