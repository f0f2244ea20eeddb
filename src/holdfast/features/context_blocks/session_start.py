"""Build the session-start context: project, person, what is due. Only reads."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from holdfast.features.agent_hosts.host import is_asked
from holdfast.features.agent_hosts.project import around
from holdfast.features.context_blocks import context_packing as pack
from holdfast.features.context_blocks.allocate import Part, portions
from holdfast.features.context_blocks.for_query import cited, new_fence
from holdfast.features.context_blocks.for_reply import Item, Portion
from holdfast.features.learning import lessons
from holdfast.features.memories import store as memories
from holdfast.features.memories.store import Filter
from holdfast.features.namespaces import service as standards
from holdfast.features.people import facts
from holdfast.features.reflections import list_stale as invalidation
from holdfast.features.reflections.invalidation_store import Which
from holdfast.features.tasks import store as tasks
from holdfast.features.tasks.store import Which as WhichTasks
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.text import token_count as tokens
from holdfast.kernel.text.prompt_injection import suspicions
from holdfast.kernel.timestamps import DAY, to_text

BUDGET = 1500
MOST_EACH = 20
LONGEST = 600
"""Maximum characters of one memory; `get` returns the rest by id."""
SOON = DAY
"""Tasks due within this time are shown."""
SHARES = {
    "standards": (0.1, 0.35),
    "facts": (0.1, 0.25),
    "lessons": (0.1, 0.3),
    "decisions": (0.1, 0.35),
    "recent": (0.1, 0.4),
    "tasks": (0.05, 0.15),
    "stale": (0.05, 0.15),
}
"""Minimum and maximum share of the budget per part, in order of priority."""
TOLD_ELSEWHERE = ("fact", "lesson", "decision")
"""Kinds with their own part."""


class Place(NamedTuple):
    """The project and the person of a session."""

    namespace: str
    names: tuple[str, ...]
    """All names of the project."""
    principal: str


class Boot(NamedTuple):
    parts: list[Portion]
    text: str
    """Fenced as data; empty if there is nothing to show."""
    tokens: int

    @property
    def ids(self) -> list[str]:
        return [item.id for part in self.parts for item in part.items]


def boot(hold: Hold, place: Place, most_tokens: int = BUDGET) -> Boot:
    """Build the context of a project and a person, within a budget."""
    gathered = [_gathered(name, hold, place) for name in SHARES]
    fence = new_fence()
    cites = _cites(hold, gathered)
    lines = {part.name: [_line(item, cites, fence) for item in part.items] for part in gathered}
    room = max(0, most_tokens - tokens.count(pack.framed([], fence)) - 4 * len(gathered))
    sizes = {name: [tokens.count(line) + 1 for line in found] for name, found in lines.items()}
    fit = portions([Part(name, sizes[name], *SHARES[name]) for name in SHARES], room)
    parts = [_cut(part, sizes[part.name], fit[part.name]) for part in gathered]
    shown = [line for part in parts if part.items for line in (f"# {part.name}", *lines[part.name][: len(part.items)])]
    text = pack.framed(shown, fence) if shown else ""
    return Boot(parts, text, tokens.count(text))


def manifest(namespace: str, done: Boot, budget: int) -> str:
    """Summarise the context in one line: parts, tokens, what is missing."""
    given = [_counted(part) for part in done.parts if part.items]
    dropped = sum(part.dropped for part in done.parts)
    lacking = [f"{part.name}: {part.degraded}" for part in done.parts if part.degraded]
    told = [namespace, ", ".join(given) or "no memories yet", f"{done.tokens} of {budget} tokens"]
    told += [f"{dropped} did not fit"] if dropped else []
    told += [f"degraded ({'; '.join(lacking)})"] if lacking else []
    return pack.clean("holdfast: " + " | ".join(told), new_fence())


def _counted(part: Portion) -> str:
    number = len(part.items)
    return f"{number} {part.name.removesuffix('s') if number == 1 else part.name}"


def _gathered(name: str, hold: Hold, place: Place) -> Portion:
    """Build a whole part. If it fails, it is marked degraded and the others still come."""
    try:
        return Portion(name, _PARTS[name](hold, place), 0, 0)
    except HoldfastError as error:
        return Portion(name, [], 0, 0, error.message)


def _standards(hold: Hold, place: Place) -> list[Item]:
    with hold.reading() as session:
        found = standards.for_namespace(hold, session, place.namespace)
    return [_memory(one) for one in reversed(found)]


def _facts(hold: Hold, place: Place) -> list[Item]:
    return [_memory(fact) for fact in facts.known(hold, place.principal)[:MOST_EACH]]


def _lessons(hold: Hold, place: Place) -> list[Item]:
    found = {one.id: one for name in place.names for one in lessons.learned(hold, name, None, None, MOST_EACH)}
    return [_memory(one) for one in sorted(found.values(), key=lambda one: -one.confidence)][:MOST_EACH]


def _decisions(hold: Hold, place: Place) -> list[Item]:
    return _newest(hold, Filter(namespaces=around(place.names, hold.namespace), kinds=("decision",)))


def _recent(hold: Hold, place: Place) -> list[Item]:
    return _newest(hold, Filter(namespaces=place.names), unless=TOLD_ELSEWHERE)


def _newest(hold: Hold, which: Filter, unless: Iterable[str] = ()) -> list[Item]:
    """Read memories by priority, newest first among equals, without captured prompts."""
    with hold.reading() as session:
        found = memories.select(session, hold.caller, which, hold.now(), limit=3 * MOST_EACH)
    told = [one for one in found if one.kind not in unless and not is_asked(one)]
    return [_memory(one) for one in told[:MOST_EACH]]


def _tasks(hold: Hold, place: Place) -> list[Item]:
    with hold.reading() as session:
        which = WhichTasks(principals=(place.principal,), states=("pending", "running"))
        found = tasks.select(session, hold.caller, which, MOST_EACH)
    due = [one for one in found if one.due_at <= hold.now() + SOON]
    return [Item(f"{one.title} (due {to_text(one.due_at)[:16]}Z)", one.id, one.due_at) for one in due]


def _stale(hold: Hold, place: Place) -> list[Item]:
    with hold.reading() as session:
        wanted = [Which(statuses=("open",), namespace=name) for name in place.names]
        found = [
            one for which in wanted for one in invalidation.browse(hold, session, which, limit=MOST_EACH, skip=0)[0]
        ]
    told = [one.told for one in found[:MOST_EACH]]
    return [Item(f"{one.title}: {one.one.reason}", one.one.dependent) for one in told]


_PARTS: dict[str, Callable[[Hold, Place], list[Item]]] = {
    "standards": _standards,
    "facts": _facts,
    "lessons": _lessons,
    "decisions": _decisions,
    "recent": _recent,
    "tasks": _tasks,
    "stale": _stale,
}


def _memory(memory: Memory) -> Item:
    said = f"{memory.speaker}: {memory.content}" if memory.speaker else f"{memory.title}: {memory.content}"
    text = said if len(said) <= LONGEST else f"{said[:LONGEST].rstrip()} …"
    return Item(text, memory.id, memory.updated_at, bool(suspicions(f"{memory.title}\n{memory.content}")))


def _cites(hold: Hold, parts: Iterable[Portion]) -> dict[str, str]:
    with hold.reading() as session:
        return cited(session, [item.id for part in parts for item in part.items])


def _line(item: Item, cites: dict[str, str], fence: str) -> str:
    mark = " [untrusted]" if item.untrusted else ""
    return f"- [{cites[item.id]}]{mark} {pack.clean(item.text, fence)}"


def _cut(part: Portion, sizes: list[int], fit: int) -> Portion:
    return part._replace(items=part.items[:fit], tokens=sum(sizes[:fit]), dropped=len(part.items) - fit)
