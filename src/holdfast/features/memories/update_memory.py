"""Update a memory: optimistic locking, tier and title rules."""

from typing import Any

from msgspec.structs import replace

from holdfast.features.embeddings import passage_vectors
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories import store_memory
from holdfast.features.memories.read_memories import check_scope_change, require_write_access
from holdfast.features.memories.store_memory import check_place, require_free_title
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Invalid, VersionConflict
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import TIERS, Memory, Tier
from holdfast.kernel.vector import Embedding


def update_memory(
    ctx: Context,
    id: str,
    patch: dict[str, Any],
    expected_version: int | None = None,
    embedding: Embedding | None = None,
) -> Memory:
    """Apply a patch to a live memory; other fields stay. `embedding` belongs to the text after the patch."""
    with ctx.transaction() as write:
        memory = memories.resolve(write.session, ctx.caller, id, write.now)
        require_write_access(ctx, write, memory)
        check_version(memory, expected_version)
        patch, _ = store_memory.filter_secrets(write.session, patch.get("namespace", memory.namespace), patch)
        changed = apply_patch(ctx, memory, patch, write.now)
        check_scope_change(ctx, write, memory, changed)
        if embedding is not None:
            passage_vectors.check_model_dimension(write.session, embedding)
        changed = write_update(ctx, write, memory, changed, "update")
        if embedding is not None:
            passage_vectors.put_embedding(write.session, changed, embedding, write.now)
        return changed


def check_version(memory: Memory, expected: int | None) -> None:
    if expected is not None and memory.version != expected:
        raise VersionConflict(
            f"The memory {memory.id} is at version {memory.version}, not {expected}: read it again and retry.",
            id=memory.id,
            expected_version=expected,
            current_version=memory.version,
            status="conflict",
        )


def apply_patch(ctx: Context, memory: Memory, patch: dict[str, Any], now: int) -> Memory:
    """Apply a patch and validate the result."""
    clean: dict[str, Any] = dict(patch)
    for name, normal in (("title", validate.title), ("content", validate.content), ("namespace", validate.namespace)):
        if name in clean:
            clean[name] = normal(clean[name])
    if "namespace" in clean:
        ctx.caller.require_access(clean["namespace"])
    if "tags" in clean:
        clean["tags"] = validate.tags(clean["tags"])
    if "citations" in clean:
        clean["citations"] = tuple(clean["citations"])
    if "metadata" in clean:
        if scope := validate.declared_scope(clean["metadata"]):
            clean.setdefault("scope", scope)
        clean["metadata"] = validate.caller_metadata(clean["metadata"], memory.metadata)
    if "tier" in clean:
        clean |= raise_tier(ctx, memory, clean["tier"], now) | (
            {"expires_at": clean["expires_at"]} if "expires_at" in clean else {}
        )
    if clean.get("expires_at") is not None and clean["expires_at"] <= now and clean["expires_at"] != memory.expires_at:
        raise Invalid("expires_at: must not be in the past", fields=["expires_at"])
    return validate.check_memory(replace(memory, **clean))


def raise_tier(ctx: Context, memory: Memory, tier: Tier, now: int) -> dict[str, Any]:
    """Build the fields for a longer-lived tier: the expiry follows the tier and never gets earlier."""
    if TIERS.index(tier) < TIERS.index(memory.tier):
        raise Invalid(f"tier: can only be raised; the memory is already {memory.tier}", fields=["tier"])
    if tier == memory.tier != "long":
        return {}
    end = ctx.lifetimes.expiry(tier, now)
    return {"tier": tier, "expires_at": None if end is None else max(end, memory.expires_at or 0)}


def write_update(ctx: Context, write: Transaction, before: Memory, after: Memory, op: str) -> Memory:
    """Write a changed memory; a new title or namespace must be free."""
    if (before.namespace, before.title) != (after.namespace, after.title):
        require_free_title(ctx, write, after)
    if before.namespace != after.namespace:
        check_place(write.session, after)
    return write.change(MEMORY, before, after, op)
