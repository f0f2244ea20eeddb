"""Usage, prices and budgets. Local to this store, never journalled."""

from typing import Any, NamedTuple

from holdfast.features.people.resolve_names import list_all_names, list_names
from holdfast.features.usage.price import ANY, Period, Price, Tokens
from holdfast.kernel.context import Caller
from holdfast.kernel.storage.port import Session, SqlPart


class Budget(NamedTuple):
    """A limit on tokens or cost per period."""

    id: str
    principal: str
    model: str
    period: Period
    tokens: int | None
    cost: int | None
    currency: str | None

    def covers(self, names: tuple[str, ...], model: str) -> bool:
        price = Price(self.model, 0, "", None, None, None, None)
        return (self.principal == ANY or self.principal in names) and price.matches(model)


class Use(NamedTuple):
    """One call of a model, or a reservation for one."""

    id: str
    at: int
    day: int
    principal: str
    agent: str
    session: str
    model: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost: int | None
    currency: str | None
    state: str = "kept"
    ends_at: int | None = None
    unique_key: str | None = None


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


def add_use(session: Session, use: Use) -> None:
    session.do("usage_add", **use._asdict())


def find_by_key(session: Session, agent: str, key: str) -> tuple[str, int | None, str | None, str, Tokens] | None:
    """Return what an agent recorded under a key: id, cost, currency, model, tokens."""
    row = session.row("usage_by_key", agent=agent, unique_key=key)
    return None if row is None else (row[0], row[1], row[2], row[3], Tokens(*row[4:]))


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
    return [Price(*row) for row in session.rows("price_list")]


def list_budgets(session: Session) -> list[Budget]:
    return [Budget(*row) for row in session.rows("budget_list")]
