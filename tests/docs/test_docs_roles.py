"""The database roles documented for PostgreSQL have exactly their rights."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import psycopg
import pytest
from doc_pages import ROOT, Shell, blocks_of, documented_server, steps_of

import holdfast
from diverging_stores import disagree
from engines import Postgres
from holdfast.features.sync import read_changes as telling
from holdfast.features.sync.wire import HelloRequest, TakeRequest
from holdfast.features.webhooks.deliver import Dispatcher
from holdfast.kernel import timestamps as moment
from holdfast.kernel.context import read_clock
from holdfast.kernel.errors import HoldfastError, StoreUnreachable
from holdfast.kernel.net.outbound import WebhookLimits
from holdfast.kernel.registry.operation import Example
from holdfast.operations import REGISTRY, Effect
from provider_server import provider

PAGE = ROOT / "docs" / "how-to" / "postgresql.md"
MADE = "$ export HOLDFAST_DB="
"""With this the page begins to use what it has made."""

ELSEWHERE = {"llm_test", "migrate", "reembed"}
"""What makes a store somewhere else, or needs a model."""

SIGNING = {"peer_feed"}
"""What reads and signs what it tells, which takes the key."""

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def addresses(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The address of the store for each role, created as documented."""
    home = tmp_path_factory.mktemp("home")
    with documented_server(postgres, PAGE.read_text()) as server, closing(Shell(home, server)) as shell:
        for block in blocks_of(PAGE):
            if block.text.startswith(MADE):
                break
            for step in steps_of(block) if block.runs else ():
                printed, code = shell.run(step.command)
                assert code == 0, printed
        yield {
            role: server.with_real_addresses(f"postgresql://holdfast_{role}@db.example.org/holdfast")
            for role in ("owner", "app", "reader")
        }


def every_change(hold: holdfast.Holdfast, folder: Path) -> set[str]:
    """Every writing operation, each with something to do."""
    done = set()

    def do(name: str, /, **arguments: Any) -> Any:
        done.add(name)
        return hold.call(name, arguments)

    plan = do("store", title="Plan", content="Deploys.", tags=["ops"], embedding={"model": "own", "vector": [0.6, 0.8]})
    lunch = do("store", title="Lunch", content="Soup.", scope="private", tier="short")
    more = do("bulk_store", memories=[{"title": "A", "content": "first"}, {"title": "B", "content": "second"}])
    do("update", id=plan.id, tags=["day"])
    do("feedback", recall_id=hold.recall("deploys").recall_id, verdict="used", ids=[plan.id])
    do("promote", id=lunch.id)
    do("link", source_id=plan.id, target_id=lunch.id, relation="derived_from")
    do("kg_invalidate", source_id=plan.id, target_id=lunch.id, relation="derived_from")
    do("entity_register", canonical_name="Ada", namespace="people", aliases=["Countess"])
    do("namespace_set_standard", namespace="team", id=plan.id)
    do("namespace_clear_standard", namespace="team")
    do("grant", id=lunch.id, agent_id="ai:scout@here", permission="write")
    do("revoke", id=lunch.id, agent_id="ai:scout@here")
    do("agent_register", agent_id="ai:scout@here", agent_type="ai:scout", capabilities=["search"])
    do("inbox_read", ids=[do("notify", target_agent_id=hold.ctx.caller.agent, title="Ping", payload="there?").id])
    skill = "---\nname: deploy\ndescription: How.\n---\n"
    do("skill_register", inline_skill=skill)
    do("skill_register", inline_skill=skill + "On Tuesdays.\n")
    do("skill_rollback", skill_id="deploy")
    do("skill_delete", skill_id="deploy")
    disagree(hold, plan.id, "Deploys elsewhere.", owner=hold.ctx.caller.agent)
    do("conflicts_resolve", id=hold.conflicts().conflicts[0].id, keep="shown")
    with holdfast.open(str(folder / "other.db"), now=lambda: read_clock() + 30 * moment.DAY) as ahead:
        ahead.store(title="Later", content="It will be.")
    do("sync", remote=str(folder / "other.db"))
    assert do("quarantine_retry").rejected == 1
    do("quarantine_drop", ids=[hold.quarantine().quarantined[0].id])
    row = {"id": "p-1", "title": "Pushed", "content": "It was pushed.", "tier": "long"}
    assert do("sync_push", batch={"sender_agent_id": "ai:desk@home", "memories": [row]}).applied == 1
    thought = do("reflect", source_ids=[more.ids[1]], title="Deploying", content="It is worth a skill.")
    do("skill_promote_from_reflection", reflection_id=thought.id, skill_name="early", skill_description="When.")
    every_change_by_reflecting(hold, do, folder, thought.id)
    every_change_by_curating(hold, do)
    week = do("consolidate", ids=[plan.id, lunch.id], title="Week", summary="Deploys and soup.")
    do("delete", id=week.id)
    do("undo", change=hold.verify().entries)
    do("archive", ids=[more.ids[0]])
    do("archive_restore", id=more.ids[0])
    do("forget", pattern="first")
    do("archive_purge", ids=[more.ids[0]])
    do("gc")
    do("import", envelope={"memories": [{"title": "In", "content": "from outside"}], "links": []})
    hold.export_file(file=str(folder / "export.json"))
    do("import_file", file=str(folder / "export.json"))
    do("capture_turn", host_session_id="s-1", host_turn_index=0, role="user", content="Mend it.")
    transcript = '{"type": "user", "uuid": "u", "sessionId": "s-2", "message": {"role": "user", "content": "Mend it."}}'
    assert do("mine", content=transcript).imported == 1
    (folder / "s-2.jsonl").write_text(transcript)
    assert do("recover", transcript=str(folder / "s-2.jsonl")).unchanged == 1
    with closing(sqlite3.connect(folder / "kernex.db")) as file, file:
        file.execute("create table conversations (id, channel, sender_id, started_at, updated_at)")
        file.execute("create table messages (id, conversation_id, role, content, timestamp)")
        file.execute("insert into conversations values ('c-1', 'cli', 'ann', '2026-01-01', '2026-01-01')")
    assert do("import_kernex", path=str(folder / "kernex.db")).stored == 1
    assert do("ingest", content="# A\n\nA first paragraph.\n", namespace="docs").decisions["new"] == 1
    assert do("ingest_multistep", content="A second paragraph.", namespace="docs").ingested_memory_ids
    with holdfast.open(str(folder / "other.db")) as other:
        other.sync_export_bundle(file=str(folder / "other.bundle"))
    do("sync_import_bundle", file=str(folder / "other.bundle"), trust_sender=True)
    every_change_by_peers(do, folder)
    every_change_for_agents(do)
    every_change_for_subscribers(hold, do)
    snapshot = do("backup").snapshot
    assert do("compact", older_than=0).folded > 0
    do("key_revoke", id=do("key_create", name="laptop", scope="read").id)
    do("restore", **{"from": snapshot})
    return done


def every_change_by_peers(do: Callable[..., Any], folder: Path) -> None:
    """Enrol a store, and receive its changes."""
    with holdfast.open(str(folder / "peer.db")) as peer, peer.ctx.reading() as session:
        do("peer_add", name="desk", token=peer.peer_token().token)
        handshake = telling.build_handshake(session, read_clock())
    do("peer_set", name="desk", take=["team/**"])
    do("peer_hello", message=msgspec.to_builtins(HelloRequest(greeting=handshake, kinds=[])))
    do("peer_take", message=msgspec.to_builtins(TakeRequest(sender=handshake, changes=[], upto=handshake.seq)))
    do("peer_remove", name="desk")
    do("peer_certificate", name="desk", folder=str(folder / "certificates"))


def every_change_for_agents(do: Callable[..., Any]) -> None:
    """Write agent records beside memories: people, conversations, lessons, tasks, usage and runs."""
    do("principal_merge", alias="slack:U42", principal="ann")
    do("principal_split", alias="slack:U42")
    do("principal_describe", name="ann", display="Ann")
    do("fact_set", key="city", value="Berlin", principal="ann")
    do("fact_delete", key="city", principal="ann")
    do("fact_restore", key="city", principal="ann")
    lesson = do("lesson_add", rule="Taste the soup first.", domain="kitchen").lesson
    for _ in range(2):
        do("outcome_record", score=1, domain="kitchen", lesson_id=lesson.id)
    seen = do("observation_save", title="Cold soup", type="discovery")
    do("observation_update", id=seen.id, why="The stove was off.")
    do("limitation_resolve", id=do("limitation_add", title="No oven").limitation.id)
    do("conversation_say", turns=[{"role": "user", "content": "Is the soup on?"}], principal="ann")
    do("conversation_close", principal="ann")
    do("conversation_reap")
    assert do("conversation_consolidate", force=True, keep_outcomes=1).outcomes_archived == 1
    assert do("interaction_record", status="denied", input="Salt?", principal="ann").recorded
    assert do("interaction_erase", older_than_days=0).erased == 1
    assert do("onboarding_tell", step="introduce", principal="ann").told
    do("project_merge", project="projects/soup", alias="projects/broth")
    do("project_split", alias="projects/broth")
    every_task(do)
    do("price_set", model="m", input="3")
    do("budget_set", principal="*", tokens=100)
    reservations = [do("usage_reserve", model="m", input_tokens=1).reservation for _ in range(2)]
    do("usage_record", model="m", input_tokens=1, reservation=reservations[0])
    do("usage_release", reservation=reservations[1])
    do("price_remove", model="m")
    run = do("run_open", topology="dinner", phases=["soup"])
    for state in ("in_progress", "completed"):
        do("run_step", id=run.run.id, token=run.token, phase="soup", state=state)
    do("run_heartbeat", id=run.run.id, token=run.token)
    do("run_close", id=run.run.id, token=run.token)
    do("run_clear", id=run.run.id)
    do("session_keep", session_id="s", provider="p")
    do("session_clear")
    do("principal_purge", name="ann")


def every_change_for_subscribers(hold: holdfast.Holdfast, do: Callable[..., Any]) -> None:
    """Subscribe a receiver to changes."""
    hold.ctx = replace(hold.ctx, webhook_limits=WebhookLimits(("127.0.0.0/8",)))
    with provider(lambda handler, _: handler.reply(b"")) as receiver:
        made = do("subscribe", url=receiver.url)
        assert do("subscription_test", id=made.id).ok
        do("subscription_replay", id=made.id, since=hold.verify().entries - 1)
        assert Dispatcher(hold.ctx).deliver() == 1
        do("unsubscribe", id=made.id)


def every_task(do: Callable[..., Any]) -> None:
    task = do("task_add", title="Stir", due_at="2020-01-01", max_attempts=1).task
    do("task_update", id=task.id, title="Stir well")
    (claimed,) = do("task_claim").claimed
    do("task_heartbeat", id=task.id, token=claimed.token)
    do("task_finish", id=task.id, token=claimed.token, error="burnt")
    do("task_retry", id=task.id)
    do("task_defer", id=task.id, until="2099-01-01")
    do("task_cancel", id=task.id)


def every_change_by_curating(hold: holdfast.Holdfast, do: Callable[..., Any]) -> None:
    """Derive memories and run the curator."""
    text = "The connection pool keeps ten connections for all of the workers of the server."
    first, *_ = [hold.store(title=f"Pool of {n}", content=text.replace("ten", n)).id for n in ("nine", "eleven")]
    do("auto_tag", id=first, apply=True)
    do("persona_generate", entity_id="pool")
    run = do("curate", apply=True)
    do("curate_decide", ids=[hold.curate_proposals().proposals[0].id], decision="accept")
    do("curate_rollback", run_id=run.run_id)
    do("atomise", memory_id=hold.store(title="Report", content=" ".join([text] * 9)).id, max_atom_tokens=60)


def every_change_by_reflecting(hold: holdfast.Holdfast, do: Callable[..., Any], folder: Path, thought: str) -> None:
    """Write everything about reflections: policies, approvals, proposals, files and stale notices."""
    do("policy_set", namespace="global", require_approval_above_depth=1, self_approval=True)
    for number, decide in enumerate(("pending_approve", "pending_reject")):
        request = do("reflect", source_ids=[thought], title=f"Deeper {number}", content="It follows.")
        do(decide, id=request.pending_id)
    assert do("policy_clear", namespace="global").cleared
    alike = [hold.store(title=f"Soup {number}", content="Soup is served at noon.").id for number in range(3)]
    do("reflect_dismiss", offer_id=do("reflect_suggest").suggestions[0].offer_id)
    (folder / "other.md").write_text(hold.export_reflection(thought).content.replace(thought, str(uuid4())))
    assert do("import_reflections", path=str(folder), on_conflict="version").imported == 1
    hold.reflect(source_ids=alike, title="Noon", content="There is soup.")
    hold.delete(alike[0])
    (stale,) = hold.invalidations(invalidated_id=alike[0]).invalidations
    for settle in ("invalidations_acknowledge", "invalidations_resolve", "invalidations_dismiss"):
        assert do(settle, ids=[stale.id]).outcomes[0].outcome == "applied"


def test_the_application_role_can_do_everything_that_holdfast_does(addresses: dict[str, str], tmp_path: Path) -> None:
    with holdfast.open(addresses["app"], agent_id="ai:tester@here") as hold:
        done = every_change(hold, tmp_path)
        assert hold.recall("soup").count >= 1
        assert hold.verify().intact
        assert [section.name for section in hold.doctor().sections if section.severity == "critical"] == []
    assert {op.name for op in REGISTRY if op.effect is not Effect.READ} - done == ELSEWHERE


@pytest.mark.parametrize(
    "statement",
    [
        "create table holdfast.mine (x int)",
        "drop table holdfast.meta",
        "alter table holdfast.memory add column x int",
        "truncate holdfast.journal",
        "drop trigger journal_head_moved on holdfast.journal_head",
        "delete from holdfast.migration",
    ],
)
def test_the_application_role_cannot_alter_tables(addresses: dict[str, str], statement: str) -> None:
    with psycopg.connect(addresses["app"]) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(statement)


def outcome(hold: holdfast.Holdfast, name: str, example: Example) -> str | None:
    """Return the error code of an example of an operation."""
    try:
        hold.call(name, dict(example.arguments))
    except HoldfastError as error:
        return error.code
    return None


def test_the_reader_role_can_query_everything_and_change_nothing(addresses: dict[str, str]) -> None:
    with holdfast.open(addresses["owner"]) as owner:
        id = owner.store(title="Read me", content="By whoever may.").id
    with holdfast.open(addresses["reader"]) as hold:
        assert hold.recall("whoever").memories[0].id == id
        for op in REGISTRY:
            if op.effect is Effect.READ and op.name not in SIGNING:
                examples = [one for one in op.examples if not one.prepared]
                assert [outcome(hold, op.name, example) for example in examples] == [one.error for one in examples]
        with pytest.raises(StoreUnreachable):
            hold.store(title="Not by me", content="No.")


def test_the_reader_role_cannot_read_the_signing_key(addresses: dict[str, str]) -> None:
    with psycopg.connect(addresses["reader"]) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("select secret from holdfast.node_key")


def test_the_roles_can_use_tables_created_later(addresses: dict[str, str]) -> None:
    with psycopg.connect(addresses["owner"], autocommit=True) as owner:
        owner.execute("create table holdfast.later (x bigint generated by default as identity)")
        try:
            with psycopg.connect(addresses["app"], autocommit=True) as app:
                app.execute("insert into holdfast.later default values")
                app.execute("update holdfast.later set x = 2")
            with psycopg.connect(addresses["reader"]) as reader:
                assert reader.execute("select x from holdfast.later").fetchall() == [(2,)]
        finally:
            owner.execute("drop table holdfast.later")
