"""The `get` operation: a memory with what other features know of it, now or at a past time."""

from msgspec import UNSET, UnsetType

from holdfast.features.graph import service as link_service
from holdfast.features.graph.service import LinkView, link_view
from holdfast.features.history import service as history_service
from holdfast.features.memories import find_memories, store_memory
from holdfast.features.memories import read_memories as memories
from holdfast.features.memories.views import MemoryView, memory_view
from holdfast.features.namespaces.secrets import list_secret_kinds
from holdfast.features.reflections import read_invalidations as invalidations
from holdfast.features.reflections.list_stale import StaleView, stale_view
from holdfast.kernel.context import Context
from holdfast.kernel.registry.fields import AsOf, Id, KnownAt
from holdfast.kernel.registry.operation import Effect, Example, Request, operation
from holdfast.kernel.timestamps import parse_time


class Get(Request, frozen=True):
    id: Id
    as_of: AsOf | None = None
    known_at: KnownAt | None = None


class GetResult(MemoryView, frozen=True, kw_only=True):
    links: list[LinkView]
    also: list[str] | UnsetType = UNSET
    """Ids of memories with the same title from other stores, shown as this one; get accepts them, too."""
    stale: StaleView | UnsetType = UNSET
    """Set if a source changed or was deleted and its notice is not resolved."""
    restated: int | UnsetType = UNSET
    """How often a duplicate of it was stored."""
    secrets: list[str] | UnsetType = UNSET
    """Kinds of secrets it contains, unless its namespace allows them."""


@operation(
    Effect.READ,
    "GET /api/v1/memories/{id}",
    topic="memories",
    human="holdfast.features.memories.render:render_memory",
    examples=(
        Example({"id": "no-such-memory"}, error="NOT_FOUND"),
        Example({"id": "1f3a9c20"}, prepared=True),
        Example({"id": "1f3a9c20", "known_at": "2030-01-01"}, prepared=True),
    ),
)
def get(ctx: Context, request: Get) -> GetResult:
    """Show a memory with its links, now or at a past time."""
    as_of, known_at = parse_time(request.as_of, "as_of"), parse_time(request.known_at, "known_at")
    with ctx.reading() as session:
        if as_of is None and known_at is None:
            memory = find_memories.get(ctx, session, request.id)
            stale = invalidations.find_stale(session, ctx.caller, [memory.id], ctx.now())
        else:
            memory = history_service.get_past_state(ctx, session, request.id, as_of=as_of, known_at=known_at)
            stale = {}
        links = [link_view(link) for link in link_service.list_links(ctx, session, memory.id, valid_at=as_of)]
        also = [row[0] for row in session.rows("title_group_others", id=memory.id)] or UNSET
        used = memories.read_access_counts(session, [memory.id]).get(memory.id, (0, 0))
    return memory_view(
        memory,
        used,
        type=GetResult,
        links=links,
        also=also,
        stale=stale_view(stale.get(memory.id)),
        restated=store_memory.get_duplicate_count(ctx, memory.id) or UNSET,
        secrets=list_secret_kinds(ctx, memory) or UNSET,
    )
