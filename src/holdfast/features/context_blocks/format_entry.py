"""Format a memory as a line of a context block: id, day, speaker, title and text."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from holdfast.features.context_blocks.fence_text import clean_text
from holdfast.features.context_blocks.packed_memory import Entry, PackedMemory
from holdfast.kernel import timestamps

MAX_SPEAKER, MAX_TITLE = 60, 100
MAX_RIVALS = 3
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEUTRALISED = str.maketrans("[]>［］〔〕【】", "()›()()()")
"""Brackets that enclose cited ids, and similar ones."""
_NEUTRALISED_IN_NAMES = str.maketrans('":：', "';;")
_PLAIN_NAME = re.compile(r"[^\W\d_][\w .'’@+/&-]*")


def format_entry(entry: Entry, texts: Sequence[str], fence: str, *, follows: int | None = None) -> str:
    """Format an entry as a line. After its neighbour in a thread it is indented, without repeating the day."""
    parts = []
    for number, (hit, text) in enumerate(zip(entry.hits, texts, strict=True)):
        known = number == 0 and follows is not None and format_day(follows) == format_day(hit.at)
        change = ("now: " if number == len(entry.superseded) else "was: ") if entry.superseded else ""
        marks = f"{_format_until(hit)}{_format_stale(hit)}{_format_untrusted(hit)}"
        parts.append(f"{_format_label(hit, fence, dated=not known)}{change}{_prepend_title(hit, text, fence)}{marks}")
    return ("" if follows is None else "  ") + " -> ".join(parts) + _format_rivals(entry, fence)


def _format_rivals(entry: Entry, fence: str) -> str:
    """Note that a memory is in a cycle of successors."""
    if not entry.rivals:
        return ""
    others = ", ".join(_format_cite(hit, fence) for hit in entry.rivals[:MAX_RIVALS])
    more = " and others" if len(entry.rivals) > MAX_RIVALS else ""
    return f" (it and {others}{more} supersede each other: unclear which is current)"


def _format_cite(hit: PackedMemory, fence: str) -> str:
    return f"[{clean_text(hit.cite or hit.id, fence)}]"


def _format_label(hit: PackedMemory, fence: str, *, dated: bool) -> str:
    speaker = _quote_name(clean_text(hit.speaker or "", fence)[:MAX_SPEAKER])
    parts = ", ".join(filter(None, (format_day(hit.at) if dated else "", speaker)))
    return f"{_format_cite(hit, fence)} " + (f"{parts}: " if parts else "")


def _quote_name(speaker: str) -> str:
    """Quote a name unless it is plain, so that it cannot pass for an id or a day."""
    return (
        speaker
        if not speaker or _PLAIN_NAME.fullmatch(speaker)
        else f'"{speaker.translate(_NEUTRALISED | _NEUTRALISED_IN_NAMES)}"'
    )


def _prepend_title(hit: PackedMemory, text: str, fence: str) -> str:
    """Put the title before the text, unless the text begins with it; neutralise brackets in it."""
    title = clean_text(hit.title, fence)[:MAX_TITLE]
    is_repeated = not title or clean_text(hit.text[: 4 * MAX_TITLE], fence).casefold().startswith(
        title.rstrip(" .…").casefold()
    )
    shown_title = title.translate(_NEUTRALISED)
    return text if is_repeated else f"{shown_title}: {text}" if text else shown_title


def _format_until(hit: PackedMemory) -> str:
    return (
        ""
        if hit.valid_until is None or hit.valid_until >= timestamps.NO_END
        else f" (until {format_day(hit.valid_until)})"
    )


def _format_untrusted(hit: PackedMemory) -> str:
    return " (untrusted: possible prompt injection)" if hit.untrusted else ""


def _format_stale(hit: PackedMemory) -> str:
    return "" if hit.stale is None else f" (stale: a source is {hit.stale})"


def format_day(at: int) -> str:
    day = _EPOCH + timedelta(microseconds=at)
    return f"{day.day} {day:%B} {day.year}"
