"""Record model usage at the price of its day, sum it, enforce budgets."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.features.people.store import list_names
from holdfast.features.usage import price
from holdfast.features.usage import store as usage_store
from holdfast.features.usage.price import Budget, Period, Price, Tokens, Use
from holdfast.features.usage.store import BUDGETS, PRICES, USAGE
from holdfast.kernel.context import Context
from holdfast.kernel.errors import BudgetExceeded, Conflict, NotFound
from holdfast.kernel.model_allowance import format_cost
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import DAY, SECOND

DEFAULT_RESERVATION_SECONDS = 900
"""Default lifetime of a reservation, in seconds."""


class RecordResult(NamedTuple):
    """A recorded call and its cost; None: its tokens have no price."""

    id: str
    cost: int | None
    currency: str | None
    is_repeat: bool = False
    """Whether it was recorded before, under the same key."""


class BudgetStatus(NamedTuple):
    """A budget and what is left of it in the current period."""

    budget: Budget
    since: int
    tokens_left: int | None
    cost_left: int | None


class ModelCall(NamedTuple):
    """A model call as reported by an agent."""

    model: str
    tokens: Tokens
    principal: str
    session: str = ""
    at: int | None = None
    unique_key: str | None = None


def record_usage(ctx: Context, call: ModelCall, reservation: str | None = None) -> RecordResult:
    """Record a call and release its reservation. No budget can refuse it, because the call already happened."""
    with ctx.store.transaction(ctx.progress.begin_commit) as session:
        if call.unique_key is not None and (
            known := usage_store.find_by_key(session, ctx.caller.agent, call.unique_key)
        ):
            if (known.model, known.tokens) != (call.model, call.tokens):
                raise Conflict("unique_key: already used for another call", fields=["unique_key"], id=known.id)
            return RecordResult(known.id, known.cost, known.currency, is_repeat=True)
        if reservation is not None:
            _drop_reservation(session, ctx, reservation)
        use = _build_use(ctx, session, call)
        USAGE.add(session, use)
    return RecordResult(use.id, use.cost, use.currency)


def reserve_usage(
    ctx: Context, call: ModelCall, seconds: int = DEFAULT_RESERVATION_SECONDS
) -> tuple[RecordResult, list[BudgetStatus]]:
    """Reserve a call in every budget that covers it, or raise BudgetExceeded. Concurrent reservations are counted."""
    with ctx.store.transaction(ctx.progress.begin_commit) as session:
        now = ctx.now()
        session.do("usage_delete_expired", now=now)
        use = replace(_build_use(ctx, session, call), state="reserved", ends_at=now + seconds * SECOND)
        names = list_names(session, call.principal)
        left = [
            _read_status(session, one, names, now)
            for one in usage_store.list_budgets(session)
            if one.covers(names, call.model)
        ]
        for one in left:
            _check_budget(one, use, call.tokens.total)
        USAGE.add(session, use)
    return RecordResult(use.id, use.cost, use.currency), left


def release_reservation(ctx: Context, reservation: str) -> None:
    """Release the reservation of a call that was not made."""
    with ctx.store.transaction(ctx.progress.begin_commit) as session:
        _drop_reservation(session, ctx, reservation)


def _drop_reservation(session: Session, ctx: Context, reservation: str) -> None:
    use, caller = USAGE.get(session, reservation), ctx.caller
    if (
        use is None
        or use.state != "reserved"
        or not (caller.has_right("admin") or caller.agent in (use.principal, use.agent))
    ):
        raise NotFound(f"No reservation {reservation!r}: it expired, or was used or released before.")
    USAGE.delete(session, reservation)


def _build_use(ctx: Context, session: Session, call: ModelCall) -> Use:
    now = ctx.now()
    at = now if call.at is None else call.at
    found = price.find_price(usage_store.list_prices(session), call.model, at)
    cost = None if found is None else found.cost(call.tokens)
    return Use(
        id=ctx.new_id(),
        at=at,
        day=at // DAY,
        principal=call.principal,
        agent=ctx.caller.agent,
        session=call.session,
        model=call.model,
        input_tokens=call.tokens.input,
        output_tokens=call.tokens.output,
        cache_read_tokens=call.tokens.cache_read,
        cache_write_tokens=call.tokens.cache_write,
        cost=cost,
        currency=None if cost is None or found is None else found.currency,
        unique_key=call.unique_key,
    )


def _read_status(session: Session, budget: Budget, names: tuple[str, ...], now: int) -> BudgetStatus:
    since = price.period_start(budget.period, now)
    tokens, cost = usage_store.sum_spent(session, budget, names, since, now)
    return BudgetStatus(
        budget,
        since,
        None if budget.tokens is None else budget.tokens - tokens,
        None if budget.cost is None else budget.cost - cost,
    )


def _check_budget(status: BudgetStatus, use: Use, tokens: int) -> None:
    budget = status.budget
    subject = "The shared budget" if budget.principal == price.ANY else f"The budget of {budget.principal}"
    models = "all models" if budget.model == price.ANY else budget.model
    period = "today" if budget.period == "day" else "this month"
    if status.tokens_left is not None and tokens > status.tokens_left:
        remaining = f"{max(status.tokens_left, 0):,} tokens"
        raise BudgetExceeded(
            f"{subject} for {models} has {remaining} left {period}; this call needs {tokens:,}.", budget=budget.id
        )
    if status.cost_left is None:
        return
    if use.cost is None or use.currency != budget.currency:
        raise BudgetExceeded(
            f"{use.model} has no price in {budget.currency}. Set one with `holdfast usage price set`.", budget=budget.id
        )
    if use.cost > status.cost_left:
        remaining = f"{format_cost(max(status.cost_left, 0))} {budget.currency}"
        raise BudgetExceeded(
            f"{subject} for {models} has {remaining} left {period}; this call may cost {format_cost(use.cost)}.",
            budget=budget.id,
        )


def sum_usage(ctx: Context, filter: usage_store.UsageFilter) -> list[usage_store.UsageTotal]:
    with ctx.reading() as session:
        return usage_store.list_totals(session, ctx.caller, filter)


def list_budget_status(ctx: Context) -> list[BudgetStatus]:
    """List the budgets that apply to the caller, with what is left of each; for an admin, all budgets."""
    with ctx.reading() as session:
        found = usage_store.list_budgets(session)
        own = (price.ANY, *list_names(session, ctx.caller.agent))
        own_budgets = found if ctx.caller.has_right("admin") else [one for one in found if one.principal in own]
        return [_read_status(session, one, list_names(session, one.principal), ctx.now()) for one in own_budgets]


def set_price(ctx: Context, new: Price) -> None:
    with ctx.store.transaction(ctx.progress.begin_commit) as session:
        PRICES.put(session, new)


def list_prices(ctx: Context) -> Sequence[Price]:
    with ctx.reading() as session:
        return usage_store.list_prices(session)


def remove_price(ctx: Context, model: str, since: int) -> None:
    with ctx.store.transaction(ctx.progress.begin_commit) as session:
        if not PRICES.delete(session, model, since):
            raise NotFound(f"No price of {model!r} starts on that day.")


def set_budget(
    ctx: Context,
    principal: str,
    model: str,
    period: Period,
    *,
    tokens: int | None,
    cost: int | None,
    currency: str | None,
) -> BudgetStatus:
    """Set or change a budget; without tokens and cost, remove it."""
    id = price.derive_budget_id(principal, model, period)
    budget = Budget(
        id=id,
        principal=principal,
        model=model,
        period=period,
        tokens=tokens,
        cost=cost,
        currency=currency,
        set_by=ctx.caller.agent,
        set_at=ctx.now(),
    )
    with ctx.store.transaction(ctx.progress.begin_commit) as session:
        if tokens is None and cost is None:
            if not BUDGETS.delete(session, id):
                raise NotFound("No such budget.")
        else:
            BUDGETS.put(session, budget)
        return _read_status(session, budget, list_names(session, principal), ctx.now())
