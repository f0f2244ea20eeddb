"""Create reflections: the memory, its source links and the journal entries in one transaction."""

from collections.abc import Sequence
from typing import Any, NamedTuple, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from holdfast.features.graph.service import tie
from holdfast.features.memories import dedup as hygiene
from holdfast.features.memories import store as memories
from holdfast.features.memories.store_memory import must_be_free
from holdfast.features.namespaces import approvals_store as waiting
from holdfast.features.namespaces import policy_store as policies
from holdfast.features.namespaces.approvals_store import Waiting
from holdfast.features.namespaces.model import Rules
from holdfast.features.reflections.depth import must_be_allowed, needs_approval
from holdfast.features.reflections.model import depth_on, with_origin
from holdfast.kernel import ids
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import DepthMismatch, Invalid, NotFound
from holdfast.kernel.journal.kinds import MEMORY
from holdfast.kernel.journal.transaction import Transaction
from holdfast.kernel.records.memory import Memory, Scope, Tier
from holdfast.kernel.records.validate import Draft, admit

MOST_SOURCES = 256
OPERATION = "reflect"


class Asked(Struct, frozen=True, kw_only=True):
    """A request for a reflection; stored as JSON while it waits for approval."""

    source_ids: tuple[str, ...]
    title: str
    content: str
    namespace: str | None = None
    tier: Tier
    tags: tuple[str, ...] = ()
    priority: int = 5
    confidence: float = 1.0
    scope: Scope | None = None
    metadata: dict[str, Any] = {}
    depth: int | None = None
    source: str = "api"
    reach: tuple[str, ...] = ()
    """The namespaces that the requester could access."""


class Planned(NamedTuple):
    """A validated reflection that is not written yet."""

    memory: Memory
    sources: list[Memory]
    rules: Rules

    @property
    def waits(self) -> bool:
        return needs_approval(self.rules, self.memory.reflection_depth)


class Reflected(NamedTuple):
    memory: Memory
    sources: list[str]


def reflect(hold: Hold, asked: Asked) -> Reflected | tuple[Waiting, Planned]:
    """Write a reflection, or queue its request if the policy requires approval."""
    with hold.writing() as write:
        planned = plan(hold, write, asked)
        return (_ask(hold, write, asked, planned), planned) if planned.waits else made(hold, write, planned)


def plan(hold: Hold, write: Transaction, asked: Asked) -> Planned:
    """Build the reflection from the current sources; raise if it is not allowed."""
    sources = _sources(hold, write, asked.source_ids)
    memory = _memory(hold, write, asked, sources)
    hold.caller.must_reach(memory.namespace)
    if asked.depth is not None and asked.depth != memory.reflection_depth:
        raise DepthMismatch(f"depth: these sources give {memory.reflection_depth}, not {asked.depth}", fields=["depth"])
    rules = policies.resolved(write.session, memory.namespace)
    must_be_allowed(rules, memory.reflection_depth, memory.namespace)
    must_be_free(hold, write, memory)
    return Planned(memory, sources, rules)


def made(hold: Hold, write: Transaction, planned: Planned) -> Reflected:
    """Write the reflection and its links."""
    memory = write.add(MEMORY, planned.memory, "reflect")
    for source in planned.sources:
        tie(hold, write, memory.id, source.id, "reflects_on")
    source_ids = [source.id for source in planned.sources]
    write.session.do("offer_decide", id=offer_id(source_ids), status="accepted")
    return Reflected(memory, source_ids)


def offer_id(sources: Sequence[str]) -> str:
    """Derive a proposal's id from its sources, in any order."""
    return ids.derived("offer", *sorted(sources))


def _sources(hold: Hold, write: Transaction, given: Sequence[str]) -> list[Memory]:
    """Resolve the sources; raise if one is missing, not visible or a duplicate."""
    if not 0 < len(given) <= MOST_SOURCES:
        raise Invalid(f"source_ids: must have 1 to {MOST_SOURCES} entries (got {len(given)})", fields=["source_ids"])
    found: dict[str, int] = {}
    sources = []
    for index, id in enumerate(given):
        source = _source(hold, write, id, index)
        if (first := found.setdefault(source.id, index)) != index:
            field = f"source_ids[{index}]"
            raise Invalid(f"{field}: same memory as source_ids[{first}]", fields=[field])
        sources.append(source)
    return sources


def _source(hold: Hold, write: Transaction, id: str, index: int) -> Memory:
    try:
        return memories.resolve(write.session, hold.caller, id, write.now)
    except NotFound:
        field = f"source_ids[{index}]"
        raise NotFound(f"{field}: there is no memory {id!r}.", id=id, fields=[field]) from None


def _memory(hold: Hold, write: Transaction, asked: Asked, sources: list[Memory]) -> Memory:
    """Build the memory. Its scope defaults to the narrowest of its sources."""
    draft = Draft(
        title=asked.title,
        content=asked.content,
        namespace=asked.namespace or sources[0].namespace,
        tier=asked.tier,
        kind="reflection",
        priority=asked.priority,
        confidence=asked.confidence,
        source=asked.source,
        scope=_scope(asked, sources),
        tags=asked.tags,
        metadata=asked.metadata,
    )
    draft, _ = hygiene.without_secrets(write.session, draft)
    fresh = admit(
        draft, id=hold.new_id(), agent=hold.caller.agent, origin=write.origin, now=write.now, lifetimes=hold.lifetimes
    )
    depth = depth_on(source.reflection_depth for source in sources)
    return with_origin(replace(fresh, reflection_depth=depth), depth)


def _scope(asked: Asked, sources: list[Memory]) -> Scope | UnsetType:
    if asked.scope is not None:
        return asked.scope
    if "scope" in asked.metadata:
        return UNSET
    return min((source.scope for source in sources), key=get_args(Scope).index)


def _permitted(write: Transaction, planned: Planned, asked: Asked) -> dict[str, Any]:
    """Apply the secret policy to the metadata of a queued request."""
    given = {"metadata": asked.metadata}
    return dict(hygiene.permitted(write.session, planned.memory.namespace, given)[0]["metadata"])


def _ask(hold: Hold, write: Transaction, asked: Asked, planned: Planned) -> Waiting:
    """Queue the request for approval with full ids and the resolved namespace."""
    complete = replace(
        asked,
        title=planned.memory.title,
        content=planned.memory.content,
        tags=planned.memory.tags,
        metadata=_permitted(write, planned, asked),
        source_ids=tuple(source.id for source in planned.sources),
        namespace=planned.memory.namespace,
        reach=hold.caller.namespaces,
    )
    request = msgspec.json.encode(complete).decode()
    pending = Waiting(
        id=planned.memory.id,
        operation=OPERATION,
        namespace=planned.memory.namespace,
        scope=planned.memory.scope,
        request=request,
        agent=hold.caller.agent,
        asked_at=write.now,
        status="pending",
    )
    waiting.add(write.session, pending)
    return pending
