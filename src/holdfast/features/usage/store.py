"""Usage, prices and budgets. Local to this store, never journalled."""

from typing import Any, NamedTuple

from holdfast.features.people.store import all_known_as, known_as
from holdfast.features.usage.price import ANY, Period, Price, Tokens
from holdfast.kernel.caller import Caller
from holdfast.kernel.storage.port import Part, Session


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
        return (self.principal == ANY or self.principal in names) and price.fits(model)


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


class Sum(NamedTuple):
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


class Asked(NamedTuple):
    """Filter and grouping of a usage report."""

    since: int
    until: int
    by: frozenset[str]
    principals: tuple[str, ...] = ()
    session: str | None = None
    model: str | None = None
    limit: int = 1000


def add(session: Session, use: Use) -> None:
    session.do("usage_add", **use._asdict())


def keyed(session: Session, agent: str, key: str) -> tuple[str, int | None, str | None, str, Tokens] | None:
    """Return what an agent recorded under a key: id, cost, currency, model, tokens."""
    row = session.row("usage_keyed", agent=agent, unique_key=key)
    return None if row is None else (row[0], row[1], row[2], row[3], Tokens(*row[4:]))


def spent(session: Session, budget: Budget, names: tuple[str, ...], since: int, now: int) -> tuple[int, int]:
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


def sums(session: Session, caller: Caller, asked: Asked) -> list[Sum]:
    """Compute the totals that the caller may see: an agent its own, an admin all."""
    parts: list[Part] = ["usage_sums"]
    params: dict[str, Any] = {"since": asked.since, "until": asked.until, "limit": asked.limit}
    params |= {f"by_{name}": name in asked.by for name in ("day", "principal", "model", "session")}
    if not caller.may("admin"):
        parts.append("usage_sums.agent")
        params |= {"agent": caller.agent, "mine": list(known_as(session, caller.agent))}
    if asked.principals:
        parts.append("usage_sums.principals")
        params["principals"] = list(all_known_as(session, asked.principals))
    for name in ("session", "model"):
        if (value := getattr(asked, name)) is not None:
            parts.append(f"usage_sums.{name}")
            params[name] = value
    return [Sum(*row) for row in session.assembled([*parts, "usage_sums.grouped"], params)]


def prices(session: Session) -> list[Price]:
    return [Price(*row) for row in session.rows("price_list")]


def budgets(session: Session) -> list[Budget]:
    return [Budget(*row) for row in session.rows("budget_list")]
