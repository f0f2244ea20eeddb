"""Observations of seven types, and limitations that stay open until resolved."""

from msgspec.structs import replace

from holdfast.features.memories.find_memories import search
from holdfast.features.memories.memory_kind import MAX_READ, MemoryKind
from holdfast.features.memories.store import Filter, require_write_access
from holdfast.features.memories.update_memory import write_update
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Conflict, NotFound
from holdfast.kernel.records.memory import Category, Memory
from holdfast.kernel.text.words import fold_name
from holdfast.kernel.timestamps import format_timestamp

PARTS = ("what", "why", "where", "learned")
"""The parts of an observation. Each is stored in the metadata, and all are searchable."""
MAX_EVIDENCE = 50
OBSERVATION = MemoryKind(
    "observation", "an observation", "version", {"type": "category", "agent_id": "agent"}, "by_newest"
)
LIMITATION = MemoryKind(
    "limitation",
    "a limitation",
    "error",
    {
        "description": "content",
        "status": lambda memory: "resolved" if is_resolved(memory) else "open",
        "seen": lambda memory: len(memory.metadata.get("evidence", [])),
        "plan": lambda memory: memory.metadata.get("plan") or None,
        "how": lambda memory: memory.metadata.get("how") if is_resolved(memory) else None,
        "resolved_at": lambda memory: memory.metadata.get("resolved_at") if is_resolved(memory) else None,
    },
)


def add_observation(ctx: Context, category: Category, title: str, parts: dict[str, str], namespace: str) -> Memory:
    """Store an observation. A second one with the same title gets a numbered title."""
    text = build_observation_text(title, parts)
    with ctx.transaction() as write:
        return OBSERVATION.add(ctx, write, title, text, namespace, category=category, metadata=parts)


def update_observation(
    ctx: Context, id: str, title: str | None, category: Category | None, parts: dict[str, str | None]
) -> Memory:
    """Change parts of an observation; None removes a part."""
    with ctx.transaction() as write:
        memory = OBSERVATION.resolve(ctx, write, id)
        if memory.category is None:
            raise NotFound(f"{id!r} is not an observation.")
        require_write_access(ctx, write, memory)
        current = {name: memory.metadata[name] for name in PARTS if isinstance(memory.metadata.get(name), str)}
        merged = {name: text for name, text in {**current, **parts}.items() if text is not None}
        others = {name: value for name, value in memory.metadata.items() if name not in PARTS}
        changed = replace(
            memory,
            title=title or memory.title,
            category=category or memory.category,
            content=build_observation_text(title or memory.title, merged),
            metadata={**others, **merged},
        )
        return write_update(ctx, write, memory, changed, "update")


def build_observation_text(title: str, parts: dict[str, str]) -> str:
    """Join the parts of an observation into one text."""
    lines = [f"{name.capitalize()}: {parts[name]}" for name in PARTS if name in parts]
    return "\n".join(lines) or title


def search_observations(
    ctx: Context,
    query: str | None,
    categories: tuple[Category, ...],
    namespace: str | None,
    since: int | None,
    limit: int,
) -> list[Memory]:
    """Search observations by keywords, or list the newest."""
    with ctx.reading() as session:
        if query is None:
            found = OBSERVATION.select(ctx, session, namespace=namespace, since=since)
        else:
            which = Filter(kinds=(OBSERVATION.name,), namespace=namespace, since=since)
            found = search(ctx, session, query, which, limit=MAX_READ)
    fit = [one for one in found if one.category is not None and (not categories or one.category in categories)]
    return fit[:limit]


def is_resolved(limitation: Memory) -> bool:
    return limitation.metadata.get("status") == "resolved"


def add_limitation(
    ctx: Context, title: str, description: str, plan: str, namespace: str, evidence: str | None
) -> tuple[Memory, bool]:
    """Add a limitation, or add evidence to an existing one and reopen it; return whether it is new."""
    with ctx.transaction() as write:
        known = LIMITATION.select(ctx, write.session, namespace=namespace)
        existing = next((one for one in known if fold_name(one.title) == fold_name(title)), None)
        before = [] if existing is None else existing.metadata.get("evidence", [])
        occurrence = {
            "at": format_timestamp(write.now),
            "agent_id": ctx.caller.agent,
            "said": (evidence or description)[:2000],
        }
        about = {"status": "open", "evidence": [*before, occurrence][-MAX_EVIDENCE:]}
        if existing is None:
            about = {"plan": plan, **about}
            return LIMITATION.add(ctx, write, title, description or title, namespace, metadata=about), True
        return LIMITATION.change(ctx, write, existing, about | ({"plan": plan} if plan else {})), False


def resolve_limitation(ctx: Context, id: str, how: str) -> Memory:
    """Mark a limitation as resolved."""
    with ctx.transaction() as write:
        memory = LIMITATION.resolve(ctx, write, id)
        if is_resolved(memory):
            raise Conflict(f"The limitation {memory.title!r} is already resolved.")
        at = format_timestamp(write.now)
        resolution = {"status": "resolved", "resolved_by": ctx.caller.agent, "resolved_at": at, "how": how}
        return LIMITATION.change(ctx, write, memory, resolution)


def list_limitations(ctx: Context, namespace: str | None, status: str | None, limit: int) -> list[Memory]:
    """List limitations, oldest first."""
    with ctx.reading() as session:
        found = LIMITATION.select(ctx, session, namespace=namespace)
    fit = [one for one in found if status is None or one.metadata.get("status", "open") == status]
    return sorted(fit, key=lambda one: (one.created_at, one.id))[:limit]
