"""Parts of a context block: items read by part, and the budget allocated to them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from holdfast.features.reflections import list_stale
from holdfast.features.reflections.invalidation_store import InvalidationFilter
from holdfast.features.tasks import store as tasks
from holdfast.features.tasks.model import Task
from holdfast.features.tasks.store import TaskFilter
from holdfast.kernel.context import Context
from holdfast.kernel.errors import HoldfastError

Shares = Mapping[str, tuple[float, float]]
"""Minimum and maximum share of the budget per part, in order of priority."""


class Item(NamedTuple):
    """One shown item."""

    text: str
    id: str
    at: int | None = None
    untrusted: bool = False
    place: int = 0
    """Place of a turn in its conversation."""


class ContextPart(NamedTuple):
    """A part of the context, with the items that fit."""

    name: str
    items: list[Item]
    tokens: int = 0
    dropped: int = 0
    """Items that did not fit."""
    degraded: str | None = None
    """Why the part is incomplete, if something failed."""

    def take(self, sizes: Sequence[int], fit: int) -> "ContextPart":
        """Keep the first items, which have these sizes."""
        return self._replace(items=self.items[:fit], tokens=sum(sizes[:fit]), dropped=len(self.items) - fit)


def read_part(name: str, read: Callable[[], list[Item] | ContextPart]) -> ContextPart:
    """Read all items of a part, most important first. If it fails, it is marked degraded and the others still come."""
    try:
        found = read()
    except HoldfastError as error:
        return ContextPart(name, [], degraded=error.message)
    return found if isinstance(found, ContextPart) else ContextPart(name, found)


def list_open_tasks(ctx: Context, principal: str, limit: int) -> list[Task]:
    which = TaskFilter(principals=(principal,), states=("pending", "running"))
    with ctx.reading() as session:
        return tasks.select_tasks(session, ctx.caller, which, limit)


def list_stale_items(ctx: Context, namespaces: Iterable[str | None], limit: int) -> list[Item]:
    """List the open notices of stale memories in some namespaces; None stands for all."""
    with ctx.reading() as session:
        found = [
            one.notice
            for name in namespaces
            for one in list_stale.list_notices(
                ctx, session, InvalidationFilter(statuses=("open",), namespace=name), limit=limit, skip=0
            )[0]
        ]
    return [Item(f"{one.title}: {one.invalidation.reason}", one.invalidation.dependent) for one in found[:limit]]


def allocate_budget(sizes: Mapping[str, Sequence[int]], shares: Shares, budget: int) -> dict[str, int]:
    """Return how many leading items of each part fit, given their sizes. No item is skipped for a later one.

    First each part gets its minimum share, then more in order, up to its maximum share. What is left goes to parts that
    got nothing: each gets its first item if it fits.
    """
    taken, used = dict.fromkeys(sizes, 0), dict.fromkeys(sizes, 0)
    for bound in (0, 1):
        for name in sizes:
            most = int(budget * shares[name][bound])
            for size in sizes[name][taken[name] :]:
                if used[name] + size > most or sum(used.values()) + size > budget:
                    break
                taken[name] += 1
                used[name] += size
    left = budget - sum(used.values())
    for name, found in sizes.items():
        if shares[name][1] and found and not taken[name] and found[0] <= left:
            taken[name] = 1
            left -= found[0]
    return taken
