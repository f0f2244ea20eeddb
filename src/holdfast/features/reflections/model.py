"""Conclusions that stand on other memories: how deep they are, and where they were first made."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.reflections.invalidation import GROUNDS
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.validate import DEEPEST_TAKEN_IN
from holdfast.kernel.timestamps import OPEN_END

ORIGIN = "reflection_origin"
"""Where a memory says beside its own fields what it was at its origin: kept and written again by an export."""


class Origin(Struct, frozen=True):
    """How deep a reflection was where it was made."""

    peer_origin: str | None
    original_depth: int


def depth_on(depths: Iterable[int]) -> int:
    """How deep a reflection on memories of such depths is."""
    return max(depths) + 1


def never_lower(before: Memory, after: Memory) -> Memory:
    """A depth is the greatest that a memory ever had: neither an edit nor an undo nor an import makes it shallow."""
    if after.reflection_depth >= before.reflection_depth:
        return after
    told = {ORIGIN: before.extra[ORIGIN]} if ORIGIN in before.extra and after.state != "deleted" else {}
    return replace(after, reflection_depth=before.reflection_depth, extra={**after.extra, **told})


def with_origin(memory: Memory, original_depth: int) -> Memory:
    """The memory with its depth at its origin on it, unless that was said before."""
    if ORIGIN in memory.extra:
        return memory
    told = {"peer_origin": memory.origin, "original_depth": original_depth}
    return replace(memory, extra={**memory.extra, ORIGIN: told})


def origin_of(memory: Memory) -> Origin | None:
    """What a memory says of its origin, if it can be read."""
    return _origin(memory.extra.get(ORIGIN)) or _origin(memory.metadata.get(ORIGIN))


def _origin(told: Any) -> Origin | None:
    if not isinstance(told, dict):
        return None
    peer, depth = told.get("peer_origin"), told.get("original_depth")
    if not isinstance(depth, int) or isinstance(depth, bool) or not 0 <= depth <= DEEPEST_TAKEN_IN:
        return None
    return Origin(peer if isinstance(peer, str) else None, depth)


def depth_by(link: Link, depth: int) -> int:
    """How deep a link makes its source, if its target is of such a depth: what is derived is as deep as its ground."""
    return depth_on([depth]) if link.relation == "reflects_on" else depth


def stands(link: Link) -> bool:
    """Whether a link says what a memory stands on."""
    return link.relation in GROUNDS and link.state == "live"


def held_before(before: Link | None, after: Link) -> bool:
    """Whether a link held before whenever it holds now."""
    return before is not None and stands(before) and before.valid_from <= after.valid_from and end(before) >= end(after)


def end(link: Link) -> int:
    return OPEN_END if link.valid_until is None else link.valid_until
