"""Runs: resumed where they stopped, under one lease at a time. Provider sessions."""

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.kernel.errors import Conflict, Invalid, LeaseLost, NotFound

PHASES = ["build", "test", "publish"]


def open_run(ctx: Any, **more: Any) -> Any:
    return ctx.run_open(**{"topology": "release", "phases": PHASES, "id": "r1", **more})


def step(ctx: Any, token: int, phase: str, *states: str, **more: Any) -> Any:
    for state in states:
        done = ctx.run_step(id="r1", token=token, phase=phase, state=state, **more)
    return done


def test_a_run_is_resumed_where_it_stopped(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    first = open_run(clocked_store)
    assert (first.resumed, first.next, [phase.state for phase in first.phases]) == (False, "build", ["pending"] * 3)
    step(clocked_store, first.token, "build", "in_progress", "completed", output="a.whl")
    step(clocked_store, first.token, "test", "in_progress")
    clock.move(seconds=301)
    again = open_run(clocked_store, owner="another")
    assert (again.resumed, again.next, again.token) == (True, "test", first.token + 1)
    assert (again.phases[0].state, again.phases[0].output) == ("completed", "a.whl")
    assert (again.phases[1].state, again.phases[1].attempt) == ("in_progress", 1)


def test_phases_follow_each_other_and_completed_ones_stay_completed(clocked_store: holdfast.Holdfast) -> None:
    token = open_run(clocked_store).token
    with pytest.raises(Conflict, match="build comes before test"):
        step(clocked_store, token, "test", "in_progress")
    with pytest.raises(Conflict, match="cannot become completed"):
        step(clocked_store, token, "build", "completed")
    step(clocked_store, token, "build", "in_progress", "completed", output="a.whl")
    for state in ("in_progress", "completed"):
        with pytest.raises(Conflict):
            step(clocked_store, token, "build", state, output="other")
    assert clocked_store.run_show(id="r1").phases[0].output == "a.whl"
    with pytest.raises(Invalid, match="this run has build"):
        step(clocked_store, token, "deploy", "in_progress")


def test_a_failed_phase_is_retried_and_counted(clocked_store: holdfast.Holdfast) -> None:
    token = open_run(clocked_store).token
    failed = step(clocked_store, token, "build", "in_progress", "failed", error="no compiler").phase
    assert (failed.state, failed.error, failed.attempt) == ("failed", "no compiler", 1)
    again = step(clocked_store, token, "build", "in_progress").phase
    assert (again.attempt, again.error) == (2, None)
    with pytest.raises(Invalid):
        clocked_store.run_step(id="r1", token=token, phase="build", state="failed")


def test_a_run_is_completed_when_all_its_phases_are(clocked_store: holdfast.Holdfast) -> None:
    token = open_run(clocked_store).token
    with pytest.raises(Conflict, match="build, test, publish"):
        clocked_store.run_close(id="r1", token=token)
    for phase in PHASES:
        step(clocked_store, token, phase, "in_progress", "completed")
    assert clocked_store.run_close(id="r1", token=token).run.state == "completed"
    with pytest.raises(Conflict, match="completed"):
        open_run(clocked_store)
    with pytest.raises(LeaseLost):
        step(clocked_store, token, "build", "in_progress")


def test_an_abandoned_run_can_be_resumed(clocked_store: holdfast.Holdfast) -> None:
    token = open_run(clocked_store).token
    assert clocked_store.run_close(id="r1", token=token, error="no network").run.error == "no network"
    assert clocked_store.run_list(state="failed").count == 1
    again = open_run(clocked_store)
    assert (again.run.state, again.run.error) == ("running", None)


@pytest.mark.parametrize(
    "other",
    [{"phases": ["build", "publish"]}, {"topology": "other"}, {"definition": {"image": "2"}}, {"inputs": {"a": 1}}],
)
def test_another_plan_or_other_inputs_do_not_resume_a_run(
    clocked_store: holdfast.Holdfast, other: dict[str, Any]
) -> None:
    open_run(clocked_store)
    with pytest.raises(Conflict, match=r"another plan|other inputs"):
        open_run(clocked_store, **other)
    assert clocked_store.run_show(id="r1").run.topology == "release"


def test_only_one_owner_leases_a_run_and_a_late_one_changes_nothing(
    clocked_store: holdfast.Holdfast, clock: Any
) -> None:
    first = open_run(clocked_store, owner="a", seconds=60)
    with pytest.raises(Conflict, match="leased by a"):
        open_run(clocked_store, owner="b")
    clock.move(seconds=50)
    clocked_store.run_heartbeat(id="r1", token=first.token, seconds=60)
    clock.move(seconds=50)
    with pytest.raises(Conflict):
        open_run(clocked_store, owner="b")
    with pytest.raises(Conflict):
        clocked_store.run_clear(id="r1")
    clock.move(seconds=11)
    second = open_run(clocked_store, owner="b")
    for late in (
        lambda: step(clocked_store, first.token, "build", "in_progress"),
        lambda: clocked_store.run_heartbeat(id="r1", token=first.token),
        lambda: clocked_store.run_close(id="r1", token=first.token, error="x"),
    ):
        with pytest.raises(LeaseLost):
            late()
    assert clocked_store.run_show(id="r1").run.owner == "b"
    assert second.token == first.token + 1


def test_an_agent_sees_only_its_own_runs(clocked_store: holdfast.Holdfast, seen_by: Callable[..., Any]) -> None:
    ann, bob = (seen_by(agent, right="write") for agent in ("ann", "bob"))
    open_run(ann)
    assert (ann.run_list().count, bob.run_list().count, clocked_store.run_list().count) == (1, 0, 1)
    with pytest.raises(NotFound):
        bob.run_show(id="r1")
    with pytest.raises(NotFound):
        open_run(bob)
    assert clocked_store.run_list(principal=["bob"]).count == 0


def test_a_cleared_run_is_deleted_with_its_phases(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    open_run(clocked_store)
    clock.move(seconds=301)
    clocked_store.run_clear(id="r1")
    with pytest.raises(NotFound):
        clocked_store.run_show(id="r1")
    assert open_run(clocked_store).resumed is False


def test_a_stored_session_is_found_until_it_expires(clocked_store: holdfast.Holdfast, clock: Any) -> None:
    assert clocked_store.session_get(channel="cli").session is None
    clocked_store.session_keep(session_id="s1", provider="claude", channel="cli")
    clocked_store.session_keep(session_id="s2", provider="claude", channel="cli", expires_at=clock.after(hours=1))
    clocked_store.session_keep(session_id="s3", provider="claude", channel="cli", namespace="other")
    assert clocked_store.session_get(channel="cli").session.session_id == "s2"
    assert clocked_store.session_get(channel="cli", namespace="other").session.session_id == "s3"
    assert clocked_store.session_get(channel="cli", provider="codex").session is None
    assert clocked_store.session_get(channel="slack").session is None
    clock.move(hours=2)
    assert clocked_store.session_get(channel="cli").session is None


def test_sessions_are_cleared_in_one_channel_or_everywhere(clocked_store: holdfast.Holdfast) -> None:
    for channel in ("cli", "slack"):
        clocked_store.session_keep(session_id="s", provider="claude", channel=channel, principal="ann")
    clocked_store.session_keep(session_id="s", provider="claude", channel="cli", principal="bob")
    assert clocked_store.session_clear(channel="cli", principal="ann").cleared == 1
    assert clocked_store.session_clear(channel="cli", principal="ann").cleared == 0
    assert clocked_store.session_clear(everywhere=True, principal="ann").cleared == 1
    assert clocked_store.session_get(channel="cli", principal="bob").session.session_id == "s"
