"""Tampering with a store directly, and a store worth tampering with."""

import json
import re
from typing import Any

from holdfast import Holdfast
from holdfast.features.access.model import AGENT, Agent
from holdfast.features.graph.model import ALIAS, Alias
from holdfast.features.memories.grant import GRANT, Grant
from holdfast.features.namespaces.model import POLICY, STANDARD, Policy, Standard
from holdfast.kernel.journal.kinds import LINK
from holdfast.kernel.records.link import Link

KEPT_OUTSIDE_THE_JOURNAL = {("memory", "rowno"), ("journal_head", "identity")}
"""Columns that `verify` does not check: row numbers belong to the engine (`doctor`), file identity to the machine."""

JOURNALLED = ("memory", "memory_tag", "link", "alias", "memory_grant", "standard", "agent", "invalidation", "policy")


def live_through_everything(hold: Holdfast) -> None:
    """Create journal entries of every kind."""
    first, second, third = (
        hold.store(title=f"Memory {n}", content=f"It says {n}.", tags=["x", "y"], metadata={"n": n}).id
        for n in range(3)
    )
    hold.update(id=first, content="It says more.", tags=["y", "z"], priority=9)
    hold.update(id=first, tier="long")
    hold.store(title="Memory 1", content="It says something else.", metadata={"more": True})
    hold.bulk_store(memories=[{"title": f"Batch {n}", "content": "One of a batch."} for n in range(3)])
    hold.delete(id=third)
    with hold.ctx.transaction() as write:
        now, origin = write.now, write.origin
        write.add(LINK, Link("l", first, second, "related_to", now, None, "a", now, now, origin, 1), "link")
        write.add(ALIAS, Alias("a", first, "Name", "name", now, now, origin, 1), "alias")
        write.add(GRANT, Grant("g", first, "b", "read", "a", now, now, origin, 1), "grant")
        write.add(STANDARD, Standard("ns", first, None, now, now, origin, 1), "standard")
        write.add(AGENT, Agent("ns", "human", ("x",), now, now, origin, 1), "register")
        write.add(POLICY, Policy("ns", {"max_reflection_depth": 2}, "a", now, now, origin, 1), "policy")
    purged = hold.store(title="Soon purged", content="A secret.").id
    hold.forget(namespace="global", pattern="secret")
    hold.archive_purge(ids=[purged])
    hold.undo(change=4)
    stands = hold.store(title="Stands on it", content="It follows.").id
    hold.link(stands, second, relation="derived_from")
    hold.archive(ids=[second])
    (told,) = hold.invalidations().invalidations
    hold.invalidations_dismiss(ids=[told.id], reason="it holds")


def smallest_changes(value: Any) -> list[Any]:
    """Return minimal changes of a value, and null."""
    match value:
        case None:
            return ["x", 1, b"x"]
        case int() | float():
            return [value + 1, value - 1, 0 if value else 7, None]
        case bytes():
            return (
                [bytes([value[0] ^ 1]) + value[1:], value[:-1], counted_on(value), b"", None] if value else [b"x", None]
            )
        case _:
            return (
                [value[:-1] + chr(ord(value[-1]) ^ 1), value + " ", counted_on(value), "", None]
                if value
                else ["x", None]
            )


def counted_on(value: Any) -> Any:
    """Change the last digit: JSON stays valid."""
    text = value if isinstance(value, str) else value.decode("latin-1")
    changed = re.sub(r"\d(?=\D*$)", lambda digit: str((int(digit[0]) + 1) % 10), text)
    return changed if isinstance(value, str) else changed.encode("latin-1")


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, or JSON that differs only in blanks."""
    try:
        return one == other or (isinstance(other, str | bytes) and json.loads(one) == json.loads(other))
    except (ValueError, TypeError):
        return False
