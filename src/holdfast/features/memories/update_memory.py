"""Update a memory: optimistic locking, tier and title rules."""

from typing import Any

from msgspec.structs import replace

from holdfast.features.embeddings import store as vectors
from holdfast.features.memories import dedup as hygiene
from holdfast.features.memories import store as memories
from holdfast.features.memories.store_memory import must_agree, must_be_free, must_change
from holdfast.features.reflections.depth import must_fit
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Invalid, VersionConflict
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records import validate as door
from holdfast.kernel.records.memory import TIERS, Memory, Tier
from holdfast.kernel.vector import Embedding


def amend(
    hold: Hold, id: str, patch: dict[str, Any], expected_version: int | None = None, embedding: Embedding | None = None
) -> Memory:
    """Apply a patch to a live memory; other fields stay. `embedding` belongs to the text after the patch."""
    with hold.writing() as write:
        memory = memories.resolve(write.session, hold.caller, id, write.now)
        must_change(hold, write, memory)
        must_be_version(memory, expected_version)
        patch, _ = hygiene.permitted(write.session, patch.get("namespace", memory.namespace), patch)
        changed = patched(hold, memory, patch, write.now)
        must_agree(hold, write, memory, changed)
        if embedding is not None:
            vectors.check(write.session, embedding)
        changed = keep(hold, write, memory, changed, "update")
        if embedding is not None:
            vectors.put(write.session, changed, embedding, write.now)
        return changed


def must_be_version(memory: Memory, expected: int | None) -> None:
    if expected is not None and memory.version != expected:
        raise VersionConflict(
            f"The memory {memory.id} is at version {memory.version}, not {expected}: read it again and retry.",
            id=memory.id,
            expected_version=expected,
            current_version=memory.version,
            status="conflict",
        )


def patched(hold: Hold, memory: Memory, patch: dict[str, Any], now: int) -> Memory:
    """Apply a patch and validate the result."""
    clean: dict[str, Any] = dict(patch)
    for name, normal in (("title", door.title), ("content", door.content), ("namespace", door.namespace)):
        if name in clean:
            clean[name] = normal(clean[name])
    if "namespace" in clean:
        hold.caller.must_reach(clean["namespace"])
    if "tags" in clean:
        clean["tags"] = door.tags(clean["tags"])
    if "citations" in clean:
        clean["citations"] = tuple(clean["citations"])
    if "metadata" in clean:
        if scope := door.declared_scope(clean["metadata"]):
            clean.setdefault("scope", scope)
        clean["metadata"] = door.said_metadata(clean["metadata"], memory.metadata)
    if "tier" in clean:
        clean |= raised(hold, memory, clean["tier"], now) | (
            {"expires_at": clean["expires_at"]} if "expires_at" in clean else {}
        )
    if clean.get("expires_at") is not None and clean["expires_at"] <= now and clean["expires_at"] != memory.expires_at:
        raise Invalid("expires_at: must not be in the past", fields=["expires_at"])
    return door.check(replace(memory, **clean))


def raised(hold: Hold, memory: Memory, tier: Tier, now: int) -> dict[str, Any]:
    """Build the fields for a longer-lived tier: the expiry follows the tier and never gets earlier."""
    if TIERS.index(tier) < TIERS.index(memory.tier):
        raise Invalid(f"tier: can only be raised; the memory is already {memory.tier}", fields=["tier"])
    if tier == memory.tier != "long":
        return {}
    end = hold.lifetimes.expiry(tier, now)
    return {"tier": tier, "expires_at": None if end is None else max(end, memory.expires_at or 0)}


def keep(hold: Hold, write: Transaction, before: Memory, after: Memory, op: str) -> Memory:
    """Write a changed memory; a new title or namespace must be free."""
    if (before.namespace, before.title) != (after.namespace, after.title):
        must_be_free(hold, write, after)
    if before.namespace != after.namespace:
        must_fit(write.session, after)
    return write.change(MEMORY, before, after, op)
