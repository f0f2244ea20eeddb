"""Hooks run for every memory that an operation changes: undo, curation, conflicts, other operations."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hook_programs import Open, hook_command, hook_rule, read_log

import holdfast
from holdfast.features.sync.exchange import sync_stores
from holdfast.kernel.errors import HookDenied, NotFound


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
