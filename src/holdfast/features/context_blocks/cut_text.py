"""Cut a text to the passages that matched, within a number of tokens."""

from collections.abc import Sequence

from holdfast.features.context_blocks.fence_text import clean_text
from holdfast.features.context_blocks.packed_memory import PackedMemory
from holdfast.kernel.text import token_count


def cut_text(hit: PackedMemory, whole: str, room: int, fence: str, *, wide: bool) -> str:
    """Cut a text to its best passages, with their surroundings if `wide`; an ellipsis marks what is left out."""
    if token_count.count_tokens(whole, room) <= room:
        return whole
    shown: list[tuple[int, int]] = []
    for start, end in hit.spans:
        more = _merge_spans([*shown, (max(0, start), min(len(hit.text), end))])
        if token_count.count_tokens(_join_spans(hit.text, more, fence), room) > room:
            break
        shown = more
    if shown and not wide:
        return _join_spans(hit.text, shown, fence)
    first = max(0, min(hit.spans[0][0], len(hit.text))) if hit.spans else 0
    return _widen_to_fit(hit.text, shown or [(first, first)], room, fence)


def _widen_to_fit(text: str, spans: list[tuple[int, int]], room: int, fence: str) -> str:
    """Widen spans as far as fits, to within a few words."""
    low, high = 0, min(len(text), 16 * room)
    while high - low > 8 + low // 32:
        middle = (low + high + 1) // 2
        if token_count.count_tokens(_join_spans(text, _widen_spans(text, spans, middle), fence), room) <= room:
            low = middle
        else:
            high = middle - 1
    return _join_spans(text, _widen_spans(text, spans, low), fence)


def _widen_spans(text: str, spans: list[tuple[int, int]], by: int) -> list[tuple[int, int]]:
    """Widen spans by some characters on both sides, to a blank if there is one."""
    found = []
    for start, end in spans:
        left, right = max(0, start - by), min(len(text), end + by)
        before = text.find(" ", left, start) + 1 if left else 0
        after = text.rfind(" ", end, right) if right < len(text) else right
        found.append((before or left, right if after < 0 else after))
    return _merge_spans(found)


def _merge_spans(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort spans and merge those that touch."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def _join_spans(text: str, spans: Sequence[tuple[int, int]], fence: str) -> str:
    before = "… " if spans[0][0] > 0 else ""
    after = " …" if spans[-1][1] < len(text) else ""
    return before + " … ".join(clean_text(text[start:end], fence) for start, end in spans) + after
