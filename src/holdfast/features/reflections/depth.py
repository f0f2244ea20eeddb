"""Depth rules for reflections: no cycles, depth = max(sources) + 1, capped by namespace policy.

Every write of a source link passes `stand`; every move of a memory with a depth into a namespace passes `must_fit`.
`Transaction.change` guarantees that a depth never decreases.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from msgspec.structs import replace

from holdfast.features.namespaces import policy_store as policies
from holdfast.features.namespaces.model import Rules
from holdfast.features.reflections.model import depth_by, end, held_before, stands, with_origin
from holdfast.kernel.errors import ApprovalRequired, CycleDetected, DepthExceeded, Invalid
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.link import Link
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.validate import DEEPEST_TAKEN_IN
from holdfast.kernel.storage.port import Session


class Raised(NamedTuple):
    """A memory whose depth increases, and its new depth."""

    id: str
    depth: int
    namespace: str
    state: str


How = Literal["made", "put back", "taken in"]
"""Whether a link is created here, restored by an undo, or received from another store."""


def stand(write: Transaction, before: Link | None, after: Link, how: How = "made") -> None:
    """Check a link that is about to be written and raise the depths it affects; raise if it is not allowed.

    Links from other stores are not capped by policy: they are accepted at any depth, and only new links on them are
    refused.
    """
    if stands(after) and not held_before(before, after):
        _must_not_circle(write, after, how)
        target = write.get(MEMORY, after.target)
        assert target is not None
        if depth := depth_by(after, target.reflection_depth):
            lift(write, after.source, depth, capped=how != "taken in")


def _must_not_circle(write: Transaction, link: Link, how: How) -> None:
    """Raise if a link closes a cycle.

    A cycle with a reflection is always refused. A cycle of derivations changes no depth: it is accepted from other
    stores and from undo, and refused only for new links.
    """
    reflects = _circle(write, link)
    if reflects or (reflects is not None and how == "made"):
        raise CycleDetected(
            "This link would close a cycle: the target is already derived from the source.",
            source_id=link.source,
            target_id=link.target,
        )


def _circle(write: Transaction, link: Link) -> bool | None:
    """Whether the cycle that a link closes contains a reflection; None if it closes no cycle."""
    found = write.session.row(
        "reflection_circle",
        source=link.source,
        target=link.target,
        reflects=int(link.relation == "reflects_on"),
        since=link.valid_from,
        until=end(link),
        now=write.now,
    )
    assert found is not None
    return None if found[0] is None else bool(found[0])


def must_fit(session: Session, memory: Memory) -> None:
    """Raise if a memory is deeper than its namespace allows, or than it allows without approval."""
    if memory.reflection_depth > 0:
        rules = policies.resolved(session, memory.namespace)
        must_be_allowed(rules, memory.reflection_depth, memory.namespace)
        if needs_approval(rules, memory.reflection_depth):
            raise ApprovalRequired(
                f"In {memory.namespace!r} a depth above {rules.require_approval_above_depth} requires approval: "
                "create it with reflect, which requests approval."
            )


def must_be_allowed(rules: Rules, depth: int, namespace: str) -> None:
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


def lift(write: Transaction, id: str, depth: int, *, capped: bool) -> None:
    """Raise the depth of a memory and of its dependents: all or none. Raises before the first write."""
    rows = write.session.rows("reflection_higher", id=id, depth=depth, now=write.now, most=DEEPEST_TAKEN_IN + 1)
    raised = [Raised(*row) for row in rows]
    for one in raised:
        if one.depth > DEEPEST_TAKEN_IN:
            raise Invalid(f"reflection_depth: at most {DEEPEST_TAKEN_IN}", fields=["reflection_depth"])
        if capped and one.state != "deleted":
            _must_rise(write, id, one)
    for one in raised:
        memory = write.get(MEMORY, one.id)
        assert memory is not None
        higher = with_origin(replace(memory, reflection_depth=one.depth), memory.reflection_depth)
        write.change(MEMORY, memory, higher, "deepen")


def raise_taken(write: Transaction, links: Iterable[str], grounds: Iterable[str]) -> None:
    """Raise depths that became too low by concurrent changes: one store raised a memory, another linked to it.

    Memories in a cycle that two stores closed together are not raised.
    """
    params = {"links": sorted(links), "grounds": sorted(grounds)}
    for (id,) in write.session.rows("reflection_low", **params, now=write.now) if any(params.values()) else ():
        source = write.get(MEMORY, id)
        assert source is not None
        bounds = {"depth": source.reflection_depth, "now": write.now, "most": DEEPEST_TAKEN_IN + 1}
        rows = write.session.rows("reflection_higher", id=id, **bounds)
        if all(Raised(*row).depth <= DEEPEST_TAKEN_IN for row in rows):
            lift(write, id, source.reflection_depth, capped=False)


def _must_rise(write: Transaction, id: str, one: Raised) -> None:
    """Raise if policy forbids the new depth. The error does not identify dependents: they may be private."""
    rules = policies.resolved(write.session, one.namespace)
    if one.id == id:
        must_be_allowed(rules, one.depth, one.namespace)
        if needs_approval(rules, one.depth):
            raise ApprovalRequired(
                "This depth requires approval: create the reflection with reflect, which requests approval."
            )
    elif one.depth > rules.max_reflection_depth or needs_approval(rules, one.depth):
        raise DepthExceeded("A dependent of the source would become deeper than its namespace allows.")
