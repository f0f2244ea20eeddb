"""What agents keep beside memories goes out and comes in again: nothing lost, nothing twice, nothing held."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from envelopes import Clock, take, text_of

import holdfast
from holdfast.domain.caller import Caller
from holdfast.domain.envelope import ARRAYS
from holdfast.domain.ledger import LEDGERS
from holdfast.domain.moment import DAY, SECOND
from holdfast.surfaces import wire

TURNS = [{"role": "user", "content": "When do we deploy?"}, {"role": "assistant", "content": "On Tuesdays."}]


@pytest.fixture
def busy(db: str, clock: Clock) -> Iterator[holdfast.Holdfast]:
    """A store in which agents have done something of everything."""
    with holdfast.open(db, agent_id="ai:tester@here", now=clock) as hold:
        _talk(hold)
        _plan(hold, clock)
        _spend(hold)
        _work(hold)
        yield hold


def _talk(hold: holdfast.Holdfast) -> None:
    hold.principal_merge(alias="slack:U1", principal="ann")
    said = hold.conversation_say(turns=TURNS, principal="ann", channel="cli", namespace="team/a")
    hold.conversation_close(id=said.conversation_id, summary="They deploy on Tuesdays.")
    hold.conversation_say(turns=TURNS, principal="slack:U1", channel="slack")
    learned = hold.lesson_add(rule="Run the migration on a copy first.", domain="databases", namespace="team/a")
    hold.outcome_record(what="It failed.", domain="databases", score=-1, lesson_id=learned.lesson.id, namespace="team/a")
    hold.outcome_record(what="Smaller steps went well.", domain="planning", score=1, principal="ann")
    hold.onboarding_tell(principal="ann", step="introduce")
    hold.interaction_record(status="denied", principal="ann", action="shell", reason="Not allowed.", input="rm -rf /")
    hold.conversation_say(turns=TURNS, principal="bob", channel="cli")
    hold.principal_purge(name="bob")


def _plan(hold: holdfast.Holdfast, clock: Clock) -> None:
    due = {"due_at": "2026-01-31T09:00", "zone": "Europe/Berlin"}
    hold.task_add(title="Pay the rent", repeat="monthly", payload={"b": [1, None], "a": "ü"}, **due)
    hold.task_add(title="Ask Ann", namespace="team/a", principal="ann", unique_key="k", **due)
    hold.task_add(title="Back up", handler="job", target="backup", **due)
    (claimed,) = hold.task_claim(limit=1, seconds=3600).claimed
    hold.task_finish(id=claimed.task.id, token=claimed.token, result="Paid.", tokens_used=12)
    (failed, *_) = hold.task_claim(limit=1, seconds=3600).claimed
    hold.task_finish(id=failed.task.id, token=failed.token, error="Nobody there.")
    clock.at += DAY
    assert hold.task_claim(limit=5, seconds=3600).claimed


def _spend(hold: holdfast.Holdfast) -> None:
    hold.price_set(model="sonnet-*", input="3", output="15", cache_read="0.30")
    hold.budget_set(principal="ann", cost="2.5", period="month")
    hold.budget_set(principal="*", model="sonnet-4", tokens=10**12)
    hold.usage_record(model="sonnet-4", input_tokens=999_999_999, cache_read_tokens=1, principal="ann", unique_key="u")
    hold.usage_record(model="unknown", output_tokens=5, session="s", at="2026-01-01T10:00:00Z")
    hold.usage_reserve(model="sonnet-4", output_tokens=10)


def _work(hold: holdfast.Holdfast) -> None:
    opened = hold.run_open(topology="release", phases=["build", "test"], id="r-1", inputs={"tag": "v2"}, seconds=3600)
    hold.run_step(id="r-1", token=opened.token, phase="build", state="in_progress")
    hold.run_step(id="r-1", token=opened.token, phase="build", state="completed", output="wheel")
    hold.session_keep(session_id="abc", provider="one", channel="cli", principal="ann", namespace="team/a")
    hold.capture_turn(host_session_id="c", host_turn_index=0, role="user", content="Remember the milk.")


@pytest.fixture
def fresh(engine: str, tmp_path: Path, clock: Clock, request: pytest.FixtureRequest) -> Iterator[holdfast.Holdfast]:
    """An empty store on the other engine."""
    if engine == "postgres":
        with holdfast.open(str(tmp_path / "fresh.db"), agent_id="ai:other@there", now=clock) as hold:
            yield hold
    else:
        with request.getfixturevalue("postgres").new_store() as url:
            with holdfast.open(url, agent_id="ai:other@there", now=clock) as hold:
                yield hold


def test_every_array_of_agents_is_the_same_byte_for_byte_after_a_trip_to_the_other_engine(
    busy: holdfast.Holdfast, fresh: holdfast.Holdfast
) -> None:
    exported = busy.export()
    assert {name: len(exported[name]) for name in LEDGERS} == {
        "conversations": 2,
        "outcomes": 2,
        "tasks": 3,
        "task_runs": 2,
        "usage": 2,
        "prices": 1,
        "budgets": 2,
        "runs": 1,
        "provider_sessions": 1,
        "onboarding": 1,
        "forgotten": 1,
        "mined": 1,
    }
    sent = wire.encode(exported)
    answer = take(fresh, msgspec.json.decode(sent))
    assert (answer.errors, answer.kept) == ([], [])
    assert text_of(fresh.export()) == text_of(exported)
    again = take(fresh, msgspec.json.decode(sent))
    assert all((one.imported, one.merged, one.older) == (0, 0, 0) for one in again.arrays.values())
    assert text_of(fresh.export()) == text_of(exported)
