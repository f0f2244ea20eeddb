"""Usage, prices and budgets. Local to this store, never journalled."""

from typing import Any, NamedTuple

from holdfast.features.people.store import list_all_names, list_names
from holdfast.features.usage.price import Budget, Price, Use, period_start
from holdfast.kernel.context import Caller
from holdfast.kernel.storage.local_table import LocalTable, Owner, Retention
from holdfast.kernel.storage.port import Session, SqlPart
from holdfast.kernel.timestamps import DAY

USAGE = LocalTable(
    Use,
    "usage",
    owner=Owner("at"),
    retention=Retention(
        "usage",
        "day",
        part="usage.final",
        # Usage of the current month always stays: budgets count it.
        oldest=lambda now, days: min(now // DAY - days, period_start("month", now)),
    ),
    updates=(),
)
PRICES = LocalTable(Price, "price", ("model", "since"))
BUDGETS = LocalTable(Budget, "budget", plural="budgets", owner=Owner("set_at"))


class UsageTotal(NamedTuple):
    """Totals of a group of calls."""

    day: int | None
    principal: str | None
    model: str | None
    session: str | None
    currency: str | None
    calls: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost: int
    unpriced: int


class UsageFilter(NamedTuple):
    """Filter and grouping of a usage report."""

    since: int
    until: int
    by: frozenset[str]
    principals: tuple[str, ...] = ()
    session: str | None = None
    model: str | None = None
    limit: int = 1000


def find_by_key(session: Session, agent: str, key: str) -> Use | None:
    """Return what an agent recorded under a key."""
    return next(iter(USAGE.select(session, ("usage.by_key",), {"agent": agent, "unique_key": key})), None)


def sum_spent(session: Session, budget: Budget, names: tuple[str, ...], since: int, now: int) -> tuple[int, int]:
    """Sum the tokens and the cost in the current period of a budget, including reservations."""
    row = session.row(
        "usage_spent",
        principal=budget.principal,
        principals=list(names),
        model=budget.model,
        prefix=budget.model[:-1] if budget.model.endswith("*") else "",
        currency=budget.currency or "",
        since=since,
        now=now,
    )
    assert row is not None
    return int(row[0]), int(row[1])


def list_totals(session: Session, caller: Caller, filter: UsageFilter) -> list[UsageTotal]:
    """Compute the totals that the caller may see: an agent its own, an admin all."""
    parts: list[SqlPart] = ["usage_sums"]
    params: dict[str, Any] = {"since": filter.since, "until": filter.until, "limit": filter.limit}
    params |= {f"by_{name}": name in filter.by for name in ("day", "principal", "model", "session")}
    if not caller.has_right("admin"):
        parts.append("usage_sums.agent")
        params |= {"agent": caller.agent, "mine": list(list_names(session, caller.agent))}
    if filter.principals:
        parts.append("usage_sums.principals")
        params["principals"] = list(list_all_names(session, filter.principals))
    for name in ("session", "model"):
        if (value := getattr(filter, name)) is not None:
            parts.append(f"usage_sums.{name}")
            params[name] = value
    return [UsageTotal(*row) for row in session.select([*parts, "usage_sums.grouped"], params)]


def list_prices(session: Session) -> list[Price]:
    return PRICES.select(session, ("price.in_order",), {})


def list_budgets(session: Session) -> list[Budget]:
    return BUDGETS.select(session, ("budget.in_order",), {})
