"""Observations of seven types, and limitations that stay open until resolved."""

from typing import Any, NamedTuple

from msgspec.structs import replace

from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.find_memories import search
from holdfast.features.memories.read_memories import Filter, require_write_access
from holdfast.features.memories.store_memory import store_draft
from holdfast.features.memories.update_memory import write_update
from holdfast.kernel.context import Context
from holdfast.kernel.errors import Conflict, NotFound
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.memory import Category, Memory
from holdfast.kernel.records.validate import Draft
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.words import fold_name
from holdfast.kernel.timestamps import format_timestamp

PARTS = ("what", "why", "where", "learned")
"""The parts of an observation. Each is stored in the metadata, and all are searchable."""
MAX_READ = 1000
MAX_EVIDENCE = 50


class ObservationDraft(NamedTuple):
    """A new observation."""

    category: Category
    title: str
    parts: dict[str, str]
    namespace: str


def add_observation(ctx: Context, observation: ObservationDraft) -> Memory:
    """Store an observation. A second one with the same title gets a numbered title."""
    draft = Draft(
        title=observation.title,
        content=build_observation_text(observation.title, observation.parts),
        namespace=observation.namespace,
        kind="observation",
        category=observation.category,
        tier="long",
        source=ctx.caller.source,
        metadata=dict(observation.parts),
    )
    with ctx.transaction() as write:
        return store_draft(ctx, write, draft, "version", force=True).memory


def update_observation(
    ctx: Context, id: str, title: str | None, category: Category | None, parts: dict[str, str | None]
) -> Memory:
    """Change parts of an observation; None removes a part."""
    with ctx.transaction() as write:
        memory = _get_observation(ctx, write, id)
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


def _get_observation(ctx: Context, write: Transaction, id: str) -> Memory:
    memory = memories.resolve(write.session, ctx.caller, id, write.now)
    if memory.kind != "observation" or memory.category is None:
        raise NotFound(f"{id!r} is not an observation.")
    return memory


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
    which = Filter(kinds=("observation",), namespace=namespace, since=since)
    with ctx.reading() as session:
        if query is not None:
            found = search(ctx, session, query, which, limit=MAX_READ)
        else:
            found = memories.select(session, ctx.caller, which, ctx.now(), order="by_newest", limit=MAX_READ)
    fit = [one for one in found if one.category is not None and (not categories or one.category in categories)]
    return fit[:limit]


class LimitationResult(NamedTuple):
    """A limitation, and whether it is new."""

    memory: Memory
    is_new: bool


def add_limitation(
    ctx: Context, title: str, description: str, plan: str, namespace: str, evidence: str | None
) -> LimitationResult:
    """Add a limitation, or add evidence to an existing one and reopen it."""
    with ctx.transaction() as write:
        existing = _find_limitation(ctx, write.session, namespace, title)
        if existing is None:
            metadata = {
                "plan": plan,
                "status": "open",
                "evidence": _add_evidence(ctx, write, [], evidence or description),
            }
            draft = Draft(
                title=title,
                content=description or title,
                namespace=namespace,
                kind="limitation",
                tier="long",
                source=ctx.caller.source,
                metadata=metadata,
            )
            return LimitationResult(store_draft(ctx, write, draft, "error", force=True).memory, is_new=True)
        require_write_access(ctx, write, existing)
        metadata = {
            **existing.metadata,
            "status": "open",
            "evidence": _add_evidence(ctx, write, existing.metadata.get("evidence", []), evidence or description),
        }
        metadata |= {"plan": plan} if plan else {}
        return LimitationResult(
            write_update(ctx, write, existing, replace(existing, metadata=metadata), "limitation"), is_new=False
        )


def _add_evidence(ctx: Context, write: Transaction, before: list[Any], said: str) -> list[Any]:
    return [*before, {"at": format_timestamp(write.now), "agent_id": ctx.caller.agent, "said": said[:2000]}][
        -MAX_EVIDENCE:
    ]


def _find_limitation(ctx: Context, session: Session, namespace: str, title: str) -> Memory | None:
    """Find a limitation by title, ignoring case."""
    which = Filter(kinds=("limitation",), namespace=namespace)
    found = memories.select(session, ctx.caller, which, ctx.now(), limit=MAX_READ)
    return next((one for one in found if fold_name(one.title) == fold_name(title)), None)


def resolve_limitation(ctx: Context, id: str, how: str) -> Memory:
    """Mark a limitation as resolved."""
    with ctx.transaction() as write:
        memory = memories.resolve(write.session, ctx.caller, id, write.now)
        if memory.kind != "limitation":
            raise NotFound(f"{id!r} is not a limitation.")
        if memory.metadata.get("status") == "resolved":
            raise Conflict(f"The limitation {memory.title!r} is already resolved.")
        require_write_access(ctx, write, memory)
        resolution = {
            "status": "resolved",
            "resolved_by": ctx.caller.agent,
            "resolved_at": format_timestamp(write.now),
            "how": how,
        }
        return write_update(
            ctx, write, memory, replace(memory, metadata={**memory.metadata, **resolution}), "limitation"
        )


def list_limitations(ctx: Context, namespace: str | None, status: str | None, limit: int) -> list[Memory]:
    """List limitations, oldest first."""
    with ctx.reading() as session:
        which = Filter(kinds=("limitation",), namespace=namespace)
        found = memories.select(session, ctx.caller, which, ctx.now(), limit=MAX_READ)
    fit = [one for one in found if status is None or one.metadata.get("status", "open") == status]
    return sorted(fit, key=lambda one: (one.created_at, one.id))[:limit]
