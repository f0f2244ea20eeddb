"""Promote a memory to a longer-lived tier or to a parent namespace."""

from msgspec.structs import replace

from holdfast.features.graph.service import tie
from holdfast.features.memories import store as memories
from holdfast.features.memories.dedup import taken_in
from holdfast.features.memories.store_memory import must_be_free, must_change
from holdfast.features.memories.update_memory import keep, raised
from holdfast.features.reflections.depth import must_fit
from holdfast.kernel.caller import under
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.memory import Memory, Tier


def promote(hold: Hold, id: str, tier: Tier) -> Memory:
    """Move a memory to a longer-lived tier."""
    with hold.writing() as write:
        memory = memories.resolve(write.session, hold.caller, id, write.now)
        must_change(hold, write, memory)
        return keep(hold, write, memory, replace(memory, **raised(hold, memory, tier, write.now)), "promote")


def promote_to(hold: Hold, id: str, namespace: str) -> tuple[Memory, Memory]:
    """Copy a memory to a parent namespace and link the copy as derived from it. The original stays."""
    namespace = door.namespace(namespace, "to_namespace")
    door.must_be_kept(namespace, "to_namespace")
    with hold.writing() as write:
        memory = memories.resolve(write.session, hold.caller, id, write.now)
        must_change(hold, write, memory)
        if namespace == memory.namespace or not under(memory.namespace, namespace):
            raise Invalid(f"to_namespace: must be a parent of {memory.namespace!r}", fields=["to_namespace"])
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
