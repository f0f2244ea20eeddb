"""Pure rules of reflections: depth, and the origin recorded with it."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.reflections.invalidation import SOURCE_RELATIONS
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.validate import MAX_IMPORT_DEPTH
from holdfast.kernel.timestamps import NO_END

ORIGIN_KEY = "reflection_origin"
"""Key in `Memory.extra` for the depth at the origin; exports preserve it."""


class Origin(Struct, frozen=True):
    """The depth of a reflection in the store that created it."""

    peer_origin: str | None
    original_depth: int


def depth_above(depths: Iterable[int]) -> int:
    """Compute the depth of a reflection from the depths of its sources."""
    return max(depths) + 1


def keep_depth(before: Memory, after: Memory) -> Memory:
    """Keep the greatest depth that a memory ever had: no edit, undo or import lowers it."""
    if after.reflection_depth >= before.reflection_depth:
        return after
    recorded = {ORIGIN_KEY: before.extra[ORIGIN_KEY]} if ORIGIN_KEY in before.extra and after.state != "deleted" else {}
    return replace(after, reflection_depth=before.reflection_depth, extra={**after.extra, **recorded})


def with_origin(memory: Memory, original_depth: int) -> Memory:
    """Record the depth at the origin, unless already recorded."""
    if ORIGIN_KEY in memory.extra:
        return memory
    recorded = {"peer_origin": memory.origin, "original_depth": original_depth}
    return replace(memory, extra={**memory.extra, ORIGIN_KEY: recorded})


def read_origin(memory: Memory) -> Origin | None:
    """Read the recorded origin; None if missing or malformed."""
    return _parse_origin(memory.extra.get(ORIGIN_KEY)) or _parse_origin(memory.metadata.get(ORIGIN_KEY))


def _parse_origin(value: Any) -> Origin | None:
    if not isinstance(value, dict):
        return None
    peer, depth = value.get("peer_origin"), value.get("original_depth")
    if not isinstance(depth, int) or isinstance(depth, bool) or not 0 <= depth <= MAX_IMPORT_DEPTH:
        return None
    return Origin(peer if isinstance(peer, str) else None, depth)


def depth_from_link(link: Link, depth: int) -> int:
    """The minimum depth of a link's source, given its target's: a reflection is one deeper, a derivation as deep."""
    return depth_above([depth]) if link.relation == "reflects_on" else depth


def is_source_link(link: Link) -> bool:
    """Whether a link is live and points to a source."""
    return link.relation in SOURCE_RELATIONS and link.state == "live"


def was_valid_before(before: Link | None, after: Link) -> bool:
    """Whether the old validity interval of a link covers the new one."""
    return (
        before is not None
        and is_source_link(before)
        and before.valid_from <= after.valid_from
        and end_or_open(before) >= end_or_open(after)
    )


def end_or_open(link: Link) -> int:
    return NO_END if link.valid_until is None else link.valid_until
