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
from holdfast.features.llm.client import Consulted, Material, Task, Unhelped, consult
from holdfast.kernel.caller import Caller
from holdfast.kernel.timestamps import DAY
from holdfast.settings import Settings
from model_server import Asked, Handler, Provider, in_turn, prompt_of, provider, replying, said, saying, system_of
from timeouts import TIMEOUT

KEY = "sk-hunter2"


class Verdict(Struct, frozen=True):
    kind: str
    sure: float


TASK = Task("judge", "Say of what kind the text is.", Verdict, most_tokens=100)
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


def usage(hold: Holdfast) -> list[consulted.Usage]:
    with hold.hold.reading() as session:
        return consulted.usage(session, hold.hold.now(), 30)


def test_without_a_model_there_is_no_help_and_nothing_is_written(hold: Holdfast) -> None:
    assert consult(hold.hold, TASK, TEXT) == Unhelped("no model is set")
    assert usage(hold) == []


def test_an_answer_is_typed_and_says_who_gave_it(open_store: Open) -> None:
    with provider(saying(GOOD)) as server:
        assert consult(open_store(server).hold, TASK, TEXT) == Consulted(Verdict("event", 0.5), "m-1", cached=False)


@both
def test_the_same_question_is_paid_for_once_by_any_process(open_store: Open) -> None:
    with provider(saying(GOOD)) as server:
        for cached in (False, True):
            hold = open_store(server)
            assert consult(hold.hold, TASK, TEXT) == Consulted(Verdict("event", 0.5), "m-1", cached)
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
def test_another_question_is_another_one(open_store: Open, task: Task[Verdict], material: list[Material]) -> None:
    with provider(saying(GOOD)) as server:
        hold = open_store(server).hold
        consult(hold, TASK, TEXT)
        again = consult(hold, task, material)
    assert isinstance(again, Consulted)
    assert not again.cached


def test_what_one_caller_was_answered_is_not_given_to_another(open_store: Open) -> None:
    with provider(saying(GOOD)) as server:
        hold = open_store(server).hold
        seen = [consult(hold.seen_by(Caller(agent=name)), TASK, TEXT) for name in ("ai:a", "ai:b", "ai:a")]
    assert [one.cached for one in seen if isinstance(one, Consulted)] == [False, False, True]


def test_an_answer_that_does_not_fit_is_asked_for_once_more_with_what_is_wrong(open_store: Open) -> None:
    with provider(saying({"kind": 7, "sure": 1}, GOOD)) as server:
        hold = open_store(server)
        assert consult(hold.hold, TASK, TEXT) == Consulted(Verdict("event", 0.5), "m-1", cached=False)
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
def test_what_does_not_fit_twice_is_no_help_and_is_not_kept(open_store: Open, text: str) -> None:
    with provider(saying(text)) as server:
        hold = open_store(server)
        found = [consult(hold.hold, TASK, TEXT) for _ in range(2)]
    assert all(isinstance(one, Unhelped) and "two invalid answers" in one.reason for one in found)
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
def test_what_stands_around_an_answer_is_taken_off(open_store: Open, text: str) -> None:
    with provider(saying(text)) as server:
        found = consult(open_store(server).hold, TASK, TEXT)
    assert found == Consulted(Verdict("event", 0.5), "m-1", cached=False)


def test_a_model_that_fails_is_no_help_and_says_why_without_the_key(open_store: Open) -> None:
    with provider(replying({"error": f"no {KEY}"}, 401)) as server:
        found = consult(open_store(server).hold, TASK, TEXT)
    assert isinstance(found, Unhelped)
    assert found.answered
    assert "does not accept the key (HTTP 401): set llm_key" in found.reason
    assert KEY not in found.reason


@both
def test_no_model_is_consulted_inside_a_transaction(open_store: Open) -> None:
    with provider(saying(GOOD)) as server:
        hold = open_store(server).hold
        for within in (hold.reading, hold.writing):
            with within(), pytest.raises(RuntimeError, match="inside a transaction"):
                consult(hold, TASK, TEXT)
        assert isinstance(consult(hold, TASK, TEXT), Consulted)
    assert len(server.asked) == 1


@both
def test_others_read_and_write_while_a_model_thinks(open_store: Open) -> None:
    asked, go = Event(), Event()

    def thinking(handler: Handler, question: Asked) -> None:
        asked.set()
        go.wait()
        handler.reply(said(question, msgspec.json.encode(GOOD).decode()))

    with provider(thinking) as server, ThreadPoolExecutor() as pool:
        hold = open_store(server)
        found = pool.submit(consult, hold.hold, TASK, TEXT)
        try:
            assert asked.wait(TIMEOUT)
            memory = hold.store(title="t", content="Kept meanwhile.")
            assert hold.get(memory.id).content == "Kept meanwhile."
            assert not found.done()
        finally:
            go.set()
        assert isinstance(found.result(), Consulted)


def test_a_text_that_is_too_long_is_not_sent(open_store: Open) -> None:
    with provider(saying(GOOD)) as server:
        found = consult(open_store(server).hold, TASK, [Material("document", "x" * 400_001)])
    assert isinstance(found, Unhelped)
    assert "400,000 characters" in found.reason
    assert server.asked == []


# What it takes


@both
def test_what_a_call_cost_is_kept_exactly(open_store: Open) -> None:
    with provider(saying(GOOD)) as server:
        hold = open_store(server, llm_price_in=75_000, llm_price_out=300_001)
        consult(hold.hold, TASK, TEXT)
    assert [(one.spent, one.cost) for one in usage(hold)] == [(150, 120 * 75_000 + 30 * 300_001)]


@both
def test_a_day_whose_budget_is_spent_asks_no_more_and_the_next_day_does(open_store: Open, clock: Clock) -> None:
    with provider(saying(GOOD)) as server:
        hold = open_store(server, llm_daily_tokens=1000).hold
        assert isinstance(consult(hold, TASK, TEXT), Consulted)
        other = [Material("document", "The heron leaves.")]
        over = hold.allowance._replace(daily_tokens=200)
        small = replace(hold, allowance=over)
        assert consult(small, TASK, other) == Unhelped("the daily budget of 200 tokens is spent")
        assert isinstance(consult(small, TASK, TEXT), Consulted)
        clock.now += DAY
        large = replace(hold, allowance=over._replace(daily_tokens=1000))
        assert isinstance(consult(large, TASK, other), Consulted)
    assert len(server.asked) == 2


def test_what_a_provider_does_not_count_is_counted_here(open_store: Open) -> None:
    def reply_without_usage(handler: Any, asked: Any) -> None:
        handler.reply({"choices": said(asked, msgspec.json.encode(GOOD).decode())["choices"]})

    with provider(reply_without_usage) as server:
        hold = open_store(server)
        assert consult(hold.hold, TASK, TEXT) == Consulted(Verdict("event", 0.5), "m", cached=False)
    ((given, made),) = [(one.input_tokens, one.output_tokens) for one in usage(hold)]
    assert given > 200
    assert made > 5


def test_a_refusal_costs_nothing_and_an_answer_that_broke_off_counts_as_the_most_it_can_have_taken(
    open_store: Open,
) -> None:
    with provider(in_turn(replying({}, 400), replying({}, 400), replying({}, 400), replying(b"{"))) as server:
        hold = open_store(server)
        consult(hold.hold, TASK, TEXT)
        assert [(one.spent, one.cost) for one in usage(hold)] == [(0, 0)]
        consult(hold.hold, TASK, TEXT)
    ((spent, cost, answered),) = [(one.spent, one.cost, one.answered) for one in usage(hold)]
    assert spent > 300
    assert (cost, answered) == (0, 0)


def test_a_model_that_is_left_alone_costs_neither_a_row_nor_a_wait(open_store: Open) -> None:
    with provider(lambda handler, _: handler.server.closing.wait()) as server:
        hold = open_store(server, llm_timeout_secs=0.2)
        found = [consult(hold.hold, TASK, TEXT) for _ in range(3)]
    assert all(isinstance(one, Unhelped) and "is skipped for" in one.reason for one in found[1:])
    assert [one.calls for one in usage(hold)] == [1]


# How long answers are kept


@both
def test_an_answer_is_kept_for_a_week(open_store: Open, clock: Clock) -> None:
    with provider(saying(GOOD)) as server:
        hold = open_store(server)
        consult(hold.hold, TASK, TEXT)
        clock.now += 7 * DAY + 1
        found = consult(hold.hold, TASK, TEXT)
        assert isinstance(found, Consulted)
        assert not found.cached
        clock.now += 7 * DAY + 1
        hold.gc()
        with hold.hold.reading() as session:
            assert session.rows("llm_answer_count") == [(0,)]


@both
def test_a_purge_takes_every_answer_with_it(open_store: Open) -> None:
    with provider(saying(GOOD)) as server:
        hold = open_store(server)
        memory = hold.store(title="t", content=TEXT[0].text)
        consult(hold.hold, TASK, TEXT)
        hold.archive(ids=[memory.id], reason="gone")
        hold.archive_purge(ids=[memory.id])
        with hold.hold.reading() as session:
            assert session.rows("llm_answer_count") == [(0,)]


@both
def test_answers_are_bounded_in_number_and_the_oldest_go_first(
    open_store: Open, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consulted, "MOST_ANSWERS", 5)
    monkeypatch.setattr(consulted, "ROOM", 1)
    with provider(saying(GOOD)) as server:
        hold = open_store(server).hold
        for number in range(6):
            clock.now += 1
            consult(hold, TASK, [Material("document", str(number))])
        kept = [consult(hold, TASK, [Material("document", str(number))]) for number in (5, 2)]
    assert [one.cached for one in kept if isinstance(one, Consulted)] == [True, True]
    with hold.reading() as session:
        assert session.rows("llm_answer_count") == [(4,)]


# What is asked


def test_the_rules_are_the_same_bytes_in_every_question_and_the_text_comes_before_the_task(open_store: Open) -> None:
    with provider(saying(GOOD)) as server:
        hold = open_store(server).hold
        consult(hold, TASK, TEXT)
        consult(hold, TASK._replace(name="next", instructions="Something else."), [*TEXT, Material("r", "1", True)])
    first, second = server.asked
    assert system_of(first) == system_of(second)
    shared = prompt_of(first).index("<<<task")
    assert prompt_of(first)[:shared] == prompt_of(second)[:shared]
    assert TEXT[0].text in prompt_of(first)[:shared]


def test_no_key_is_sent_to_a_model_nor_kept_of_its_answer(open_store: Open) -> None:
    key = "ghp_" + "aB3d" * 9
    told = Verdict("It is [redacted: github token].", 0.5)
    with provider(saying({"kind": f"It is {key}.", "sure": 0.5})) as server:
        hold = open_store(server).hold
        found = [consult(hold, TASK, [Material("document", f"Use {key} now.")]) for _ in range(2)]
    assert found == [Consulted(told, "m-1", cached=False), Consulted(told, "m-1", cached=True)]
    sent = str([one.body for one in server.asked])
    assert (key in sent, "Use [redacted: github token] now." in sent) == (False, True)
