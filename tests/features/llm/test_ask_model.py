"""Model calls: validated, cached, within the daily budget, and optional."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from typing import Any

import msgspec
import pytest
from msgspec import Struct

import holdfast
from engines import ENGINES_BY_RING
from holdfast.app import Holdfast
from holdfast.features.llm import store as consulted
from holdfast.features.llm.client import Material, ModelAnswer, NoAnswer, Task, ask_model
from holdfast.features.llm.store import ANSWERS
from holdfast.features.usage import service as usage_service
from holdfast.features.usage.price import ModelUsage
from holdfast.features.usage.store import USAGE
from holdfast.kernel.context import Caller
from holdfast.kernel.timestamps import DAY
from holdfast.settings import Settings
from model_server import (
    Handler,
    Provider,
    ReceivedRequest,
    in_turn,
    prompt_of,
    provider,
    replying,
    saying,
    system_of,
    wrap_text,
)
from timeouts import TIMEOUT

KEY = "sk-hunter2"


class Verdict(Struct, frozen=True):
    kind: str
    sure: float


TASK = Task("judge", "Say of what kind the text is.", Verdict, max_tokens=100)
TEXT = [Material("document", "The heron waits at the weir.")]
GOOD = {"kind": "event", "sure": 0.5}


class Clock:
    now = 20_000 * DAY

    def __call__(self) -> int:
        return self.now


both = pytest.mark.parametrize("engine", ENGINES_BY_RING)


@pytest.fixture
def clock() -> Clock:
    return Clock()


Open = Callable[..., Holdfast]


@pytest.fixture
def open_store(db: str, clock: Clock) -> Iterator[Open]:
    """Open the store with a model behind a test server."""
    held: list[Holdfast] = []

    def open_with(server: Provider, **settings: Any) -> Holdfast:
        values = {"llm": "openai", "llm_url": server.url, "llm_model": "m", "llm_key": KEY, **settings}
        held.append(holdfast.app.open(settings=Settings(db=db, **values), now=clock, once=True))
        return held[-1]

    yield open_with
    for one in held:
        one.close()


def usage(hold: Holdfast) -> list[ModelUsage]:
    with hold.ctx.reading() as session:
        return usage_service.list_usage(session, hold.ctx.now(), 30)


def test_without_a_model_there_is_no_help_and_nothing_is_written(hold: Holdfast) -> None:
    assert ask_model(hold.ctx, TASK, TEXT) == NoAnswer("no model is set")
    assert usage(hold) == []


def test_an_answer_is_typed_and_names_its_model(open_store: Open) -> None:
    with provider(saying(GOOD)) as server:
        assert ask_model(open_store(server).ctx, TASK, TEXT) == ModelAnswer(Verdict("event", 0.5), "m-1", cached=False)


@both
def test_the_same_question_is_billed_once_across_processes(open_store: Open) -> None:
    with provider(saying(GOOD)) as server:
        for cached in (False, True):
            hold = open_store(server)
            assert ask_model(hold.ctx, TASK, TEXT) == ModelAnswer(Verdict("event", 0.5), "m-1", cached)
    assert len(server.asked) == 1
    assert [
        (one.calls, one.answered, one.input_tokens, one.output_tokens, one.cached_tokens) for one in usage(hold)
    ] == [(1, 1, 120, 30, 100)]


OTHERS: dict[str, tuple[Task[Verdict], list[Material]]] = {
    "task": (TASK._replace(name="other"), TEXT),
    "instructions": (TASK._replace(instructions="Say something else."), TEXT),
    "text": (TASK, [Material("document", "The heron leaves.")]),
    "label": (TASK, [Material("title", TEXT[0].text)]),
    "trust": (TASK, [TEXT[0]._replace(trusted=True)]),
    "more": (TASK, [*TEXT, Material("also", "x")]),
}


@pytest.mark.parametrize(("task", "material"), OTHERS.values(), ids=OTHERS.keys())
def test_a_different_question_is_a_new_call(open_store: Open, task: Task[Verdict], material: list[Material]) -> None:
    with provider(saying(GOOD)) as server:
        ctx = open_store(server).ctx
        ask_model(ctx, TASK, TEXT)
        again = ask_model(ctx, task, material)
    assert isinstance(again, ModelAnswer)
    assert not again.cached


def test_a_cached_answer_is_not_shared_between_callers(open_store: Open) -> None:
    with provider(saying(GOOD)) as server:
        ctx = open_store(server).ctx
        seen = [ask_model(ctx.for_caller(Caller(agent=name)), TASK, TEXT) for name in ("ai:a", "ai:b", "ai:a")]
    assert [one.cached for one in seen if isinstance(one, ModelAnswer)] == [False, False, True]


def test_an_invalid_answer_is_retried_once_with_the_error(open_store: Open) -> None:
    with provider(saying({"kind": 7, "sure": 1}, GOOD)) as server:
        hold = open_store(server)
        assert ask_model(hold.ctx, TASK, TEXT) == ModelAnswer(Verdict("event", 0.5), "m-1", cached=False)
    assert "Expected `str`, got `int` - at `$.kind`" in prompt_of(server.asked[1])
    assert [(one.calls, one.answered) for one in usage(hold)] == [(2, 1)]


UNFIT = {
    "prose": "The text is an event.",
    "two values": '{"kind": "event", "sure": 1} {"kind": "event", "sure": 1}',
    "truncated": '{"kind": "event", "su',
    "a field is missing": '{"kind": "event"}',
    "another shape": "[]",
    "null": "null",
    "a number as a text": '{"kind": "event", "sure": "1"}',
    "html": "<!DOCTYPE html><title>Sign in</title>",
    "deep": "[" * 100_000,
    "a lone surrogate": '{"kind": "\\ud800", "sure": 1}',
    "NaN": '{"kind": "event", "sure": NaN}',
}


@pytest.mark.parametrize("text", UNFIT.values(), ids=UNFIT.keys())
def test_two_invalid_answers_are_not_used_or_cached(open_store: Open, text: str) -> None:
    with provider(saying(text)) as server:
        hold = open_store(server)
        found = [ask_model(hold.ctx, TASK, TEXT) for _ in range(2)]
    assert all(isinstance(one, NoAnswer) and "two invalid answers" in one.reason for one in found)
    assert len(server.asked) == 4
    assert [(one.calls, one.answered, one.output_tokens) for one in usage(hold)] == [(4, 0, 120)]


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"kind": "event", "sure": 0.5}\n```',
        '```\n{"kind": "event", "sure": 0.5}```',
        '\n {"kind": "event", "sure": 0.5, "more": "is let pass"}\n',
        '<think>\n{"kind": 7}\n</think>\n{"kind": "event", "sure": 0.5}',
    ],
    ids=["fenced", "fenced at its end", "bare", "after a thought"],
)
def test_text_around_an_answer_is_removed(open_store: Open, text: str) -> None:
    with provider(saying(text)) as server:
        found = ask_model(open_store(server).ctx, TASK, TEXT)
    assert found == ModelAnswer(Verdict("event", 0.5), "m-1", cached=False)


def test_a_failed_call_reports_why_without_the_key(open_store: Open) -> None:
    with provider(replying({"error": f"no {KEY}"}, 401)) as server:
        found = ask_model(open_store(server).ctx, TASK, TEXT)
    assert isinstance(found, NoAnswer)
    assert found.answered
    assert "does not accept the key (HTTP 401): set llm_key" in found.reason
    assert KEY not in found.reason


@both
def test_no_model_is_called_inside_a_transaction(open_store: Open) -> None:
    with provider(saying(GOOD)) as server:
        ctx = open_store(server).ctx
        for within in (ctx.reading, ctx.transaction):
            with within(), pytest.raises(RuntimeError, match="inside a transaction"):
                ask_model(ctx, TASK, TEXT)
        assert isinstance(ask_model(ctx, TASK, TEXT), ModelAnswer)
    assert len(server.asked) == 1


@both
def test_others_read_and_write_while_a_model_thinks(open_store: Open) -> None:
    asked, go = Event(), Event()

    def thinking(handler: Handler, question: ReceivedRequest) -> None:
        asked.set()
        go.wait()
        handler.reply(wrap_text(question, msgspec.json.encode(GOOD).decode()))

    with provider(thinking) as server, ThreadPoolExecutor() as pool:
        hold = open_store(server)
        found = pool.submit(ask_model, hold.ctx, TASK, TEXT)
        try:
            assert asked.wait(TIMEOUT)
            memory = hold.store(title="t", content="Kept meanwhile.")
            assert hold.get(memory.id).content == "Kept meanwhile."
            assert not found.done()
        finally:
            go.set()
        assert isinstance(found.result(), ModelAnswer)


def test_a_too_long_text_is_not_sent(open_store: Open) -> None:
    with provider(saying(GOOD)) as server:
        found = ask_model(open_store(server).ctx, TASK, [Material("document", "x" * 400_001)])
    assert isinstance(found, NoAnswer)
    assert "400,000 characters" in found.reason
    assert server.asked == []


# What it takes


@both
def test_the_cost_of_a_call_is_exact(open_store: Open) -> None:
    with provider(saying(GOOD)) as server:
        hold = open_store(server, llm_price_in=75_000, llm_price_out=300_001)
        ask_model(hold.ctx, TASK, TEXT)
    assert [(one.spent_tokens, one.cost) for one in usage(hold)] == [(150, 120 * 75_000 + 30 * 300_001)]


@both
def test_calls_of_the_model_are_in_the_ledger_but_not_in_reports_budgets_or_exports(open_store: Open) -> None:
    with provider(saying(GOOD)) as server:
        hold = open_store(server, llm_price_in=75_000, llm_price_out=300_001)
        hold.budget_set(principal="*", tokens=1000)
        hold.usage_record(model="m-1", input_tokens=7)
        ask_model(hold.ctx, TASK, TEXT)
    assert [(one.model, one.calls, one.spent_tokens) for one in hold.llm_usage().usage] == [("m-1", 1, 150)]
    assert [(one.calls, one.input_tokens) for one in hold.usage_report(by=["model"]).usage] == [(1, 7)]
    assert [one.tokens_left for one in hold.budget_list().budgets] == [993]
    assert [one["input_tokens"] for one in hold.export()["usage"]] == [7]
    with hold.ctx.store.transaction() as session:
        assert USAGE.delete_expired(session, hold.ctx.now() // DAY + 1, 10) == 1
    assert hold.llm_usage().spent_today == 150


@both
def test_a_spent_daily_budget_stops_calls_until_the_next_day(open_store: Open, clock: Clock) -> None:
    with provider(saying(GOOD)) as server:
        ctx = open_store(server, llm_daily_tokens=1000).ctx
        assert isinstance(ask_model(ctx, TASK, TEXT), ModelAnswer)
        other = [Material("document", "The heron leaves.")]
        over = ctx.allowance._replace(daily_tokens=200)
        small = replace(ctx, allowance=over)
        assert ask_model(small, TASK, other) == NoAnswer("the daily budget of 200 tokens is spent")
        assert isinstance(ask_model(small, TASK, TEXT), ModelAnswer)
        clock.now += DAY
        large = replace(ctx, allowance=over._replace(daily_tokens=1000))
        assert isinstance(ask_model(large, TASK, other), ModelAnswer)
    assert len(server.asked) == 2


def test_missing_token_counts_are_computed_here(open_store: Open) -> None:
    def reply_without_usage(handler: Any, asked: Any) -> None:
        handler.reply({"choices": wrap_text(asked, msgspec.json.encode(GOOD).decode())["choices"]})

    with provider(reply_without_usage) as server:
        hold = open_store(server)
        assert ask_model(hold.ctx, TASK, TEXT) == ModelAnswer(Verdict("event", 0.5), "m", cached=False)
    ((given, made),) = [(one.input_tokens, one.output_tokens) for one in usage(hold)]
    assert given > 200
    assert made > 5


def test_a_refusal_costs_nothing_and_an_aborted_answer_counts_as_the_maximum(open_store: Open) -> None:
    with provider(in_turn(replying({}, 400), replying({}, 400), replying({}, 400), replying(b"{"))) as server:
        hold = open_store(server)
        ask_model(hold.ctx, TASK, TEXT)
        assert [(one.spent_tokens, one.cost) for one in usage(hold)] == [(0, 0)]
        ask_model(hold.ctx, TASK, TEXT)
    ((spent, cost, answered),) = [(one.spent_tokens, one.cost, one.answered) for one in usage(hold)]
    assert spent > 300
    assert (cost, answered) == (0, 0)


def test_a_skipped_model_costs_neither_a_row_nor_a_wait(open_store: Open) -> None:
    with provider(lambda handler, _: handler.server.closing.wait()) as server:
        hold = open_store(server, llm_timeout_secs=0.2)
        found = [ask_model(hold.ctx, TASK, TEXT) for _ in range(3)]
    assert all(isinstance(one, NoAnswer) and "is skipped for" in one.reason for one in found[1:])
    assert [one.calls for one in usage(hold)] == [1]


# How long answers are kept


@both
def test_an_answer_is_cached_for_a_week(open_store: Open, clock: Clock) -> None:
    with provider(saying(GOOD)) as server:
        hold = open_store(server)
        ask_model(hold.ctx, TASK, TEXT)
        clock.now += 7 * DAY + 1
        found = ask_model(hold.ctx, TASK, TEXT)
        assert isinstance(found, ModelAnswer)
        assert not found.cached
        clock.now += 7 * DAY + 1
        hold.gc()
        with hold.ctx.reading() as session:
            assert ANSWERS.count(session) == 0


@both
def test_a_purge_clears_the_answer_cache(open_store: Open) -> None:
    with provider(saying(GOOD)) as server:
        hold = open_store(server)
        memory = hold.store(title="t", content=TEXT[0].text)
        ask_model(hold.ctx, TASK, TEXT)
        hold.archive(ids=[memory.id], reason="gone")
        hold.archive_purge(ids=[memory.id])
        with hold.ctx.reading() as session:
            assert ANSWERS.count(session) == 0


@both
def test_answers_are_bounded_in_number_and_the_oldest_go_first(
    open_store: Open, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consulted, "MAX_ANSWERS", 5)
    monkeypatch.setattr(consulted, "EVICT_COUNT", 1)
    with provider(saying(GOOD)) as server:
        ctx = open_store(server).ctx
        for number in range(6):
            clock.now += 1
            ask_model(ctx, TASK, [Material("document", str(number))])
        kept = [ask_model(ctx, TASK, [Material("document", str(number))]) for number in (5, 2)]
    assert [one.cached for one in kept if isinstance(one, ModelAnswer)] == [True, True]
    with ctx.reading() as session:
        assert ANSWERS.count(session) == 4


# What is asked


def test_the_rules_are_the_same_bytes_in_every_question_and_the_text_comes_before_the_task(open_store: Open) -> None:
    with provider(saying(GOOD)) as server:
        ctx = open_store(server).ctx
        ask_model(ctx, TASK, TEXT)
        ask_model(ctx, TASK._replace(name="next", instructions="Something else."), [*TEXT, Material("r", "1", True)])
    first, second = server.asked
    assert system_of(first) == system_of(second)
    shared = prompt_of(first).index("<<<task")
    assert prompt_of(first)[:shared] == prompt_of(second)[:shared]
    assert TEXT[0].text in prompt_of(first)[:shared]


def test_no_secret_is_sent_to_a_model_or_stored_from_its_answer(open_store: Open) -> None:
    key = "ghp_" + "aB3d" * 9
    told = Verdict("It is [redacted: github token].", 0.5)
    with provider(saying({"kind": f"It is {key}.", "sure": 0.5})) as server:
        ctx = open_store(server).ctx
        found = [ask_model(ctx, TASK, [Material("document", f"Use {key} now.")]) for _ in range(2)]
    assert found == [ModelAnswer(told, "m-1", cached=False), ModelAnswer(told, "m-1", cached=True)]
    sent = str([one.body for one in server.asked])
    assert (key in sent, "Use [redacted: github token] now." in sent) == (False, True)
