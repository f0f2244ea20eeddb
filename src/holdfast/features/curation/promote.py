"""Promote a memory to a longer-lived tier or to a parent namespace."""

from msgspec.structs import replace

from holdfast.features.graph.depth import check_depth
from holdfast.features.graph.service import add_link
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.read_memories import require_write_access
from holdfast.features.memories.store_memory import filter_memory_secrets, require_free_title
from holdfast.features.memories.update_memory import raise_tier, write_update
from holdfast.kernel.context import Context, is_under
from holdfast.kernel.errors import Invalid
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Memory, Tier


def promote_tier(ctx: Context, id: str, tier: Tier) -> Memory:
    """Move a memory to a longer-lived tier."""
    with ctx.transaction() as write:
        memory = memories.resolve(write.session, ctx.caller, id, write.now)
        require_write_access(ctx, write, memory)
        return write_update(ctx, write, memory, replace(memory, **raise_tier(ctx, memory, tier, write.now)), "promote")


def promote_to_namespace(ctx: Context, id: str, namespace: str) -> tuple[Memory, Memory]:
    """Copy a memory to a parent namespace and link the copy as derived from it. The original stays."""
    namespace = validate.namespace(namespace, "to_namespace")
    validate.require_storable(namespace, "to_namespace")
    with ctx.transaction() as write:
        memory = memories.resolve(write.session, ctx.caller, id, write.now)
        require_write_access(ctx, write, memory)
        if namespace == memory.namespace or not is_under(memory.namespace, namespace):
            raise Invalid(f"to_namespace: must be a parent of {memory.namespace!r}", fields=["to_namespace"])
        fresh = replace(
            memory,
            id=ctx.new_id(),
            namespace=namespace,
            agent=ctx.caller.agent,
            created_at=write.now,
            updated_at=write.now,
            origin=write.origin,
            version=1,
        )
        fresh = filter_memory_secrets(write.session, fresh)
        require_free_title(ctx, write, fresh)
        check_depth(write.session, fresh)
        copy = write.add(MEMORY, fresh, "promote")
        add_link(ctx, write, copy.id, memory.id, "derived_from")
        return memory, copy
