"""Lifecycle hooks: the strictest decision wins, and no hook exceeds its timeout."""

import os
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hook_programs import Open, hook_command, hook_rule, read_log

from holdfast.kernel.errors import (
    HoldfastError,
    HookConfirmationRequired,
    HookDenied,
    Invalid,
    InvalidSetting,
    NotFound,
)


def test_a_hook_receives_the_call_and_the_caller(open_with: Open, tmp_path: Path) -> None:
    hold = open_with(hook_rule("pre_store", hook_command("", tmp_path / "log")))
    hold.store(title="Plan", content="x", tags=["a"])
    assert read_log(tmp_path / "log") == [
        {
            "version": 1,
            "event": "pre_store",
            "operation": "store",
            "arguments": {"title": "Plan", "content": "x", "tags": ["a"]},
            "namespaces": ["global"],
            "caller": {"agent_id": "ai:tester@here", "right": "admin", "source": "library"},
            "confirmed": False,
        }
    ]


@pytest.mark.parametrize(
    ("decisions", "code"),
    [
        (["allow", "modify"], None),
        (["allow", "deny", "ask"], "HOOK_DENIED"),
        (["ask", "allow"], "HOOK_ASKS"),
        (["ask", "modify", "allow"], "HOOK_ASKS"),
        (["ask", "deny"], "HOOK_DENIED"),
    ],
)
def test_the_strictest_decision_wins_in_any_order(open_with: Open, decisions: list[str], code: str | None) -> None:
    hold = open_with(*(hook_rule("pre_store", hook_command({"decision": one, "reason": "so"})) for one in decisions))
    assert refusal(lambda: hold.store(title="Plan", content="x")) == (code and (code, True))
    assert hold.list().count == (0 if code else 1)


def refusal(ask: Callable[[], Any]) -> tuple[str, bool] | None:
    """Return the error code and whether the message has the reason of the hook."""
    try:
        ask()
    except HoldfastError as error:
        return error.code, "so" in error.message
    return None


def test_a_modification_by_a_hook_is_stored_and_validated(open_with: Open, tmp_path: Path) -> None:
    checks = hook_rule("pre_store", hook_command("", tmp_path / "log"))
    redacts = hook_rule("pre_store", hook_command({"decision": "modify", "arguments": {"content": "redacted"}}))
    hold = open_with(checks, redacts)
    assert hold.store(title="Plan", content="my password").content == "redacted"
    assert [one["arguments"]["content"] for one in read_log(tmp_path / "log")] == ["my password", "redacted"]
    for made, said in (
        ({"priority": 99}, "made the request invalid"),
        ({"no_such_field": 1}, "unknown field"),
        ({"namespace": "a//b"}, "made the request invalid"),
        ({"agent_id": "ai:boss@here"}, "the acting agent"),
    ):
        hold = open_with(hook_rule("pre_store", hook_command({"decision": "modify", "arguments": made})))
        with pytest.raises(HookDenied, match=said):
            hold.store(title="Other", content="x")
    with pytest.raises(Invalid, match="priority"):
        open_with(redacts).store(title="Other", content="x", priority=99)
    with pytest.raises(Invalid, match="namespace"):
        open_with(redacts).store(title="Other", content="x", namespace="a//b")
    assert hold.list().count == 1


def test_a_memory_moved_by_a_hook_is_checked_by_the_hooks_of_its_new_namespace(open_with: Open) -> None:
    hold = open_with(
        hook_rule("pre_store", hook_command({"decision": "deny"}), match=["shut"]),
        hook_rule("pre_store", hook_command({"decision": "modify", "arguments": {"namespace": "shut"}})),
    )
    with pytest.raises(HookDenied):
        hold.store(title="Plan", content="x")


def test_conflicting_modifications_by_hooks_are_refused(open_with: Open) -> None:
    changes = [hook_command({"decision": "modify", "arguments": {"content": text}}) for text in ("one", "two")]
    hold = open_with(*(hook_rule("pre_store", command) for command in changes))
    with pytest.raises(HookDenied, match="changes again"):
        hold.store(title="Plan", content="x")


def test_a_local_person_can_confirm_what_a_hook_asks(open_with: Open) -> None:
    hold = open_with(hook_rule("pre_delete", hook_command({"decision": "ask", "reason": "Really?"})))
    id = hold.store(title="Plan", content="x").id
    with pytest.raises(HookConfirmationRequired, match=r"Really\?"):
        hold.delete(id=id)
    hold.ctx = replace(hold.ctx, is_confirmed=True)
    assert hold.delete(id=id).deleted


FAILURES = {
    "ends badly": ["/bin/sh", "-c", "echo broken >&2; exit 3"],
    "says nothing that is understood": hook_command("perhaps"),
    "decides what there is not": hook_command({"decision": "maybe"}),
    "says more than is known": hook_command({"decision": "allow", "more": 1}),
    "is not there": ["/no/such/program"],
    "says what goes too deep": ["/bin/sh", "-c", 'printf \'{"arguments": {"metadata":\'; yes \'{"a":\' | head -n 5000'],
    "says too much": ["/bin/sh", "-c", "yes | head -c 3000000"],
}


@pytest.mark.parametrize("command", FAILURES.values(), ids=FAILURES)
def test_a_failing_hook_follows_its_on_error_setting(open_with: Open, command: list[str]) -> None:
    with pytest.raises(HookDenied, match="The hook failed"):
        open_with(hook_rule("pre_store", command)).store(title="Plan", content="x")
    assert open_with(hook_rule("pre_store", command, on_error="allow")).store(title="Plan", content="x").id


def test_a_hook_that_times_out_is_killed_with_its_children(open_with: Open, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    command = ["/bin/sh", "-c", f"trap '' TERM; sleep 600 & echo $! > '{pid}'; wait"]
    hold = open_with(hook_rule("pre_store", command, timeout=0.3))
    with pytest.raises(HookDenied):
        hold.store(title="Plan", content="x")
    with pytest.raises(ProcessLookupError):
        look_for_ever(int(pid.read_text()))


def look_for_ever(pid: int) -> None:
    """Wait until the process is gone."""
    while True:
        os.kill(pid, 0)
        os.sched_yield()


def test_a_hook_after_an_operation_receives_the_result_and_cannot_break_it(open_with: Open, tmp_path: Path) -> None:
    broken = hook_rule("post_store", ["/no/such/program"])
    hold = open_with(broken, hook_rule("post_store", hook_command({"decision": "deny"}, tmp_path / "log")))
    id = hold.store(title="Plan", content="x").id
    with pytest.raises(NotFound):
        hold.update(id="no-such-memory", content="y")
    hold.close()
    [told] = read_log(tmp_path / "log")
    assert (told["operation"], told["answer"]["id"], told["event"]) == ("store", id, "post_store")


def test_a_result_does_not_wait_for_post_hooks(open_with: Open, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    waits = hook_rule("post_store", ["/bin/sh", "-c", f"cat '{tmp_path}/gate' > '{tmp_path}/passed'"], timeout=60)
    hold = open_with(waits)
    hold.store(title="Plan", content="x")
    assert not (tmp_path / "passed").exists() or (tmp_path / "passed").read_text() == ""
    (tmp_path / "gate").write_text("open")
    hold.close()
    assert (tmp_path / "passed").read_text() == "open"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package that provides hooks."""
    info = tmp_path / "site" / "given-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: given\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[holdfast.hooks]\nshouting = given:shouting\nnesting = given:nesting\nhanging = given:hanging\n"
    )
    (tmp_path / "site" / "given.py").write_text(
        "import threading\n"
        "memory, never = [], threading.Event()\n"
        "def shouting(told):\n"
        "    return {'decision': 'modify', 'arguments': {'title': told['arguments']['title'].upper()}}\n"
        "def nesting(told):\n"
        "    memory[0].store(title='Nested', content='x')\n"
        "def hanging(told):\n"
        "    never.wait(30)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))


def test_an_entry_point_is_a_hook_and_its_own_calls_run_no_hooks(open_with: Open, package: None) -> None:
    named = {"event": "pre_store", "on_error": "deny"}
    assert open_with({**named, "python": "shouting"}).store(title="Plan", content="x").title == "PLAN"
    nesting = open_with({**named, "python": "nesting"})
    given = sys.modules.get("given") or __import__("given")
    given.memory[:] = [nesting]
    nesting.store(title="Outer", content="x")
    assert {one.title for one in nesting.list().memories} == {"PLAN", "Outer", "Nested"}
    with pytest.raises(HookDenied):
        open_with({**named, "python": "hanging", "timeout": 0.05}).store(title="Late", content="x")
    with pytest.raises(HookDenied):
        open_with({**named, "python": "missing"}).store(title="None", content="x")
    given.never.set()


def test_a_hook_process_has_no_hooks_and_no_keys(
    open_with: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOLDFAST_API_KEY", "hunter2")
    hold = open_with(hook_rule("pre_store", ["/bin/sh", "-c", f"env > '{tmp_path}/env'"]))
    hold.store(title="Plan", content="x")
    said = (tmp_path / "env").read_text()
    assert "HOLDFAST_IN_HOOK=pre_store" in said
    assert "hunter2" not in said
    monkeypatch.setenv("HOLDFAST_IN_HOOK", "pre_store")
    assert open_with(hook_rule("pre_store", hook_command({"decision": "deny"}))).ctx.interceptors == ()


def test_testing_hooks_shows_their_decisions_and_changes_nothing(open_with: Open) -> None:
    hold = open_with(
        hook_rule("pre_store", hook_command({"decision": "modify", "arguments": {"tags": ["seen"]}}), name="tags"),
        hook_rule("pre_store", ["/no/such/program"], name="broken", on_error="allow"),
        hook_rule("pre_store", hook_command(""), name="team", match=["team"]),
    )
    tested = hold.hooks_test(event="pre_store", arguments={"title": "Plan", "content": "x"})
    assert (tested.decision, tested.passed_over) == ("modify", ["team"])
    assert [(one.name, one.decision, isinstance(one.error, str)) for one in tested.hooks] == [
        ("tags", "modify", False),
        ("broken", "allow", True),
    ]
    assert tested.arguments == {"title": "Plan", "content": "x", "tags": ["seen"]}
    assert hold.list().count == 0
    assert [(one.name, one.event) for one in hold.hooks_list().hooks][:1] == [("tags", "pre_store")]


@pytest.mark.parametrize(
    "wrong",
    [
        {"event": "pre_stroe", "command": ["x"], "on_error": "deny"},
        {"event": "pre_store", "command": ["x"]},
        {"event": "pre_store", "on_error": "deny"},
        {"event": "pre_store", "command": ["x"], "python": "y", "on_error": "deny"},
        {"event": "pre_store", "command": "rm -rf /", "on_error": "deny"},
        {"event": "post_store", "command": ["x"], "on_error": "deny"},
        {"event": "pre_store", "command": ["x"], "on_error": "deny", "match": ["a/**b"]},
        {"event": "pre_store", "command": ["x"], "on_error": "deny", "timeout": 0},
        {"event": "pre_store", "command": ["x"], "on_error": "deny", "shell": True},
    ],
)
def test_an_invalid_hook_is_refused_at_startup(open_with: Open, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting):
        open_with(wrong)


def test_hooks_run_concurrently_from_many_threads(open_with: Open, tmp_path: Path) -> None:
    hold = open_with(
        hook_rule("pre_store", hook_command("")), hook_rule("post_store", hook_command("", tmp_path / "log"))
    )
    threads = [threading.Thread(target=hold.store, kwargs={"title": f"T{n}", "content": "x"}) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    hold.close()
    assert {one["arguments"]["title"] for one in read_log(tmp_path / "log")} == {f"T{n}" for n in range(8)}
