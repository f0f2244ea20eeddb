"""The session of the OpenAI Agents SDK: the exact protocol of the SDK over a persistent store."""

import asyncio
from collections.abc import Awaitable
from itertools import count
from threading import Barrier, Thread
from typing import Any, TypeVar

import pytest
from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, set_tracing_disabled
from agents.memory import Session, SessionSettings, SQLiteSession
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai import AsyncOpenAI

import holdfast
from engines import ENGINES_BY_RING
from holdfast.integrations import HoldfastSession
from holdfast.kernel.errors import Invalid
from model_server import saying
from provider_server import provider

R = TypeVar("R")
numbers = count()
text = st.text(max_size=30)
items = st.one_of(
    st.builds(lambda said: {"role": "user", "content": said}, text),
    st.builds(lambda said: {"role": "assistant", "content": [{"type": "output_text", "text": said}]}, text),
    st.builds(lambda name: {"type": "function_call", "name": name, "arguments": "{}", "call_id": "c"}, text),
    st.builds(lambda said: {"type": "function_call_output", "call_id": "c", "output": said}, text),
    st.just({"type": "reasoning", "summary": [], "encrypted_content": None}),
)
steps = st.one_of(
    st.tuples(st.just("add_items"), st.lists(items, max_size=4)),
    st.tuples(st.just("pop_item")),
    st.tuples(st.just("get_items"), st.none() | st.integers(-1, 6)),
    st.tuples(st.just("clear_session")),
)


def run(awaited: Awaitable[R]) -> R:
    async def wait() -> R:
        return await awaited

    return asyncio.run(wait())


async def call_all(session: Session, asked: list[tuple[Any, ...]]) -> list[Any]:
    """Return the answers to a sequence of calls, and the final content of a session."""
    return [await getattr(session, name)(*given) for name, *given in asked] + [await session.get_items()]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=st.lists(steps, max_size=8))
def test_the_session_answers_like_the_session_of_the_sdk(hold: holdfast.Holdfast, asked: list[tuple[Any, ...]]) -> None:
    theirs = SQLiteSession("s")
    assert run(call_all(HoldfastSession(f"session {next(numbers)}", hold), asked)) == run(call_all(theirs, asked))
    theirs.close()


@pytest.mark.parametrize("engine", ENGINES_BY_RING)
def test_items_of_any_size_are_returned_in_order_and_recalled(hold: holdfast.Holdfast) -> None:
    session = HoldfastSession("ann/7 · ü", hold)
    given: list[Any] = [
        {"role": "user", "content": "Where did we put the spare key?"},
        {"type": "function_call_output", "call_id": "c", "output": 'é"\\' * 70_000},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Under the blue flower pot."}]},
        {"role": "user", "content": "\ud800 \x00"},
    ]
    run(session.add_items(given))
    assert isinstance(session, Session)
    assert run(session.get_items()) == given
    assert run(HoldfastSession("ann/7 · ü", hold).get_items(limit=2)) == given[2:]
    assert hold.recall("blue flower pot").memories[0].speaker == "assistant"
    assert run(HoldfastSession("ann", hold).get_items()) == []
    assert [run(session.pop_item()) for _ in range(5)] == [*reversed(given), None]
    assert hold.verify().intact


def test_the_limit_of_the_settings_applies_unless_another_is_given(hold: holdfast.Holdfast) -> None:
    session = HoldfastSession("s", hold, session_settings=SessionSettings(limit=1))
    run(session.add_items([{"role": "user", "content": word} for word in ("one", "two", "three")]))
    assert [len(run(session.get_items(limit))) for limit in (None, 2, 9)] == [1, 2, 3]
    with pytest.raises(Invalid):
        HoldfastSession("", hold)


def test_items_added_together_stay_together(hold: holdfast.Holdfast) -> None:
    barrier = Barrier(4)

    def add(name: int) -> None:
        barrier.wait()
        for number in range(3):
            items = [{"role": "user", "content": f"{name} {number} {part}"} for part in range(3)]
            run(HoldfastSession("s", hold).add_items(items))  # type: ignore[arg-type]

    threads = [Thread(target=add, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found: list[Any] = run(HoldfastSession("s", hold).get_items())
    assert len(found) == 36
    for name in range(4):
        own = [one["content"] for one in found if one["content"].startswith(f"{name} ")]
        assert own == [f"{name} {number} {part}" for number in range(3) for part in range(3)]


def test_a_refused_item_leaves_nothing_behind(hold: holdfast.Holdfast) -> None:
    hold.policy_set(namespace="openai-agents/s", secrets="refuse")
    secret = "AKIA" + "IOSFODNN7EXAMPLQ"
    session = HoldfastSession("s", hold)
    with pytest.raises(Invalid):
        run(session.add_items([{"role": "user", "content": "hello"}, {"role": "user", "content": f"key {secret}"}]))
    assert run(session.get_items()) == []


def test_an_agent_continues_where_the_last_run_ended(db: str) -> None:
    set_tracing_disabled(True)

    async def ask(session: Session, question: str, url: str) -> str:
        model = OpenAIChatCompletionsModel("m-1", AsyncOpenAI(base_url=url, api_key="none"))
        done = await Runner.run(Agent(name="A", model=model), question, session=session, run_config=RunConfig())
        return str(done.final_output)

    with provider(saying("In Hamburg.", "You asked where they are.")) as server:
        with holdfast.open(db) as hold:
            assert run(ask(HoldfastSession("s", hold), "Where are the backups?", server.url)) == "In Hamburg."
        with holdfast.open(db) as hold:
            run(ask(HoldfastSession("s", hold), "What did I ask?", server.url))
            assert hold.recall("where are the backups").memories[0].content == "In Hamburg."
    sent = [(one["role"], one["content"]) for one in server.asked[1].body["messages"]]
    assert sent[0] == ("user", "Where are the backups?")
    assert sent[1][0] == "assistant"
    assert "In Hamburg." in str(sent[1][1])
    assert sent[2] == ("user", "What did I ask?")
