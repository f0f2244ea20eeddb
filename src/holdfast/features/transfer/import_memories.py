"""Import memories: set the owner, resolve title conflicts, and merge or replace older states."""

from typing import Any, Literal

from msgspec.structs import replace

from holdfast.features.graph.depth import keep_depth, raise_depth
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories import store_memory
from holdfast.features.memories.read_memories import check_scope_change
from holdfast.features.memories.store_memory import (
    MAX_VERSIONS,
    find_title_holder,
    number_title,
    require_free_title,
    store_draft,
)
from holdfast.features.reflections.propagate import ChangeSet
from holdfast.features.transfer import record_rows
from holdfast.features.transfer.import_state import ImportState, Outcome
from holdfast.kernel.context import RESERVED_AGENTS, validate_agent_id
from holdfast.kernel.errors import Conflict, Forbidden, TitleTaken
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.records import validate
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.records.validate import Draft, lives_until


def import_memory(state: ImportState, raw: Any, memory_state: Literal["live", "archived"]) -> Outcome:
    incoming, used = _parse_memory(state, raw, memory_state)
    stored = state.write.get(MEMORY, incoming.id)
    return _add_memory(state, incoming, used) if stored is None else _update_memory(state, stored, incoming, used)


def read_memory(state: ImportState, raw: Any) -> Memory:
    """Build the memory that importing a new row would store."""
    return _set_owner(state, _parse_memory(state, raw, "live")[0])


def _parse_memory(
    state: ImportState, raw: Any, memory_state: Literal["live", "archived"]
) -> tuple[Memory, tuple[int, int]]:
    memory, used = record_rows.parse_memory(
        raw,
        memory_state,
        agent=state.ctx.caller.agent,
        namespace=state.ctx.namespace,
        origin=state.write.origin,
        now=state.write.now,
        lifetimes=state.ctx.lifetimes,
    )
    state.must_reach(memory.namespace)
    return state.set_times(store_memory.filter_memory_secrets(state.write.session, memory)), used


def _add_memory(state: ImportState, incoming: Memory, used: tuple[int, int]) -> Outcome:
    incoming = _set_owner(state, incoming)
    if _claims_title(state, incoming, used):
        holder = find_title_holder(state.write, incoming.namespace, incoming.title)
        if holder is not None and state.options.on_conflict == "merge":
            return _merge_memory(state, holder, incoming, used)
        incoming = _set_title(state, incoming)
    state.write.add(MEMORY, incoming, "import")
    _count_uses(state, incoming, used)
    return "imported"


def _claims_title(state: ImportState, memory: Memory, used: tuple[int, int]) -> bool:
    """Whether a memory will occupy its title: live and not expired."""
    return memory.state == "live" and lives_until(memory, _kept_until(state, memory, used)) > state.write.now


def _kept_until(state: ImportState, memory: Memory, used: tuple[int, int]) -> int:
    return state.ctx.lifetimes.extend(memory.tier, used[1]) if used[1] else 0


def _set_owner(state: ImportState, memory: Memory) -> Memory:
    """Set the owner: from the file if it is trusted, else the importer, noting the original owner."""
    importer = state.ctx.caller.agent
    trusted = state.options.trust_source and memory.agent not in RESERVED_AGENTS
    if trusted or memory.agent == importer:
        return replace(memory, agent=validate_agent_id(memory.agent, "metadata.agent_id"))
    state.restamped += 1
    metadata = validate.metadata({"imported_from_agent_id": memory.agent, **memory.metadata})
    return replace(memory, agent=importer, metadata=metadata)


def _set_title(state: ImportState, memory: Memory) -> Memory:
    """Check that the title is free, or number it with on_conflict `version`."""
    if state.options.on_conflict != "version":
        require_free_title(state.ctx, state.write, memory)
        return memory
    for title in (memory.title, *(number_title(memory.title, number) for number in range(2, MAX_VERSIONS + 1))):
        holder = find_title_holder(state.write, memory.namespace, title)
        if holder is None or holder.id == memory.id:
            return replace(memory, title=validate.title(title))
    raise Conflict(f"There are already {MAX_VERSIONS} versions of {memory.title!r}.")


def _merge_memory(state: ImportState, holder: Memory, incoming: Memory, used: tuple[int, int]) -> Outcome:
    """Merge into the memory with this title. Never across different sets of readers."""
    if holder.scope != incoming.scope or (incoming.scope == "private" and holder.agent != incoming.agent):
        raise TitleTaken(
            f"The title {incoming.title!r} in {incoming.namespace!r} belongs to {holder.id} for other readers: "
            "import with on_conflict version.",
            existing_id=holder.id,
        )
    ends = None if incoming.expires_at is None else lives_until(incoming, _kept_until(state, incoming, used))
    merged = store_draft(
        state.ctx, state.write, _to_draft(replace(incoming, expires_at=ends)), "merge", imported=True
    ).memory
    merged = state.write.change(MEMORY, merged, replace(merged, extra={**incoming.extra, **merged.extra}), "import")
    raise_depth(state.write, merged.id, incoming.reflection_depth, capped=False)
    _note_change(state, holder, merged)
    _count_uses(state, merged, used)
    state.merged_ids[incoming.id] = holder.id
    return "unchanged" if merged.version == holder.version else "merged"


def _update_memory(state: ImportState, stored: Memory, incoming: Memory, used: tuple[int, int]) -> Outcome:
    if not state.ctx.caller.can_access(stored.namespace):
        raise Forbidden(f"The memory {incoming.id} is in a namespace outside this key's reach.")
    if state.options.check_rights:
        state.must_write(stored)
        check_scope_change(state.ctx, state.write, stored, incoming)
    incoming = keep_depth(stored, incoming)
    if stamp := stored.metadata.get("imported_from_agent_id"):
        incoming = replace(incoming, metadata={"imported_from_agent_id": stamp, **incoming.metadata})
    if state.options.on_conflict == "version" and _claims_title(state, incoming, used):
        incoming = _set_title(state, incoming)
    outcome = state.put_record(
        MEMORY, stored, incoming, lambda _: _claims_title(state, incoming, used) and _set_title(state, incoming)
    )
    if outcome == "merged":
        raise_depth(state.write, stored.id, incoming.reflection_depth, capped=False)
        _note_change(state, stored, incoming)
    if outcome != "older":
        _count_uses(state, incoming, used)
    return outcome


def _note_change(state: ImportState, before: Memory, after: Memory) -> None:
    """Flag the dependents of a memory whose text changed. A restored memory has the same text."""
    if before.state != "deleted" and (before.title, before.content) != (after.title, after.content):
        state.write.local[ChangeSet].changed.add(before.id)


def _count_uses(state: ImportState, memory: Memory, used: tuple[int, int]) -> None:
    """Raise the access count to that of the file; never lower it."""
    uses, used_at = used
    had, had_at = memories.read_access_counts(state.write.session, [memory.id]).get(memory.id, (0, 0))
    if uses <= had and used_at <= had_at:
        return
    state.write.session.do(
        "memory_access_add", memory=memory.id, origin=state.write.origin, uses=max(0, uses - had), used_at=used_at
    )
    if _claims_title(state, memory, used) and memory.expires_at is not None:
        state.write.session.do("transfer_extend_life", id=memory.id, until=_kept_until(state, memory, used))


def _to_draft(memory: Memory) -> Draft:
    """Draft that would store this memory. Without an expiry it is long-term, whatever its tier."""
    same = {name: getattr(memory, name) for name in Draft.__struct_fields__ if name in Memory.__struct_fields__}
    return Draft(**same | {"tier": "long" if memory.expires_at is None else memory.tier})
