"""Usage, prices and budgets. Local to this store, never journalled."""

from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.people.resolve_names import list_all_names, list_names
from holdfast.features.usage.price import (
    Budget,
    Cost,
    Day,
    Price,
    Use,
    derive_budget_id,
    parse_currency,
    parse_model_pattern,
    period_start,
)
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import Invalid
from holdfast.kernel.records.fields import computed
from holdfast.kernel.storage.local_table import Export, LocalTable, Owner, Retention, must_be_free
from holdfast.kernel.storage.port import Session, SqlPart
from holdfast.kernel.timestamps import DAY


def _validate_use(use: Use) -> Use:
    if (use.cost is None) != (use.currency is None):
        raise Invalid("currency: required with a cost, and only then", fields=["currency"])
    if use.currency is not None:
        parse_currency(use.currency)
    return replace(use, day=use.at // DAY)


def _admit_use(session: Session, use: Use, trusted: bool) -> Use:
    if use.unique_key is not None:
        must_be_free("unique_key", find_by_key(session, use.agent, use.unique_key), use.id)
    return use


def _validate_price(price: Price) -> Price:
    parse_model_pattern(price.model)
    parse_currency(price.currency)
    return price


def _validate_budget(budget: Budget) -> Budget:
    parse_model_pattern(budget.model)
    if budget.tokens is None and budget.cost is None:
        raise Invalid("tokens: a budget needs tokens, a cost, or both", fields=["tokens", "cost"])
    if budget.cost is not None or budget.currency is not None:
        parse_currency(budget.currency or "")
    return replace(budget, id=derive_budget_id(budget.principal, budget.model, budget.period))


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
    export=Export(
        "usage",
        includes=lambda use: use.state != "reserved" and use.task is None,
        release=lambda use: replace(use, state="kept", ends_at=None),
        validate=_validate_use,
        admit=_admit_use,
    ),
)
PRICES = LocalTable(
    Price,
    "price",
    ("model", "since"),
    export=Export("prices", latest=lambda price: price.set_at, validate=_validate_price),
)
BUDGETS = LocalTable(
    Budget,
    "budget",
    plural="budgets",
    owner=Owner("set_at"),
    export=Export("budgets", latest=lambda budget: budget.set_at, validate=_validate_budget),
)


class UsageSum(Struct, frozen=True, kw_only=True):
    """Totals of a group of calls."""

    day: Day | None = None
    principal: str | None = None
    model: str | None = None
    session: str | None = None
    currency: str | None = None
    calls: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost: Cost
    unpriced_calls: int
    """Calls without a price; not included in `cost`."""

    @computed
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens


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
    return USAGE.first(session, ("usage.by_key",), {"agent": agent, "unique_key": key})


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


def list_totals(session: Session, caller: Caller, filter: UsageFilter) -> list[UsageSum]:
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
    rows = session.select([*parts, "usage_sums.grouped"], params)
    return [UsageSum(**dict(zip(UsageSum.__struct_fields__, row, strict=True))) for row in rows]


def list_prices(session: Session) -> list[Price]:
    return PRICES.select(session, ("price.in_order",), {})


def list_budgets(session: Session) -> list[Budget]:
    return BUDGETS.select(session, ("budget.in_order",), {})
