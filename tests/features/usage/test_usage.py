"""Model usage: exact costs at the price of the day, and budgets."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import holdfast
from holdfast.features.usage.price import Price, Tokens, find_price
from holdfast.kernel.errors import BudgetExceeded, Conflict, Forbidden, Invalid, NotFound
from holdfast.kernel.model_allowance import format_cost


@pytest.fixture
def priced_store(clocked_store: holdfast.Holdfast) -> holdfast.Holdfast:
    clocked_store.price_set(model="sonnet-*", input="3", output="15", cache_read="0.30", cache_write="3.75")
    return clocked_store


def test_a_mostly_cached_call_costs_what_the_price_list_says(priced_store: holdfast.Holdfast) -> None:
    done = priced_store.usage_record(model="sonnet-4", input_tokens=1_000, cache_read_tokens=9_000, output_tokens=500)
    assert (done.cost, done.currency, done.priced) == ("0.0132", "USD", True)
    assert done.tokens == 10_500


def test_many_small_costs_add_up_exactly(priced_store: holdfast.Holdfast) -> None:
    for _ in range(30):
        priced_store.usage_record(model="sonnet-4", cache_read_tokens=1)
    (whole,) = priced_store.usage_report().usage
    assert (whole.cost, whole.calls, whole.total_tokens) == ("0.000009", 30, 30)


def test_a_call_without_a_price_is_reported_and_not_counted_as_free(clocked_store: holdfast.Holdfast) -> None:
    clocked_store.price_set(model="holes", input="1", output="2")
    free, hole = (
        clocked_store.usage_record(model="x", input_tokens=5),
        clocked_store.usage_record(model="holes", cache_read_tokens=5),
    )
    assert (free.priced, hole.priced) == (False, False)
    assert clocked_store.usage_record(model="holes", input_tokens=5).priced
    found = clocked_store.usage_report(by=["model"]).usage
    assert {(one.model, one.unpriced_calls, one.cost) for one in found} == {
        ("holes", 0, "0.000005"),
        ("holes", 1, "0"),
        ("x", 1, "0"),
    }


def test_a_price_is_valid_from_its_start_date(clocked_store: holdfast.Holdfast) -> None:
    clocked_store.price_set(model="m", input="10", since="2025-01-01")
    clocked_store.price_set(model="m", input="5", since="2026-01-01")
    for day in ("2025-06-01", "2026-01-01"):
        clocked_store.usage_record(model="m", input_tokens=1_000_000, at=day)
    found = clocked_store.usage_report(by=["day"], since="2025-01-01", until="2026-12-31").usage
    assert {one.day: one.cost for one in found} == {"2025-06-01": "10", "2026-01-01": "5"}
    assert clocked_store.usage_record(model="m", input_tokens=1, at="2024-01-01").priced is False


def make_price(model: str, **rates: int) -> Price:
    return Price(model=model, since=0, currency="USD", set_by="ai:tester@here", set_at=0, **rates)


def test_the_closest_matching_model_name_determines_the_price() -> None:
    prices = [make_price(model, input=1) for model in ("*", "opus-*", "opus-4*", "opus-4")]
    found = [find_price(prices, model, 1) for model in ("opus-4", "opus-4.5", "opus-3", "haiku")]
    assert [one.model if one else None for one in found] == ["opus-4", "opus-4*", "opus-*", "*"]
    assert find_price(prices[1:], "haiku", 1) is None


def test_a_cost_is_an_integer_throughout() -> None:
    price = make_price("m", input=3_000_000, output=15_000_000, cache_read=300_000)
    assert price.cost(Tokens(1, 1, 1, 0)) == 18_300_000
    assert format_cost(18_300_000) == "0.0000183"
    assert price.cost(Tokens(0, 0, 0, 1)) is None


def test_usage_is_summed_by_any_group(priced_store: holdfast.Holdfast, clock: Any) -> None:
    for session, who in (("s1", "ann"), ("s1", "ann"), ("s2", "bob")):
        priced_store.usage_record(model="sonnet-4", input_tokens=100, session=session, principal=who)
    clock.move(days=1)
    priced_store.usage_record(model="sonnet-3", input_tokens=7, session="s2", principal="bob")
    by_day = priced_store.usage_report(by=["day"]).usage
    assert [(one.day, one.input_tokens) for one in by_day] == [("2026-02-01", 7), ("2026-01-31", 300)]
    assert {
        (one.principal, one.model): one.calls for one in priced_store.usage_report(by=["principal", "model"]).usage
    } == {("ann", "sonnet-4"): 2, ("bob", "sonnet-4"): 1, ("bob", "sonnet-3"): 1}
    (one,) = priced_store.usage_report(session="s1").usage
    assert one.input_tokens == 200
    assert priced_store.usage_report(principal=["nobody"]).usage == []


def test_the_same_call_is_recorded_once(priced_store: holdfast.Holdfast) -> None:
    first = priced_store.usage_record(model="sonnet-4", input_tokens=9, unique_key="call-1")
    again = priced_store.usage_record(model="sonnet-4", input_tokens=9, unique_key="call-1")
    assert (first.recorded, again.recorded, again.id) == (True, False, first.id)
    with pytest.raises(Conflict):
        priced_store.usage_record(model="sonnet-4", input_tokens=10, unique_key="call-1")


def test_a_budget_refuses_further_calls_and_records_past_ones(priced_store: holdfast.Holdfast, clock: Any) -> None:
    priced_store.budget_set(principal="ann", cost="0.01")
    held = priced_store.usage_reserve(model="sonnet-4", output_tokens=500, principal="ann")
    assert (held.cost, held.budgets[0].cost_left) == ("0.0075", "0.01")
    with pytest.raises(BudgetExceeded, match=r"0\.0025 USD left today"):
        priced_store.usage_reserve(model="sonnet-4", output_tokens=200, principal="ann")
    assert priced_store.usage_reserve(model="sonnet-4", output_tokens=200, principal="bob").budgets == []
    priced_store.usage_record(model="sonnet-4", output_tokens=2_000, principal="ann", reservation=held.reservation)
    assert priced_store.budget_list().budgets[0].cost_left == "0"
    with pytest.raises(NotFound):
        priced_store.usage_release(reservation=held.reservation)
    with pytest.raises(BudgetExceeded):
        priced_store.usage_reserve(model="sonnet-4", output_tokens=1, principal="ann")
    clock.move(days=1)
    assert priced_store.usage_reserve(model="sonnet-4", output_tokens=1, principal="ann").reservation


def test_a_money_budget_refuses_models_without_a_price(clocked_store: holdfast.Holdfast) -> None:
    clocked_store.budget_set(principal="*", cost="5")
    with pytest.raises(BudgetExceeded, match="has no price in USD"):
        clocked_store.usage_reserve(model="unheard-of", input_tokens=1)


def test_an_unused_reservation_is_released_or_expires(priced_store: holdfast.Holdfast, clock: Any) -> None:
    priced_store.budget_set(principal="*", model="sonnet-*", period="month", tokens=1_000)
    held = priced_store.usage_reserve(model="sonnet-4", input_tokens=900)
    with pytest.raises(BudgetExceeded):
        priced_store.usage_reserve(model="sonnet-4", input_tokens=200)
    priced_store.usage_release(reservation=held.reservation)
    priced_store.usage_reserve(model="sonnet-4", input_tokens=900, seconds=60)
    clock.move(seconds=61)
    assert priced_store.usage_reserve(model="sonnet-4", input_tokens=1_000).reservation
    assert priced_store.usage_report().usage == []


def test_concurrent_reservations_stay_within_the_budget(priced_store: holdfast.Holdfast) -> None:
    priced_store.budget_set(principal="*", tokens=500)

    def try_reserve(_: int) -> bool:
        try:
            return bool(priced_store.usage_reserve(model="sonnet-4", input_tokens=100).reservation)
        except BudgetExceeded:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(try_reserve, range(16))) == 5


def test_a_budget_can_be_removed(clocked_store: holdfast.Holdfast) -> None:
    clocked_store.budget_set(principal="*", tokens=0)
    clocked_store.budget_set(principal="*", lift=True)
    assert clocked_store.budget_list().count == 0
    with pytest.raises(NotFound):
        clocked_store.budget_set(principal="*", lift=True)


def test_an_agent_sees_its_own_usage_and_sets_no_prices(
    clocked_store: holdfast.Holdfast, seen_by: Callable[..., Any]
) -> None:
    ann = seen_by("ann", right="write")
    ann.usage_record(model="m", input_tokens=1)
    clocked_store.usage_record(model="m", input_tokens=10)
    assert [one.input_tokens for one in ann.usage_report().usage] == [1]
    assert [one.input_tokens for one in clocked_store.usage_report().usage] == [11]
    with pytest.raises(Forbidden):
        ann.price_set(model="m", input="0")
    with pytest.raises(Forbidden):
        ann.budget_set(principal="*", tokens=1)


@pytest.mark.parametrize(
    "price",
    [{}, {"input": "x"}, {"input": "-1"}, {"input": "0.0000001"}, {"input": "NaN"}, {"input": "1", "currency": "usd"}],
)
def test_an_invalid_price_is_refused(clocked_store: holdfast.Holdfast, price: dict[str, str]) -> None:
    with pytest.raises(Invalid):
        clocked_store.price_set(model="m", **price)
    assert clocked_store.price_list().count == 0


def test_a_price_can_be_removed(clocked_store: holdfast.Holdfast) -> None:
    clocked_store.price_set(model="m", input="1", since="2026-01-01")
    with pytest.raises(NotFound):
        clocked_store.price_remove(model="m")
    assert clocked_store.price_remove(model="m", since="2026-01-01").count == 0
