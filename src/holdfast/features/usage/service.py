"""Record model usage at the price of its day, sum it, enforce budgets."""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.features.people.store import known_as
from holdfast.features.usage import price
from holdfast.features.usage import store as usage
from holdfast.features.usage.price import Period, Price, Tokens
from holdfast.features.usage.store import Budget, Use
from holdfast.kernel import ids
from holdfast.kernel.context import Hold
from holdfast.kernel.errors import BudgetExceeded, Conflict, NotFound
from holdfast.kernel.model_allowance import amount
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import DAY, SECOND

RESERVED_SECONDS = 900
"""Default lifetime of a reservation, in seconds."""


class Recorded(NamedTuple):
    """A recorded call and its cost; None: its tokens have no price."""

    id: str
    cost: int | None
    currency: str | None
    known: bool = False
    """Whether it was recorded before, under the same key."""


class Left(NamedTuple):
    """A budget and what is left of it in the current period."""

    budget: Budget
    since: int
    tokens: int | None
    cost: int | None


class Called(NamedTuple):
    """A model call as reported by an agent."""

    model: str
    tokens: Tokens
    principal: str
    session: str = ""
    at: int | None = None
    unique_key: str | None = None


def record(hold: Hold, called: Called, reservation: str | None = None) -> Recorded:
    """Record a call and release its reservation. No budget can refuse it, because the call already happened."""
    with hold.store.writing(hold.progress.commit) as session:
        if called.unique_key is not None and (known := usage.keyed(session, hold.caller.agent, called.unique_key)):
            id, cost, currency, model, tokens = known
            if (model, tokens) != (called.model, called.tokens):
                raise Conflict("unique_key: already used for another call", fields=["unique_key"], id=id)
            return Recorded(id, cost, currency, known=True)
        if reservation is not None:
            _settle(session, hold, reservation)
        use = _use(hold, session, called)
        usage.add(session, use)
    return Recorded(use.id, use.cost, use.currency)


def reserve(hold: Hold, called: Called, seconds: int = RESERVED_SECONDS) -> tuple[Recorded, list[Left]]:
    """Reserve a call in every budget that covers it, or raise BudgetExceeded. Concurrent reservations are counted."""
    with hold.store.writing(hold.progress.commit) as session:
        now = hold.now()
        session.do("usage_over", now=now)
        use = _use(hold, session, called)._replace(state="reserved", ends_at=now + seconds * SECOND)
        names = known_as(session, called.principal)
        left = [_left(session, one, names, now) for one in usage.budgets(session) if one.covers(names, called.model)]
        for one in left:
            _must_fit(one, use, called.tokens.total)
        usage.add(session, use)
    return Recorded(use.id, use.cost, use.currency), left


def release(hold: Hold, reservation: str) -> None:
    """Release the reservation of a call that was not made."""
    with hold.store.writing(hold.progress.commit) as session:
        _settle(session, hold, reservation)


def _settle(session: Session, hold: Hold, reservation: str) -> None:
    row = session.row("usage_held", id=reservation)
    if row is None or not (hold.caller.may("admin") or hold.caller.agent in row):
        raise NotFound(f"No reservation {reservation!r}: it expired, or was used or released before.")
    session.do("usage_drop", id=reservation)


def _use(hold: Hold, session: Session, called: Called) -> Use:
    now = hold.now()
    at = now if called.at is None else called.at
    found = price.price_of(usage.prices(session), called.model, at)
    cost = None if found is None else found.cost(called.tokens)
    return Use(
        id=hold.new_id(),
        at=at,
        day=at // DAY,
        principal=called.principal,
        agent=hold.caller.agent,
        session=called.session,
        model=called.model,
        input_tokens=called.tokens.input,
        output_tokens=called.tokens.output,
        cache_read_tokens=called.tokens.cache_read,
        cache_write_tokens=called.tokens.cache_write,
        cost=cost,
        currency=None if cost is None or found is None else found.currency,
        unique_key=called.unique_key,
    )


def _left(session: Session, budget: Budget, names: tuple[str, ...], now: int) -> Left:
    since = price.began(budget.period, now)
    tokens, cost = usage.spent(session, budget, names, since, now)
    return Left(
        budget,
        since,
        None if budget.tokens is None else budget.tokens - tokens,
        None if budget.cost is None else budget.cost - cost,
    )


def _must_fit(left: Left, use: Use, tokens: int) -> None:
    budget = left.budget
    subject = "The shared budget" if budget.principal == price.ANY else f"The budget of {budget.principal}"
    models = "all models" if budget.model == price.ANY else budget.model
    period = "today" if budget.period == "day" else "this month"
    if left.tokens is not None and tokens > left.tokens:
        raise BudgetExceeded(
            f"{subject} for {models} has {max(left.tokens, 0):,} tokens left {period}; this call needs {tokens:,}.",
            budget=budget.id,
        )
    if left.cost is None:
        return
    if use.cost is None or use.currency != budget.currency:
        raise BudgetExceeded(
            f"{use.model} has no price in {budget.currency}. Set one with `holdfast price set`.", budget=budget.id
        )
    if use.cost > left.cost:
        remaining = f"{amount(max(left.cost, 0))} {budget.currency}"
        raise BudgetExceeded(
            f"{subject} for {models} has {remaining} left {period}; this call may cost {amount(use.cost)}.",
            budget=budget.id,
        )


def report(hold: Hold, asked: usage.Asked) -> list[usage.Sum]:
    with hold.reading() as session:
        return usage.sums(session, hold.caller, asked)


def left(hold: Hold) -> list[Left]:
    """List the budgets that apply to the caller, with what is left of each; for an admin, all budgets."""
    with hold.reading() as session:
        found = usage.budgets(session)
        own = (price.ANY, *known_as(session, hold.caller.agent))
        mine = found if hold.caller.may("admin") else [one for one in found if one.principal in own]
        return [_left(session, one, known_as(session, one.principal), hold.now()) for one in mine]


def set_price(hold: Hold, new: Price) -> None:
    with hold.store.writing(hold.progress.commit) as session:
        session.do("price_put", **new._asdict(), set_by=hold.caller.agent, set_at=hold.now())


def prices(hold: Hold) -> Sequence[Price]:
    with hold.reading() as session:
        return usage.prices(session)


def drop_price(hold: Hold, model: str, since: int) -> None:
    with hold.store.writing(hold.progress.commit) as session:
        if session.row("price_drop", model=model, since=since) is None:
            raise NotFound(f"No price of {model!r} starts on that day.")


def set_budget(
    hold: Hold,
    principal: str,
    model: str,
    period: Period,
    *,
    tokens: int | None,
    cost: int | None,
    currency: str | None,
) -> Left:
    """Set or change a budget; without tokens and cost, remove it."""
    id = ids.derived("budget", principal, model, period)
    made = Budget(id, principal, model, period, tokens, cost, currency)
    with hold.store.writing(hold.progress.commit) as session:
        if tokens is None and cost is None:
            if session.row("budget_drop", id=id) is None:
                raise NotFound("No such budget.")
        else:
            session.do("budget_put", **made._asdict(), set_by=hold.caller.agent, set_at=hold.now())
        return _left(session, made, known_as(session, principal), hold.now())
