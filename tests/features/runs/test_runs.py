"""Runs: resumed where they stopped, under one lease at a time. Provider sessions."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import UNSET

import holdfast
from holdfast.kernel.errors import Conflict, Invalid, LeaseLost, NotFound

PHASES = ["build", "test", "publish"]


def opened(hold: Any, **more: Any) -> Any:
    return hold.run_open(**{"topology": "release", "phases": PHASES, "id": "r1", **more})


def step(hold: Any, token: int, phase: str, *states: str, **more: Any) -> Any:
    for state in states:
        done = hold.run_step(id="r1", token=token, phase=phase, state=state, **more)
    return done


def test_a_run_is_taken_up_where_it_stood(timed: holdfast.Holdfast, clock: Any) -> None:
    first = opened(timed)
    assert (first.resumed, first.next, [phase.state for phase in first.phases]) == (False, "build", ["pending"] * 3)
    step(timed, first.token, "build", "in_progress", "completed", output="a.whl")
    step(timed, first.token, "test", "in_progress")
    clock.move(seconds=301)
    again = opened(timed, owner="another")
    assert (again.resumed, again.next, again.token) == (True, "test", first.token + 1)
    assert (again.phases[0].state, again.phases[0].output) == ("completed", "a.whl")
    assert (again.phases[1].state, again.phases[1].attempt) == ("in_progress", 1)


def test_phases_follow_one_another_and_what_was_completed_stays_so(timed: holdfast.Holdfast) -> None:
    token = opened(timed).token
    with pytest.raises(Conflict, match="build comes before test"):
        step(timed, token, "test", "in_progress")
    with pytest.raises(Conflict, match="cannot become completed"):
        step(timed, token, "build", "completed")
    step(timed, token, "build", "in_progress", "completed", output="a.whl")
    for state in ("in_progress", "completed"):
        with pytest.raises(Conflict):
            step(timed, token, "build", state, output="other")
    assert timed.run_show(id="r1").phases[0].output == "a.whl"
    with pytest.raises(Invalid, match="this run has build"):
        step(timed, token, "deploy", "in_progress")


def test_a_phase_that_failed_is_tried_again_and_counts(timed: holdfast.Holdfast) -> None:
    token = opened(timed).token
    failed = step(timed, token, "build", "in_progress", "failed", error="no compiler").phase
    assert (failed.state, failed.error, failed.attempt) == ("failed", "no compiler", 1)
    again = step(timed, token, "build", "in_progress").phase
    assert (again.attempt, again.error) == (2, UNSET)
    with pytest.raises(Invalid):
        timed.run_step(id="r1", token=token, phase="build", state="failed")


def test_a_run_is_completed_when_all_its_phases_are(timed: holdfast.Holdfast) -> None:
    token = opened(timed).token
    with pytest.raises(Conflict, match="build, test, publish"):
        timed.run_close(id="r1", token=token)
    for phase in PHASES:
        step(timed, token, phase, "in_progress", "completed")
    assert timed.run_close(id="r1", token=token).run.state == "completed"
    with pytest.raises(Conflict, match="completed"):
        opened(timed)
    with pytest.raises(LeaseLost):
        step(timed, token, "build", "in_progress")


def test_one_that_was_given_up_can_be_taken_up(timed: holdfast.Holdfast) -> None:
    token = opened(timed).token
    assert timed.run_close(id="r1", token=token, error="no network").run.error == "no network"
    assert timed.run_list(state="failed").count == 1
    again = opened(timed)
    assert (again.run.state, again.run.error) == ("running", UNSET)


@pytest.mark.parametrize(
    "other",
    [{"phases": ["build", "publish"]}, {"topology": "other"}, {"definition": {"image": "2"}}, {"inputs": {"a": 1}}],
)
def test_another_plan_or_other_inputs_do_not_take_it_up(timed: holdfast.Holdfast, other: dict[str, Any]) -> None:
    opened(timed)
    with pytest.raises(Conflict, match=r"another plan|other inputs"):
        opened(timed, **other)
    assert timed.run_show(id="r1").run.topology == "release"


def test_one_at_a_time_is_at_it_and_who_is_late_changes_nothing(timed: holdfast.Holdfast, clock: Any) -> None:
    first = opened(timed, owner="a", seconds=60)
    with pytest.raises(Conflict, match="leased by a"):
        opened(timed, owner="b")
    clock.move(seconds=50)
    timed.run_heartbeat(id="r1", token=first.token, seconds=60)
    clock.move(seconds=50)
    with pytest.raises(Conflict):
        opened(timed, owner="b")
    with pytest.raises(Conflict):
        timed.run_clear(id="r1")
    clock.move(seconds=11)
    second = opened(timed, owner="b")
    for late in (
        lambda: step(timed, first.token, "build", "in_progress"),
        lambda: timed.run_heartbeat(id="r1", token=first.token),
        lambda: timed.run_close(id="r1", token=first.token, error="x"),
    ):
        with pytest.raises(LeaseLost):
            late()
    assert timed.run_show(id="r1").run.owner == "b"
    assert second.token == first.token + 1


def test_an_agent_sees_its_own_runs_alone(timed: holdfast.Holdfast, seen_by: Callable[..., Any]) -> None:
    ann, bob = (seen_by(agent, right="write") for agent in ("ann", "bob"))
    opened(ann)
    assert (ann.run_list().count, bob.run_list().count, timed.run_list().count) == (1, 0, 1)
    with pytest.raises(NotFound):
        bob.run_show(id="r1")
    with pytest.raises(NotFound):
        opened(bob)
    assert timed.run_list(principal=["bob"]).count == 0


def test_a_run_is_forgotten_with_its_phases(timed: holdfast.Holdfast, clock: Any) -> None:
    opened(timed)
    clock.move(seconds=301)
    timed.run_clear(id="r1")
    with pytest.raises(NotFound):
        timed.run_show(id="r1")
    assert opened(timed).resumed is False


def test_a_session_goes_on_where_it_was_kept_until_it_is_over(timed: holdfast.Holdfast, clock: Any) -> None:
    assert timed.session_get(channel="cli").session is None
    timed.session_keep(session_id="s1", provider="claude", channel="cli")
    timed.session_keep(session_id="s2", provider="claude", channel="cli", expires_at=clock.after(hours=1))
    timed.session_keep(session_id="s3", provider="claude", channel="cli", namespace="other")
    assert timed.session_get(channel="cli").session.session_id == "s2"
    assert timed.session_get(channel="cli", namespace="other").session.session_id == "s3"
    assert timed.session_get(channel="cli", provider="codex").session is None
    assert timed.session_get(channel="slack").session is None
    clock.move(hours=2)
    assert timed.session_get(channel="cli").session is None


def test_sessions_are_forgotten_in_one_place_or_everywhere(timed: holdfast.Holdfast) -> None:
    for channel in ("cli", "slack"):
        timed.session_keep(session_id="s", provider="claude", channel=channel, principal="ann")
    timed.session_keep(session_id="s", provider="claude", channel="cli", principal="bob")
    assert timed.session_clear(channel="cli", principal="ann").cleared == 1
    assert timed.session_clear(channel="cli", principal="ann").cleared == 0
    assert timed.session_clear(everywhere=True, principal="ann").cleared == 1
    assert timed.session_get(channel="cli", principal="bob").session.session_id == "s"
