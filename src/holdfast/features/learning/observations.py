"""Observations of seven types, and limitations that stay open until resolved."""

from typing import Any, NamedTuple

from msgspec.structs import replace

from holdfast.features.memories import store as memories
from holdfast.features.memories.find_memories import search
from holdfast.features.memories.store import Filter
from holdfast.features.memories.store_memory import must_change, put
from holdfast.features.memories.update_memory import keep
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import Conflict, NotFound
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.memory import Category, Memory
from holdfast.kernel.records.validate import Draft
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text.words import fold
from holdfast.kernel.timestamps import to_text

PARTS = ("what", "why", "where", "learned")
"""The parts of an observation. Each is stored in the metadata, and all are searchable."""
MOST_READ = 1000
MOST_EVIDENCE = 50


class Seen(NamedTuple):
    """A new observation."""

    category: Category
    title: str
    parts: dict[str, str]
    namespace: str


def observe(hold: Hold, seen: Seen) -> Memory:
    """Store an observation. A second one with the same title gets a numbered title."""
    draft = Draft(
        title=seen.title,
        content=text_of(seen.title, seen.parts),
        namespace=seen.namespace,
        kind="observation",
        category=seen.category,
        tier="long",
        source=hold.caller.source,
        metadata=dict(seen.parts),
    )
    with hold.writing() as write:
        return put(hold, write, draft, "version", force=True).memory


def revise(hold: Hold, id: str, title: str | None, category: Category | None, parts: dict[str, str | None]) -> Memory:
    """Change parts of an observation; None removes a part."""
    with hold.writing() as write:
        memory = _observation(hold, write, id)
        must_change(hold, write, memory)
        current = {name: memory.metadata[name] for name in PARTS if isinstance(memory.metadata.get(name), str)}
        merged = {name: text for name, text in {**current, **parts}.items() if text is not None}
        others = {name: value for name, value in memory.metadata.items() if name not in PARTS}
        changed = replace(
            memory,
            title=title or memory.title,
            category=category or memory.category,
            content=text_of(title or memory.title, merged),
            metadata={**others, **merged},
        )
        return keep(hold, write, memory, changed, "update")


def _observation(hold: Hold, write: Transaction, id: str) -> Memory:
    memory = memories.resolve(write.session, hold.caller, id, write.now)
    if memory.kind != "observation" or memory.category is None:
        raise NotFound(f"{id!r} is not an observation.")
    return memory


def text_of(title: str, parts: dict[str, str]) -> str:
    """Join the parts of an observation into one text."""
    lines = [f"{name.capitalize()}: {parts[name]}" for name in PARTS if name in parts]
    return "\n".join(lines) or title


def observed(
    hold: Hold,
    query: str | None,
    categories: tuple[Category, ...],
    namespace: str | None,
    since: int | None,
    limit: int,
) -> list[Memory]:
    """Search observations by keywords, or list the newest."""
    which = Filter(kinds=("observation",), namespace=namespace, since=since)
    with hold.reading() as session:
        if query is not None:
            found = search(hold, session, query, which, limit=MOST_READ)
        else:
            found = memories.select(session, hold.caller, which, hold.now(), order="by_newest", limit=MOST_READ)
    fit = [one for one in found if one.category is not None and (not categories or one.category in categories)]
    return fit[:limit]


class Lacking(NamedTuple):
    """A limitation, and whether it is new."""

    memory: Memory
    created: bool


def lack(hold: Hold, title: str, description: str, plan: str, namespace: str, evidence: str | None) -> Lacking:
    """Add a limitation, or add evidence to an existing one and reopen it."""
    with hold.writing() as write:
        existing = _lacking(hold, write.session, namespace, title)
        if existing is None:
            metadata = {"plan": plan, "status": "open", "evidence": _evidence(hold, write, [], evidence or description)}
            draft = Draft(
                title=title,
                content=description or title,
                namespace=namespace,
                kind="limitation",
                tier="long",
                source=hold.caller.source,
                metadata=metadata,
            )
            return Lacking(put(hold, write, draft, "error", force=True).memory, created=True)
        must_change(hold, write, existing)
        metadata = {
            **existing.metadata,
            "status": "open",
            "evidence": _evidence(hold, write, existing.metadata.get("evidence", []), evidence or description),
        }
        metadata |= {"plan": plan} if plan else {}
        return Lacking(keep(hold, write, existing, replace(existing, metadata=metadata), "limitation"), created=False)


def _evidence(hold: Hold, write: Transaction, before: list[Any], said: str) -> list[Any]:
    return [*before, {"at": to_text(write.now), "agent_id": hold.caller.agent, "said": said[:2000]}][-MOST_EVIDENCE:]


def _lacking(hold: Hold, session: Session, namespace: str, title: str) -> Memory | None:
    """Find a limitation by title, ignoring case."""
    which = Filter(kinds=("limitation",), namespace=namespace)
    found = memories.select(session, hold.caller, which, hold.now(), limit=MOST_READ)
    return next((one for one in found if fold(one.title) == fold(title)), None)


def resolve(hold: Hold, id: str, how: str) -> Memory:
    """Mark a limitation as resolved."""
    with hold.writing() as write:
        memory = memories.resolve(write.session, hold.caller, id, write.now)
        if memory.kind != "limitation":
            raise NotFound(f"{id!r} is not a limitation.")
        if memory.metadata.get("status") == "resolved":
            raise Conflict(f"The limitation {memory.title!r} is already resolved.")
        must_change(hold, write, memory)
        resolution = {
            "status": "resolved",
            "resolved_by": hold.caller.agent,
            "resolved_at": to_text(write.now),
            "how": how,
        }
        return keep(hold, write, memory, replace(memory, metadata={**memory.metadata, **resolution}), "limitation")


def lacking(hold: Hold, namespace: str | None, status: str | None, limit: int) -> list[Memory]:
    """List limitations, oldest first."""
    with hold.reading() as session:
        which = Filter(kinds=("limitation",), namespace=namespace)
        found = memories.select(session, hold.caller, which, hold.now(), limit=MOST_READ)
    fit = [one for one in found if status is None or one.metadata.get("status", "open") == status]
    return sorted(fit, key=lambda one: (one.created_at, one.id))[:limit]
