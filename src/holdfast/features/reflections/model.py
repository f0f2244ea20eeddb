"""Pure rules of reflections: depth, and the origin recorded with it."""

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
"""Key in `Memory.extra` for the depth at the origin; exports preserve it."""


class Origin(Struct, frozen=True):
    """The depth of a reflection in the store that created it."""

    peer_origin: str | None
    original_depth: int


def depth_on(depths: Iterable[int]) -> int:
    """Compute the depth of a reflection from the depths of its sources."""
    return max(depths) + 1


def never_lower(before: Memory, after: Memory) -> Memory:
    """Keep the greatest depth that a memory ever had: no edit, undo or import lowers it."""
    if after.reflection_depth >= before.reflection_depth:
        return after
    recorded = {ORIGIN: before.extra[ORIGIN]} if ORIGIN in before.extra and after.state != "deleted" else {}
    return replace(after, reflection_depth=before.reflection_depth, extra={**after.extra, **recorded})


def with_origin(memory: Memory, original_depth: int) -> Memory:
    """Record the depth at the origin, unless already recorded."""
    if ORIGIN in memory.extra:
        return memory
    recorded = {"peer_origin": memory.origin, "original_depth": original_depth}
    return replace(memory, extra={**memory.extra, ORIGIN: recorded})


def origin_of(memory: Memory) -> Origin | None:
    """Read the recorded origin; None if missing or malformed."""
    return _origin(memory.extra.get(ORIGIN)) or _origin(memory.metadata.get(ORIGIN))


def _origin(told: Any) -> Origin | None:
    if not isinstance(told, dict):
        return None
    peer, depth = told.get("peer_origin"), told.get("original_depth")
    if not isinstance(depth, int) or isinstance(depth, bool) or not 0 <= depth <= DEEPEST_TAKEN_IN:
        return None
    return Origin(peer if isinstance(peer, str) else None, depth)


def depth_by(link: Link, depth: int) -> int:
    """The minimum depth of a link's source, given its target's: a reflection is one deeper, a derivation as deep."""
    return depth_on([depth]) if link.relation == "reflects_on" else depth


def stands(link: Link) -> bool:
    """Whether a link is live and points to a source."""
    return link.relation in GROUNDS and link.state == "live"


def held_before(before: Link | None, after: Link) -> bool:
    """Whether the old validity interval of a link covers the new one."""
    return before is not None and stands(before) and before.valid_from <= after.valid_from and end(before) >= end(after)


def end(link: Link) -> int:
    return OPEN_END if link.valid_until is None else link.valid_until
