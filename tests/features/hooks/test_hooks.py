"""Lifecycle hooks: the strictest decision wins, and no hook exceeds its timeout."""

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.features.sync.exchange import sync_stores
from holdfast.kernel.errors import (
    HoldfastError,
    HookConfirmationRequired,
    HookDenied,
    Invalid,
    InvalidSetting,
    NotFound,
)
from holdfast.settings import load

Open = Callable[..., holdfast.Holdfast]


@pytest.fixture
def engine() -> str:
    return "sqlite"


def hook_command(answer: dict[str, Any] | str, log: Path | None = None) -> list[str]:
    """Return a command that prints an answer and logs its input."""
    said = answer if isinstance(answer, str) else json.dumps(answer)
    keeps = f"cat >> '{log}'; echo >> '{log}'" if log else "cat > /dev/null"
    return ["/bin/sh", "-c", f"{keeps}; printf '%s' \"$1\"", "sh", said]


def hook_rule(event: str, command: list[str], **more: Any) -> dict[str, Any]:
    return {"event": event, "command": command, **({"on_error": "deny"} if event.startswith("pre_") else {}), **more}


@pytest.fixture
def open_with(db: str) -> Iterator[Open]:
    with ExitStack() as stack:

        def open_with(*rules: dict[str, Any]) -> holdfast.Holdfast:
            settings = load({"db": db, "agent_id": "ai:tester@here", "hooks": list(rules)})
            return stack.enter_context(holdfast.open(settings=settings))

        yield open_with


def read_log(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


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


def test_hooks_apply_to_matching_namespaces_even_if_only_an_id_is_given(open_with: Open) -> None:
    free = open_with()
    team = free.store(title="Plan", content="x", namespace="team/web").id
    other = free.store(title="Plan", content="x", namespace="elsewhere").id
    deep, away = (free.store(title=one, content="x", namespace="team/web").id for one in ("Deep", "Away"))
    free.archive(ids=[away])
    deny = hook_command({"decision": "deny"})
    hold = open_with(
        *(hook_rule(event, deny, match=["team/**"]) for event in ("pre_store", "pre_delete", "pre_link", "pre_recall"))
    )
    assert hold.update(id=other, content="y").content == "y"
    assert hold.recall(context="x", namespace="elsewhere").count >= 0
    refused: list[Callable[[], Any]] = [
        lambda: hold.update(id=team, content="y"),
        lambda: hold.update(id=other, namespace="team"),
        lambda: hold.bulk_store(
            memories=[{"title": "A", "content": "x"}, {"title": "B", "content": "x", "namespace": "team"}]
        ),
        lambda: hold.promote(id=deep, to_namespace="team"),
        lambda: hold.archive_restore(id=away),
        lambda: hold.delete(id=team),
        lambda: hold.delete(id=team[:13]),
        lambda: hold.link(source_id=other, target_id=team),
        lambda: hold.recall(context="x"),
        lambda: hold.forget(pattern="x"),
    ]
    for ask in refused:
        with pytest.raises(HookDenied):
            ask()
    assert hold.delete(id=other).deleted


def test_an_undo_runs_the_hooks_of_its_effects(open_with: Open, tmp_path: Path) -> None:
    free = open_with()
    kept, gone = (free.store(title=title, content="x", namespace="team").id for title in ("Plan", "Old plan"))
    free.delete(id=gone)
    tied = free.store(title="Note", content="y", namespace="elsewhere").id
    free.link(source_id=tied, target_id=kept)
    made, deleted, linked = (free.events().events[place].seq for place in (0, 2, -1))
    deny, log = hook_command({"decision": "deny"}), tmp_path / "log"
    for event, change in (("pre_delete", made), ("pre_store", deleted), ("pre_link", linked)):
        hold = open_with(hook_rule(event, deny, match=["team"]))
        for together in (False, True):
            with pytest.raises(HookDenied):
                hold.undo(change=change, together=together)
        assert "undo" in hold.hooks_list().hooks[0].operations
    hold = open_with(
        hook_rule("pre_store", deny), hook_rule("pre_link", deny), hook_rule("post_delete", hook_command("", log))
    )
    assert hold.undo(change=made).record == kept
    hold.close()
    [told] = read_log(log)
    assert (told["operation"], told["arguments"], told["namespaces"]) == ("undo", {"change": made}, ["team"])
    with pytest.raises(NotFound):
        free.get(id=kept)


def test_a_hook_cannot_modify_an_undo(open_with: Open) -> None:
    hold = open_with(hook_rule("pre_delete", hook_command({"decision": "modify", "arguments": {"change": 1}})))
    kept = hold.store(title="Plan", content="x").id
    other = hold.store(title="Another plan", content="y").id
    with pytest.raises(HookDenied):
        hold.undo(change=hold.history(id=other).changes[0].seq)
    assert [hold.get(id=id).id for id in (kept, other)] == [kept, other]


POOL = "The connection pool keeps ten connections for all of the workers of the server."
ALIKE = {"Pool": POOL, "Connection pool": POOL.replace("all of the", "all the")}
DENY = hook_command({"decision": "deny"})


def assert_denied(hold: holdfast.Holdfast, name: str, **arguments: Any) -> None:
    with pytest.raises(HookDenied):
        hold.call(name, arguments)


def test_an_applied_curator_run_calls_its_hooks_once(open_with: Open, tmp_path: Path) -> None:
    free, log = open_with(), tmp_path / "log"
    for title, text in ALIKE.items():
        free.store(title=title, content=text, namespace="team/web")
    for event in ("pre_store", "pre_link"):
        hold = open_with(hook_rule(event, DENY, match=["team/web"]))
        assert hold.curate().changed == 1
        assert hold.curate(apply=True, include_namespace=["elsewhere"]).changed == 0
        assert hold.curate(apply=True, steps=["tags", "contradictions"]).changed == 0
        assert_denied(hold, "curate", apply=True, steps=["duplicates"])
        assert_denied(hold, "curate", apply=True, include_namespace=["team"])
    assert free.list().count == 2
    hold = open_with(
        hook_rule("pre_store", hook_command("", log)),
        hook_rule("pre_delete", DENY),
        hook_rule("post_link", hook_command("", log)),
    )
    run = hold.curate(apply=True, include_namespace=["team"])
    assert run.changed == 1
    hold.close()
    before, after = read_log(log)
    assert (before["operation"], before["event"], before["namespaces"]) == ("curate", "pre_store", ["team/web"])
    assert (after["event"], after["answer"]["run_id"]) == ("post_link", run.run_id)


def test_rolling_back_a_run_calls_the_hooks_of_its_effects(open_with: Open) -> None:
    free = open_with()
    for title, text in ALIKE.items():
        free.store(title=title, content=text, namespace="team")
    gates = {title: f"The north gate is painted red {end}" for title, end in (("Gate", "now."), ("North gate", "now!"))}
    for title, text in gates.items():
        free.store(title=title, content=text, namespace="elsewhere")
    run = free.curate(apply=True, steps=["duplicates"])
    made = {memory.namespace: memory.id for memory in free.list().memories}
    assert (run.changed, len(made)) == (2, 2)
    for event in ("pre_delete", "pre_store", "pre_link"):
        assert_denied(open_with(hook_rule(event, DENY, match=["team"])), "curate_rollback", run_id=run.run_id)
    assert free.list().count == 2
    free.update(id=made["team"], content="Somebody says something else by now.")
    hold = open_with(hook_rule("pre_delete", DENY, match=["nowhere"]))
    outcomes = {one.outcome for one in hold.curate_rollback(run_id=run.run_id).outcomes}
    assert outcomes == {"applied", "rejected"}
    assert free.get(id=made["team"]).content == "Somebody says something else by now."


def test_a_step_that_can_no_longer_be_rolled_back_calls_no_hook(open_with: Open) -> None:
    free = open_with()
    for place in ("team", "elsewhere"):
        for title, text in ALIKE.items():
            free.store(title=title, content=text, namespace=place)
    run = free.curate(apply=True, steps=["duplicates"])
    made = {memory.namespace: memory.id for memory in free.list().memories}
    free.archive(ids=[made["team"]])
    free.archive_purge(ids=[made["team"]])
    hold = open_with(*(hook_rule(event, DENY, match=["team"]) for event in ("pre_store", "pre_delete", "pre_link")))
    assert {one.outcome for one in hold.curate_rollback(run_id=run.run_id).outcomes} == {"applied", "rejected"}
    assert [memory.namespace for memory in hold.list().memories] == ["elsewhere", "elsewhere"]


def test_accepting_a_proposal_runs_the_hooks_of_its_effects(open_with: Open, tmp_path: Path) -> None:
    free, log = open_with(), tmp_path / "log"
    free.store(title="Old", content=POOL, namespace="team")
    free.store(title="New", content=POOL.replace("ten", "twelve"), namespace="team")
    plain = free.store(title="Pools", content=f"{POOL} A connection pool is small.", namespace="elsewhere").id
    free.curate(apply=True, steps=["tags", "contradictions"])
    offers = free.curate_proposals().proposals
    (against,) = [one.id for one in offers if one.kind == "contradiction"]
    (labels,) = [one for one in offers if one.kind == "tags" and one.memory_id == plain]
    assert_denied(
        open_with(hook_rule("pre_link", DENY, match=["team"])), "curate_decide", ids=[against], decision="accept"
    )
    hold = open_with(hook_rule("pre_store", DENY))
    assert_denied(hold, "curate_decide", ids=[against, labels.id], decision="accept")
    assert hold.curate_decide(ids=["no-such-proposal"], decision="accept").outcomes[0].code == "NOT_FOUND"
    assert hold.curate_decide(ids=[against], decision="accept").outcomes[0].outcome == "applied"
    rest = [one.id for one in offers if one.id not in (against, labels.id)]
    assert {one.outcome for one in hold.curate_decide(ids=rest, decision="dismiss").outcomes} == {"applied"}
    listens = open_with(hook_rule("pre_store", hook_command("", log)))
    listens.curate_decide(ids=[labels.id], decision="accept")
    [told] = read_log(log)
    assert told["makes"] == [{"id": labels.memory_id, "tags": labels.details["tags"]}]


def test_resolving_a_conflict_runs_the_hooks_of_the_resulting_value(open_with: Open, tmp_path: Path) -> None:
    log, listens = tmp_path / "log", open_with(hook_rule("pre_store", hook_command("", tmp_path / "log")))
    with holdfast.open(str(tmp_path / "other.db")) as other:
        for number in range(3):
            open_with().store(title=f"Port {number}", content="It is 8080.", namespace="team")
            other.store(title=f"Port {number}", content="It is 9090.", namespace="team")
        for _ in range(2):
            sync_stores(listens.ctx, other.ctx, "merge", trust_source=True)
    found = [one.id for one in listens.conflicts().conflicts]
    assert_denied(
        open_with(hook_rule("pre_store", DENY, match=["team"])), "conflicts_resolve", id=found[0], keep="mine"
    )
    for id, keep, value in zip(found, ("mine", "both", "edited"), (None, None, "It is 7070."), strict=True):
        listens.call("conflicts_resolve", {"id": id, "keep": keep, "value": value})
    assert [one["makes"][0]["content"] for one in read_log(log)] == ["It is 8080.", "It is 8080.", "It is 7070."]


def test_resolving_a_conflict_as_deleted_runs_the_delete_hooks(open_with: Open, tmp_path: Path) -> None:
    hold = open_with()
    gone, one, two = (hold.store(title=title, content="x", namespace="team").id for title in ("Old", "Plan", "Note"))
    hold.link(source_id=one, target_id=two)
    ends = {"source_id": one, "target_id": two, "relation": "related_to"}
    with holdfast.open(str(tmp_path / "other.db")) as other:
        sync_stores(hold.ctx, other.ctx, "merge", trust_source=True)
        hold.delete(id=gone)
        hold.kg_invalidate(**ends, valid_until="2090-01-01T00:00:00Z")
        other.archive(ids=[gone])
        other.kg_invalidate(**ends, valid_until="2091-01-01T00:00:00Z")
        for _ in range(2):
            sync_stores(hold.ctx, other.ctx, "merge", trust_source=True)
    found = {each.field: each.id for each in hold.conflicts().conflicts}
    assert set(found) == {"state", "valid_until"}
    assert_denied(
        open_with(hook_rule("pre_delete", DENY, match=["team"])), "conflicts_resolve", id=found["state"], keep="other"
    )
    assert_denied(
        open_with(hook_rule("pre_link", DENY, match=["team"])),
        "conflicts_resolve",
        id=found["valid_until"],
        keep="other",
    )


def test_other_operations_on_a_memory_run_the_same_hooks(open_with: Open) -> None:
    free = open_with()
    kept = free.store(title="Pools", content=f"{POOL} A connection pool is small.", namespace="team").id
    free.policy_set(namespace="team", require_approval_above_depth=1, self_approval=True)
    first = free.reflect(source_ids=[kept], title="So", content="It follows.", namespace="team").id
    waits = free.reflect(source_ids=[first], title="Then", content="That follows, too.", namespace="team").pending_id
    said = free.conversation_say(turns=[{"role": "user", "content": "Good day"}], namespace="team").conversation_id
    lesson = free.lesson_add(rule="Look at the copy first.", domain="databases", namespace="team").lesson.id
    before = free.backup().snapshot

    push = {"sender_agent_id": "ai:desk@home"}
    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("pre_store", "auto_tag", {"id": kept, "apply": True}),
        ("pre_reflect", "pending_approve", {"id": waits}),
        ("pre_store", "conversation_close", {"id": said, "summary": "A greeting.", "namespace": "elsewhere"}),
        ("pre_store", "conversation_reap", {}),
        ("pre_store", "outcome_record", {"score": 1, "domain": "databases", "lesson_id": lesson, "namespace": "other"}),
        ("pre_delete", "sync_push", {**push, "deletions": [kept]}),
        (
            "pre_store",
            "sync_push",
            {**push, "memories": [{"id": "p-1", "title": "T", "content": "x", "namespace": "team"}]},
        ),
        ("pre_link", "sync_push", {**push, "links": [{"source_id": kept, "target_id": first}]}),
        ("pre_delete", "restore", {"from": before}),
    ]
    for event, name, arguments in asked:
        hold = open_with(hook_rule(event, DENY, match=["team"]))
        assert_denied(hold, name, **arguments)
        assert name in hold.hooks_list().hooks[0].operations
    hold = open_with(hook_rule("pre_store", DENY, match=["team"]), hook_rule("pre_delete", DENY, match=["team"]))
    assert hold.auto_tag(id=kept).applied is False
    assert hold.call("sync_push", {**push, "dry_run": True, "deletions": [kept]}).deleted == 1
    assert hold.restore(**{"from": before, "dry_run": True}).dry_run
    assert free.get(id=kept).tags == ()


def test_every_write_to_a_namespace_runs_its_hooks(open_with: Open) -> None:
    hold = open_with(*(hook_rule(event, DENY, match=["caf\u00e9/**"]) for event in ("pre_store", "pre_recall")))
    assert_denied(hold, "store", title="Plan", content="x", namespace="cafe\u0301/bar")
    assert_denied(hold, "recall", context="x", namespace="cafe\u0301")
    assert_denied(hold, "recall", context="x", as_agent="elsewhere")
    assert_denied(hold, "build_context", message="x", namespace="elsewhere")


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
