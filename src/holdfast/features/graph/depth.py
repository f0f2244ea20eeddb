"""Depth rules for reflections: no cycles, depth = max(sources) + 1, capped by namespace policy.

Every write of a source link passes `check_link`; every move of a memory with a depth into a namespace passes
`check_depth`. `Transaction.change` guarantees that a depth never decreases.
"""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.graph.model import SOURCE_RELATIONS
from holdfast.features.namespaces.model import Rules
from holdfast.features.namespaces.resolve_rules import resolve_rules
from holdfast.kernel.errors import ApprovalRequired, CycleDetected, DepthExceeded, Invalid
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.validate import MAX_IMPORT_DEPTH
from holdfast.kernel.storage.port import Session
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


class RaisedMemory(NamedTuple):
    """A memory whose depth increases, and its new depth."""

    id: str
    depth: int
    namespace: str
    state: str


LinkOrigin = Literal["made", "put back", "taken in"]
"""Whether a link is created here, restored by an undo, or received from another store."""


def check_link(write: Transaction, before: Link | None, after: Link, origin: LinkOrigin = "made") -> None:
    """Check a link that is about to be written and raise the depths it affects; raise if it is not allowed.

    Links from other stores are not capped by policy: they are accepted at any depth, and only new links on them are
    refused.
    """
    if is_source_link(after) and not was_valid_before(before, after):
        _check_no_cycle(write, after, origin)
        target = write.get(MEMORY, after.target)
        assert target is not None
        if depth := depth_from_link(after, target.reflection_depth):
            raise_depth(write, after.source, depth, capped=origin != "taken in")


def _check_no_cycle(write: Transaction, link: Link, origin: LinkOrigin) -> None:
    """Raise if a link closes a cycle.

    A cycle with a reflection is always refused. A cycle of derivations changes no depth: it is accepted from other
    stores and from undo, and refused only for new links.
    """
    reflects = _find_cycle(write, link)
    if reflects or (reflects is not None and origin == "made"):
        raise CycleDetected(
            "This link would close a cycle: the target is already derived from the source.",
            source_id=link.source,
            target_id=link.target,
        )


def _find_cycle(write: Transaction, link: Link) -> bool | None:
    """Whether the cycle that a link closes contains a reflection; None if it closes no cycle."""
    found = write.session.row(
        "reflection_cycle",
        source=link.source,
        target=link.target,
        reflects=int(link.relation == "reflects_on"),
        since=link.valid_from,
        until=end_or_open(link),
        now=write.now,
    )
    assert found is not None
    return None if found[0] is None else bool(found[0])


def check_depth(session: Session, memory: Memory) -> None:
    """Raise if a memory is deeper than its namespace allows, or than it allows without approval."""
    if memory.reflection_depth > 0:
        rules = resolve_rules(session, memory.namespace)
        check_max_depth(rules, memory.reflection_depth, memory.namespace)
        if needs_approval(rules, memory.reflection_depth):
            raise ApprovalRequired(
                f"In {memory.namespace!r} a depth above {rules.require_approval_above_depth} requires approval: "
                "create it with reflect, which requests approval."
            )


def check_max_depth(rules: Rules, depth: int, namespace: str) -> None:
    if depth > rules.max_reflection_depth:
        allowed = f"at most {rules.max_reflection_depth}: use shallower sources, or"
        raise DepthExceeded(
            f"The depth would be {depth}; {namespace!r} allows "
            f"{allowed if rules.max_reflection_depth else 'no reflections:'} "
            "raise max_reflection_depth with policy_set.",
            depth=depth,
            max_reflection_depth=rules.max_reflection_depth,
            namespace=namespace,
        )


def needs_approval(rules: Rules, depth: int) -> bool:
    return rules.require_approval_above_depth is not None and depth > rules.require_approval_above_depth


def raise_depth(write: Transaction, id: str, depth: int, *, capped: bool) -> None:
    """Raise the depth of a memory and of its dependents: all or none. Raises before the first write."""
    rows = write.session.rows("reflection_raised", id=id, depth=depth, now=write.now, most=MAX_IMPORT_DEPTH + 1)
    raised = [RaisedMemory(*row) for row in rows]
    for one in raised:
        if one.depth > MAX_IMPORT_DEPTH:
            raise Invalid(f"reflection_depth: at most {MAX_IMPORT_DEPTH}", fields=["reflection_depth"])
        if capped and one.state != "deleted":
            _check_raised_depth(write, id, one)
    for one in raised:
        memory = write.get(MEMORY, one.id)
        assert memory is not None
        higher = with_origin(replace(memory, reflection_depth=one.depth), memory.reflection_depth)
        write.change(MEMORY, memory, higher, "deepen")


def raise_synced_depths(write: Transaction, links: Iterable[str], sources: Iterable[str]) -> None:
    """Raise depths that became too low by concurrent changes: one store raised a memory, another linked to it.

    Memories in a cycle that two stores closed together are not raised.
    """
    params = {"links": sorted(links), "grounds": sorted(sources)}
    for (id,) in write.session.rows("reflection_too_low", **params, now=write.now) if any(params.values()) else ():
        source = write.get(MEMORY, id)
        assert source is not None
        bounds = {"depth": source.reflection_depth, "now": write.now, "most": MAX_IMPORT_DEPTH + 1}
        rows = write.session.rows("reflection_raised", id=id, **bounds)
        if all(RaisedMemory(*row).depth <= MAX_IMPORT_DEPTH for row in rows):
            raise_depth(write, id, source.reflection_depth, capped=False)


def _check_raised_depth(write: Transaction, id: str, one: RaisedMemory) -> None:
    """Raise if policy forbids the new depth. The error does not identify dependents: they may be private."""
    rules = resolve_rules(write.session, one.namespace)
    if one.id == id:
        check_max_depth(rules, one.depth, one.namespace)
        if needs_approval(rules, one.depth):
            raise ApprovalRequired(
                "This depth requires approval: create the reflection with reflect, which requests approval."
            )
    elif one.depth > rules.max_reflection_depth or needs_approval(rules, one.depth):
        raise DepthExceeded("A dependent of the source would become deeper than its namespace allows.")
