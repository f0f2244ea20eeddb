"""Promote a memory: to a tier in which it lives longer, or to a namespace above its own."""

from msgspec.structs import replace

from ..domain import admit as door
from ..domain.caller import under
from ..domain.errors import Invalid
from ..domain.memory import Memory, Tier
from ..storage import memories
from ..storage.records import MEMORY
from .amend import keep, raised
from .hold import Hold
from .hygiene import taken_in
from .relate import tie
from .remember import must_be_free, must_change
from .standing import must_fit


def promote(hold: Hold, id: str, tier: Tier) -> Memory:
    """Raise a memory to a tier in which it lives longer."""
    with hold.writing() as write:
        memory = memories.resolve(write.session, hold.caller, id, write.now)
        must_change(hold, write, memory)
        return keep(hold, write, memory, replace(memory, **raised(hold, memory, tier, write.now)), "promote")


def promote_to(hold: Hold, id: str, namespace: str) -> tuple[Memory, Memory]:
    """Make a memory hold in a namespace above its own: a copy there, derived from it. The memory itself stays."""
    namespace = door.namespace(namespace, "to_namespace")
    door.must_be_kept(namespace, "to_namespace")
    with hold.writing() as write:
        memory = memories.resolve(write.session, hold.caller, id, write.now)
        must_change(hold, write, memory)
        if namespace == memory.namespace or not under(memory.namespace, namespace):
            raise Invalid(f"to_namespace: must lie above {memory.namespace!r}", fields=["to_namespace"])
        fresh = replace(
            memory,
            id=hold.new_id(),
            namespace=namespace,
            agent=hold.caller.agent,
            created_at=write.now,
            updated_at=write.now,
            origin=write.origin,
            version=1,
        )
        fresh = taken_in(write.session, fresh)
        must_be_free(hold, write, fresh)
        must_fit(write.session, fresh)
        copy = write.add(MEMORY, fresh, "promote")
        tie(hold, write, copy.id, memory.id, "derived_from")
        return memory, copy
