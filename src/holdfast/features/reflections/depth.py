"""What stands on what: nothing on itself, nothing lower than it must, nothing higher than its namespace allows.

Every way in which a link to a ground comes to hold, by reflection or by derivation, passes `stand`; every way in which
a memory that has a depth comes into a namespace passes `must_fit`. That a depth never falls `Transaction.change` keeps.
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
    """A memory that comes to lie higher."""

    id: str
    depth: int
    namespace: str
    state: str


How = Literal["made", "put back", "taken in"]
"""A link is made here, put back by an undo, or taken in from elsewhere."""


def stand(write: Transaction, before: Link | None, after: Link, how: How = "made") -> None:
    """Let a link hold that is about to be written: what it makes higher is raised, or the link is refused.

    What is taken in from elsewhere is not capped: it is as deep as it is, and only what is made of it here is refused.
    """
    if stands(after) and not held_before(before, after):
        _must_not_circle(write, after, how)
        target = write.get(MEMORY, after.target)
        assert target is not None
        if depth := depth_by(after, target.reflection_depth):
            lift(write, after.source, depth, capped=how != "taken in")


def _must_not_circle(write: Transaction, link: Link, how: How) -> None:
    """A memory stands on what was there before it: nothing reflects on itself, by whatever detour.

    That memories were derived from each other can be told from elsewhere, and makes none of them deeper: it is only
    not made here.
    """
    reflects = _circle(write, link)
    if reflects or (reflects is not None and how == "made"):
        raise CycleDetected(
            "The target already stands on the source: a memory neither reflects on itself nor is derived from itself.",
            source_id=link.source,
            target_id=link.target,
        )


def _circle(write: Transaction, link: Link) -> bool | None:
    """Whether there is a reflection in the circle that a link closes; None if it closes none."""
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
    """Raise if a memory is deeper than its namespace allows, or allows without somebody's consent."""
    if memory.reflection_depth > 0:
        rules = policies.resolved(session, memory.namespace)
        must_be_allowed(rules, memory.reflection_depth, memory.namespace)
        if needs_approval(rules, memory.reflection_depth):
            raise ApprovalRequired(
                f"In {memory.namespace!r} what is deeper than {rules.require_approval_above_depth} needs approval: "
                "make it with reflect, which asks for it."
            )


def must_be_allowed(rules: Rules, depth: int, namespace: str) -> None:
    if depth > rules.max_reflection_depth:
        allowed = f"at most {rules.max_reflection_depth}: reflect on what lies lower, or"
        raise DepthExceeded(
            f"This would have the depth {depth}; {namespace!r} allows "
            f"{allowed if rules.max_reflection_depth else 'no reflections:'} raise max_reflection_depth by policy_set.",
            depth=depth,
            max_reflection_depth=rules.max_reflection_depth,
            namespace=namespace,
        )


def needs_approval(rules: Rules, depth: int) -> bool:
    return rules.require_approval_above_depth is not None and depth > rules.require_approval_above_depth


def lift(write: Transaction, id: str, depth: int, *, capped: bool) -> None:
    """Raise a memory to a depth, and with it what stands on it: all of them, or none, refused before it is written."""
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
    """Raise what lies too low for what two stores said apart: here a memory rose, there another came to stand on it.

    In a circle that two stores closed together nobody has a depth, and nobody is raised.
    """
    asked = {"links": sorted(links), "grounds": sorted(grounds)}
    for (id,) in write.session.rows("reflection_low", **asked, now=write.now) if any(asked.values()) else ():
        ground = write.get(MEMORY, id)
        assert ground is not None
        bounds = {"depth": ground.reflection_depth, "now": write.now, "most": DEEPEST_TAKEN_IN + 1}
        rows = write.session.rows("reflection_higher", id=id, **bounds)
        if all(Raised(*row).depth <= DEEPEST_TAKEN_IN for row in rows):
            lift(write, id, ground.reflection_depth, capped=False)


def _must_rise(write: Transaction, id: str, one: Raised) -> None:
    """What stands on a memory may be others' own: of it nothing is told but that it is there."""
    rules = policies.resolved(write.session, one.namespace)
    if one.id == id:
        must_be_allowed(rules, one.depth, one.namespace)
        if needs_approval(rules, one.depth):
            raise ApprovalRequired("This depth needs approval: make the reflection with reflect, which asks for it.")
    elif one.depth > rules.max_reflection_depth or needs_approval(rules, one.depth):
        raise DepthExceeded("Something that stands on the source would lie deeper than its namespace allows.")
