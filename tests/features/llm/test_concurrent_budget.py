"""Concurrent processes compete for the last tokens of a day."""

import subprocess
import sys
from threading import Event

import pytest

import holdfast
from engines import ENGINES_BY_RING
from holdfast.features.usage import service as usage_service
from model_server import Handler, ReceivedRequest, provider, wrap_text
from timeouts import TIMEOUT

PROCESSES = 8
ENOUGH_FOR = 3
WORK = """
import sys
from msgspec import Struct
from holdfast.app import open as open_memory
from holdfast.features.llm.client import Material, Task, ask_model
from holdfast.settings import Settings

class Verdict(Struct):
    x: int

db, url, budget, number = sys.argv[1:]
values = {"llm": "openai", "llm_url": url, "llm_model": "m", "llm_daily_tokens": int(budget)}
values |= {"timeout_secs": 600, "llm_timeout_secs": 280}
with open_memory(settings=Settings(db=db, **values), once=True) as memory:
    task = Task("race", "Count.", Verdict, max_tokens=10_000)
    print(ask_model(memory.ctx, task, [Material("document", "Number " + number)]))
"""


@pytest.mark.full
@pytest.mark.parametrize("engine", ENGINES_BY_RING)
def test_concurrent_calls_stay_within_the_remaining_daily_budget(db: str) -> None:
    """Each call reserves 10,000 to 11,000 tokens; admitted calls wait until all others gave up."""
    go = Event()

    def behave(handler: Handler, asked: ReceivedRequest) -> None:
        go.wait()
        handler.reply(wrap_text(asked, '{"x": 1}'))

    holdfast.open(db).close()
    budget = ENOUGH_FOR * 11_000 + 6_000
    with provider(behave) as server:
        command = [sys.executable, "-c", WORK, db, server.url, str(budget)]
        running = [
            subprocess.Popen([*command, str(number)], stdout=subprocess.PIPE, text=True) for number in range(PROCESSES)
        ]
        try:
            finished: list[str] = []
            while len(finished) < PROCESSES - ENOUGH_FOR:
                ended = next((one for one in running if one.poll() is not None), None)
                if ended is None:
                    Event().wait(0.01)
                else:
                    running.remove(ended)
                    finished.append(ended.communicate()[0])
            with holdfast.open(db) as hold, hold.ctx.reading() as session:
                assert usage_service.count_spent(session, hold.ctx.now()) <= budget
            go.set()
            answered = [one.communicate()[0] for one in running]
        finally:
            go.set()
            for one in running:
                one.kill()
                one.wait()
    assert [said for said in finished if "the daily budget of 39,000 tokens is spent" not in said] == []
    assert all(said.startswith("ModelAnswer(answer=Verdict(x=1)") for said in answered)
    assert len(server.asked) == ENOUGH_FOR
    with holdfast.open(db) as hold, hold.ctx.reading() as session:
        assert usage_service.count_spent(session, hold.ctx.now()) == ENOUGH_FOR * 150


def test_a_budget_reserved_by_a_killed_process_stays_counted(db: str) -> None:
    asked = Event()

    def behave(handler: Handler, _: ReceivedRequest) -> None:
        asked.set()
        handler.server.closing.wait()

    holdfast.open(db).close()
    with provider(behave) as server:
        running = subprocess.Popen([sys.executable, "-c", WORK, db, server.url, "20000", "1"])
        try:
            assert asked.wait(TIMEOUT)
        finally:
            running.kill()
            running.wait()
    with holdfast.open(db) as hold, hold.ctx.reading() as session:
        assert 10_000 <= usage_service.count_spent(session, hold.ctx.now()) <= 11_000
