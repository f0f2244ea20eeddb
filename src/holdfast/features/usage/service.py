"""Record model usage at the price of its day, sum it, enforce budgets."""

from msgspec.structs import asdict, replace

from holdfast.features.people.resolve_names import list_names
from holdfast.features.usage import price
from holdfast.features.usage import store as usage_store
from holdfast.features.usage.price import Budget, BudgetStatus, ModelUsage, Price, Use
from holdfast.features.usage.store import BUDGETS, PRICES, USAGE
from holdfast.kernel.context import Context
from holdfast.kernel.errors import BudgetExceeded, Conflict, NotFound
from holdfast.kernel.model_allowance import format_cost
from holdfast.kernel.storage.port import Session
from holdfast.kernel.timestamps import DAY, SECOND

USAGE_DAYS = 400
"""How long calls of the store's own model are kept."""


def record_usage(ctx: Context, call: Use, reservation: str | None = None) -> tuple[Use, bool]:
    """Record a call and release its reservation; return it with its cost, and whether it was recorded before.

    No budget can refuse it, because the call already happened.
    """
    with ctx.store.transaction(ctx.progress.begin_commit) as session:
        if call.unique_key is not None and (known := usage_store.find_by_key(session, call.agent, call.unique_key)):
            if (known.model, known.tokens) != (call.model, call.tokens):
                raise Conflict("unique_key: already used for another call", fields=["unique_key"], id=known.id)
            return known, True
        if reservation is not None:
            _drop_reservation(session, ctx, reservation)
        return USAGE.add(session, _set_cost(session, call)), False


def reserve_usage(ctx: Context, call: Use, seconds: int) -> tuple[Use, list[BudgetStatus]]:
    """Reserve a call in every budget that covers it, or raise BudgetExceeded. Concurrent reservations are counted."""
    with ctx.store.transaction(ctx.progress.begin_commit) as session:
        now = ctx.now()
        session.do("usage_delete_expired", now=now)
        use = replace(_set_cost(session, call), state="reserved", ends_at=now + seconds * SECOND)
        names = list_names(session, call.principal)
        budgets = [
            _read_status(session, one, names, now)
            for one in usage_store.list_budgets(session)
            if one.covers(names, call.model)
        ]
        for one in budgets:
            _check_budget(one, use)
        return USAGE.add(session, use), budgets


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


def _set_cost(session: Session, call: Use) -> Use:
    """Price a call at the price of its day."""
    found = price.find_price(usage_store.list_prices(session), call.model, call.at)
    cost = None if found is None else found.cost(call.tokens)
    return replace(call, cost=cost, currency=None if cost is None or found is None else found.currency)


def _read_status(session: Session, budget: Budget, names: tuple[str, ...], now: int) -> BudgetStatus:
    since = price.period_start(budget.period, now)
    tokens, cost = usage_store.sum_spent(session, budget, names, since, now)
    return BudgetStatus(**asdict(budget), since=since, tokens_used=tokens, cost_used=cost)


def _check_budget(budget: BudgetStatus, use: Use) -> None:
    subject = "The shared budget" if budget.principal == price.ANY else f"The budget of {budget.principal}"
    models = "all models" if budget.model == price.ANY else budget.model
    period = "today" if budget.period == "day" else "this month"
    tokens = use.tokens.total
    if budget.tokens is not None and budget.tokens_used + tokens > budget.tokens:
        raise BudgetExceeded(
            f"{subject} for {models} has {budget.tokens_left:,} tokens left {period}; this call needs {tokens:,}.",
            budget=budget.id,
        )
    if budget.cost is None or budget.cost_left is None:
        return
    if use.cost is None or use.currency != budget.currency:
        raise BudgetExceeded(
            f"{use.model} has no price in {budget.currency}. Set one with `holdfast usage price set`.", budget=budget.id
        )
    if budget.cost_used + use.cost > budget.cost:
        remaining = f"{format_cost(budget.cost_left)} {budget.currency}"
        raise BudgetExceeded(
            f"{subject} for {models} has {remaining} left {period}; this call may cost {format_cost(use.cost)}.",
            budget=budget.id,
        )


def sum_usage(ctx: Context, filter: usage_store.UsageFilter) -> list[usage_store.UsageSum]:
    with ctx.reading() as session:
        return usage_store.list_totals(session, ctx.caller, filter)


def list_budget_status(ctx: Context) -> list[BudgetStatus]:
    """List the budgets that apply to the caller, with what is left of each; for an admin, all budgets."""
    with ctx.reading() as session:
        found = usage_store.list_budgets(session)
        own = (price.ANY, *list_names(session, ctx.caller.agent))
        own_budgets = found if ctx.caller.has_right("admin") else [one for one in found if one.principal in own]
        return [_read_status(session, one, list_names(session, one.principal), ctx.now()) for one in own_budgets]


def set_price(ctx: Context, new: Price) -> Price:
    with ctx.store.transaction(ctx.progress.begin_commit) as session:
        return PRICES.put(session, new)


def list_prices(ctx: Context) -> list[Price]:
    with ctx.reading() as session:
        return usage_store.list_prices(session)


def remove_price(ctx: Context, model: str, since: int) -> None:
    with ctx.store.transaction(ctx.progress.begin_commit) as session:
        if not PRICES.delete(session, model, since):
            raise NotFound(f"No price of {model!r} starts on that day.")


def set_budget(ctx: Context, budget: Budget) -> BudgetStatus:
    """Set or change a budget; one without tokens and cost is removed."""
    with ctx.store.transaction(ctx.progress.begin_commit) as session:
        if budget.tokens is not None or budget.cost is not None:
            BUDGETS.put(session, budget)
        elif not BUDGETS.delete(session, budget.id):
            raise NotFound("No such budget.")
        return _read_status(session, budget, list_names(session, budget.principal), ctx.now())


# Calls of the store's own model


def count_spent(session: Session, now: int) -> int:
    """Read the tokens spent today, reserved ones included."""
    ((tokens,),) = session.rows("usage_tokens_spent", day=now // DAY)
    return int(tokens)


def reserve_tokens(session: Session, *, id: str, agent: str, task: str, model: str, tokens: int, now: int) -> Use:
    """Reserve tokens for a call before it is made. They stay counted if the call is never finished."""
    call = {"agent": agent, "principal": agent, "task": task, "model": model, "outcome": "asked", "spent": tokens}
    return USAGE.add(session, Use(id=id, at=now, day=now // DAY, cost=0, **call))  # type: ignore[arg-type]


def finish_call(session: Session, call: Use) -> None:
    columns = ("id", "model", "input_tokens", "output_tokens", "cache_read_tokens", "cost", "outcome", "spent")
    session.do("usage_finish", **{name: getattr(call, name) for name in columns})


def list_usage(session: Session, now: int, days: int) -> list[ModelUsage]:
    """Read the usage of the last days, newest first."""
    return [ModelUsage(*row) for row in session.rows("usage_of_tasks", since=now // DAY - days + 1)]


def prune_calls(session: Session, now: int) -> None:
    """Delete the calls past their retention."""
    session.do("usage_prune_tasks", before=now // DAY - USAGE_DAYS)
