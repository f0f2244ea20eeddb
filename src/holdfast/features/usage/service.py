"""What models took: recorded with the price of its day, summed, and held to budgets."""

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
"""How long room is held for a call before it counts as not made."""


class Recorded(NamedTuple):
    """A use, and what it cost; None: nobody has said what such tokens cost."""

    id: str
    cost: int | None
    currency: str | None
    known: bool = False
    """Whether it was recorded before."""


class Left(NamedTuple):
    """A budget, and what is left of it in its period."""

    budget: Budget
    since: int
    tokens: int | None
    cost: int | None


class Called(NamedTuple):
    """A call of a model, as an agent says it."""

    model: str
    tokens: Tokens
    principal: str
    session: str = ""
    at: int | None = None
    unique_key: str | None = None


def record(hold: Hold, called: Called, reservation: str | None = None) -> Recorded:
    """Write down what a call took. It happened, so no budget stands against it; what was reserved for it is free."""
    with hold.store.writing(hold.progress.commit) as session:
        if called.unique_key is not None and (known := usage.keyed(session, hold.caller.agent, called.unique_key)):
            id, cost, currency, model, tokens = known
            if (model, tokens) != (called.model, called.tokens):
                raise Conflict("unique_key: another call was recorded under it", fields=["unique_key"], id=id)
            return Recorded(id, cost, currency, known=True)
        if reservation is not None:
            _settle(session, hold, reservation)
        use = _use(hold, session, called)
        usage.add(session, use)
    return Recorded(use.id, use.cost, use.currency)


def reserve(hold: Hold, called: Called, seconds: int = RESERVED_SECONDS) -> tuple[Recorded, list[Left]]:
    """Hold room for a call in every budget that covers it, or refuse it: of two at once, one may be too much."""
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
    """Give back the room for a call that was not made."""
    with hold.store.writing(hold.progress.commit) as session:
        _settle(session, hold, reservation)


def _settle(session: Session, hold: Hold, reservation: str) -> None:
    row = session.row("usage_held", id=reservation)
    if row is None or not (hold.caller.may("admin") or hold.caller.agent in row):
        raise NotFound(f"There is no reservation {reservation!r}: it is over, or was settled before.")
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
    who = "everybody" if budget.principal == price.ANY else budget.principal
    if left.tokens is not None and tokens > left.tokens:
        raise BudgetExceeded(
            f"{who} may use {max(left.tokens, 0):,} more tokens of {budget.model} this {budget.period}; "
            f"this needs {tokens:,}.",
            budget=budget.id,
        )
    if left.cost is None:
        return
    if use.cost is None or use.currency != budget.currency:
        raise BudgetExceeded(
            f"Nobody has said what {use.model} costs in {budget.currency}: set its price.", budget=budget.id
        )
    if use.cost > left.cost:
        more = amount(max(left.cost, 0))
        raise BudgetExceeded(
            f"{who} may spend {more} {budget.currency} more on {budget.model} this {budget.period}; "
            f"this may cost {amount(use.cost)}.",
            budget=budget.id,
        )


def report(hold: Hold, asked: usage.Asked) -> list[usage.Sum]:
    with hold.reading() as session:
        return usage.sums(session, hold.caller, asked)


def left(hold: Hold) -> list[Left]:
    """Every budget that concerns the caller, with what is left of it."""
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
            raise NotFound(f"There is no price of {model!r} that begins then.")


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
    """Set, change or, with neither tokens nor money, lift a budget."""
    id = ids.derived("budget", principal, model, period)
    made = Budget(id, principal, model, period, tokens, cost, currency)
    with hold.store.writing(hold.progress.commit) as session:
        if tokens is None and cost is None:
            if session.row("budget_drop", id=id) is None:
                raise NotFound("There is no such budget.")
        else:
            session.do("budget_put", **made._asdict(), set_by=hold.caller.agent, set_at=hold.now())
        return _left(session, made, known_as(session, principal), hold.now())
