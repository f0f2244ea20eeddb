"""Build the session-start context: project, person, what is due. Only reads."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from holdfast.features.agent_hosts.host import is_prompt
from holdfast.features.agent_hosts.project_naming import related_namespaces
from holdfast.features.context_blocks import fence_text
from holdfast.features.context_blocks.for_query import new_fence, shorten_ids
from holdfast.features.context_blocks.parts import (
    ContextPart,
    Item,
    Shares,
    allocate_budget,
    list_open_tasks,
    list_stale_items,
    read_part,
)
from holdfast.features.learning import lessons
from holdfast.features.memories import store as memories
from holdfast.features.memories.store import Filter
from holdfast.features.namespaces import service as standards
from holdfast.features.people import facts
from holdfast.kernel.context import Context
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.text import token_count
from holdfast.kernel.text.content_scan import find_injections
from holdfast.kernel.timestamps import DAY, format_timestamp

DEFAULT_BUDGET = 1500
MAX_ITEMS = 20
MAX_CHARACTERS = 600
"""Maximum characters of one memory; `get` returns the rest by id."""
DUE_WITHIN = DAY
"""Tasks due within this time are shown."""
SHARES: Shares = {
    "standards": (0.1, 0.35),
    "facts": (0.1, 0.25),
    "lessons": (0.1, 0.3),
    "decisions": (0.1, 0.35),
    "recent": (0.1, 0.4),
    "tasks": (0.05, 0.15),
    "stale": (0.05, 0.15),
}
KINDS_WITH_OWN_PART = ("fact", "lesson", "decision")
"""Kinds with their own part."""


class SessionScope(NamedTuple):
    """The project and the person of a session."""

    namespace: str
    project_names: tuple[str, ...]
    """All names of the project."""
    principal: str


class SessionContext(NamedTuple):
    parts: list[ContextPart]
    text: str
    """Fenced as data; empty if there is nothing to show."""
    tokens: int

    @property
    def ids(self) -> list[str]:
        return [item.id for part in self.parts for item in part.items]


def build_session_context(ctx: Context, scope: SessionScope, budget_tokens: int = DEFAULT_BUDGET) -> SessionContext:
    """Build the context of a project and a person, within a budget."""
    gathered = [read_part(name, partial(read, ctx, scope)) for name, read in _PART_READERS.items()]
    fence = new_fence()
    cites = _shorten_ids(ctx, gathered)
    lines = {part.name: [_format_item(item, cites, fence) for item in part.items] for part in gathered}
    room = max(0, budget_tokens - token_count.count_tokens(fence_text.add_frame([], fence)) - 4 * len(gathered))
    sizes = {name: [token_count.count_tokens(line) + 1 for line in found] for name, found in lines.items()}
    fit = allocate_budget(sizes, SHARES, room)
    parts = [part.take(sizes[part.name], fit[part.name]) for part in gathered]
    shown = [line for part in parts if part.items for line in (f"# {part.name}", *lines[part.name][: len(part.items)])]
    text = fence_text.add_frame(shown, fence) if shown else ""
    return SessionContext(parts, text, token_count.count_tokens(text))


def format_manifest(namespace: str, context: SessionContext, budget: int) -> str:
    """Summarise the context in one line: parts, tokens, what is missing."""
    given = [_format_count(part) for part in context.parts if part.items]
    dropped = sum(part.dropped for part in context.parts)
    lacking = [f"{part.name}: {part.degraded}" for part in context.parts if part.degraded]
    sections = [namespace, ", ".join(given) or "no memories yet", f"{context.tokens} of {budget} tokens"]
    sections += [f"{dropped} did not fit"] if dropped else []
    sections += [f"degraded ({'; '.join(lacking)})"] if lacking else []
    return fence_text.clean_text("holdfast: " + " | ".join(sections), new_fence())


def _format_count(part: ContextPart) -> str:
    number = len(part.items)
    return f"{number} {part.name.removesuffix('s') if number == 1 else part.name}"


def _read_standards(ctx: Context, scope: SessionScope) -> list[Item]:
    with ctx.reading() as session:
        found = standards.list_standards(ctx, session, scope.namespace)
    return [_memory_item(one) for one in reversed(found)]


def _read_facts(ctx: Context, scope: SessionScope) -> list[Item]:
    return [_memory_item(fact) for fact in facts.list_facts(ctx, scope.principal)[:MAX_ITEMS]]


def _read_lessons(ctx: Context, scope: SessionScope) -> list[Item]:
    found = {
        one.id: one for name in scope.project_names for one in lessons.list_lessons(ctx, name, None, None, MAX_ITEMS)
    }
    return [_memory_item(one) for one in sorted(found.values(), key=lambda one: -one.confidence)][:MAX_ITEMS]


def _read_decisions(ctx: Context, scope: SessionScope) -> list[Item]:
    return _read_newest(
        ctx, Filter(namespaces=related_namespaces(scope.project_names, ctx.namespace), kinds=("decision",))
    )


def _read_recent(ctx: Context, scope: SessionScope) -> list[Item]:
    return _read_newest(ctx, Filter(namespaces=scope.project_names), excluded_kinds=KINDS_WITH_OWN_PART)


def _read_newest(ctx: Context, which: Filter, excluded_kinds: Iterable[str] = ()) -> list[Item]:
    """Read memories by priority, newest first among equals, without captured prompts."""
    with ctx.reading() as session:
        found = memories.select(session, ctx.caller, which, ctx.now(), limit=3 * MAX_ITEMS)
    answers = [one for one in found if one.kind not in excluded_kinds and not is_prompt(one)]
    return [_memory_item(one) for one in answers[:MAX_ITEMS]]


def _read_tasks(ctx: Context, scope: SessionScope) -> list[Item]:
    due = [one for one in list_open_tasks(ctx, scope.principal, MAX_ITEMS) if one.due_at <= ctx.now() + DUE_WITHIN]
    return [Item(f"{one.title} (due {format_timestamp(one.due_at)[:16]}Z)", one.id, one.due_at) for one in due]


def _read_stale(ctx: Context, scope: SessionScope) -> list[Item]:
    return list_stale_items(ctx, scope.project_names, MAX_ITEMS)


_PART_READERS: dict[str, Callable[[Context, SessionScope], list[Item]]] = {
    "standards": _read_standards,
    "facts": _read_facts,
    "lessons": _read_lessons,
    "decisions": _read_decisions,
    "recent": _read_recent,
    "tasks": _read_tasks,
    "stale": _read_stale,
}


def _memory_item(memory: Memory) -> Item:
    whole_text = f"{memory.speaker}: {memory.content}" if memory.speaker else f"{memory.title}: {memory.content}"
    text = whole_text if len(whole_text) <= MAX_CHARACTERS else f"{whole_text[:MAX_CHARACTERS].rstrip()} …"
    return Item(text, memory.id, memory.updated_at, bool(find_injections(f"{memory.title}\n{memory.content}")))


def _shorten_ids(ctx: Context, parts: Iterable[ContextPart]) -> dict[str, str]:
    with ctx.reading() as session:
        return shorten_ids(session, [item.id for part in parts for item in part.items])


def _format_item(item: Item, cites: dict[str, str], fence: str) -> str:
    mark = " [untrusted]" if item.untrusted else ""
    return f"- [{cites[item.id]}]{mark} {fence_text.clean_text(item.text, fence)}"
