"""The store and the files that the examples of the help use.

An example names a record by a short id such as 1f3a9c20; the store makes its own ids, so the test replaces them.
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import holdfast
from diverging_stores import disagree
from holdfast.kernel import timestamps
from holdfast.kernel.context import read_clock

OWNER = "human:ann@desk"
PARAGRAPH = "The connection pool keeps ten connections for all of the workers of the server."
SKILL = "---\nname: deploy\ndescription: How we deploy.\n---\n# Deploy\n\nOn {}.\n"
FACTS = (("city", "Berlin"), ("city", "Bonn"), ("pet", "a cat"))


def make_example_store(folder: Path) -> dict[str, str]:
    """Write memory.db and the files beside it; return the real id of each example id."""
    ids: dict[str, str] = {}
    _write_files(folder)
    with holdfast.open(str(folder / "memory.db"), agent_id=OWNER) as hold:
        _add_memories(hold, ids)
        _add_people(hold, ids)
        _add_work(hold, ids)
        _add_skill(hold, folder)
        _add_peers(hold, ids, folder)
        _add_curation(hold, ids)
        hold.export_file(file=str(folder / "store.json"))
        hold.export_reflections(out_dir=str(folder / "exported"))
        ids["latest.db"] = hold.backup().snapshot
    return ids


def _add_memories(hold: holdfast.Holdfast, ids: dict[str, str]) -> None:
    deploy = hold.store(title="Deploy day", content="We deploy on Tuesdays.", namespace="shop/web", tags=["ops"])
    rollback = hold.store(title="Rollback", content="Run `make rollback` on staging.", namespace="shop/web")
    pool = hold.store(title="Pool", content=" ".join([PARAGRAPH] * 16), namespace="shop/web")
    archived = hold.store(title="Old server", content="It was called apple.", namespace="shop/old")
    short = hold.store(title="Lunch", content="Soup at noon.", namespace="shop", tier="short")
    hold.archive(ids=[archived.id])
    hold.link(deploy.id, rollback.id)
    hold.link(pool.id, deploy.id, relation="related_to")
    thought = hold.reflect(source_ids=[deploy.id, rollback.id], title="Careful", content="Deploys can be undone.")
    source = hold.store(title="Rain", content="It rained at noon.", namespace="sky")
    hold.reflect(source_ids=[source.id], title="Weather", content="It rains.")
    hold.delete(source.id)
    ids |= {"1f3a9c20": deploy.id, "8b2e41d7": rollback.id, "c05d6e93": pool.id, "a6c4f318": archived.id}
    ids |= {"5d0c93aa": short.id, "5e9d07fa": thought.id}
    ids["af52c718"] = hold.invalidations().invalidations[0].id
    ids["d41b7e06"] = hold.entity_register(canonical_name="pool", namespace="shop", aliases=["Grace"]).entity_id
    hold.entity_register(canonical_name="Grace Hopper", namespace="people", aliases=["Grace"])
    hold.persona_generate(entity_id=ids["d41b7e06"])
    ids["e08a4f6d"] = hold.recall("when do we deploy?").recall_id
    for number in range(3):
        hold.store(title=f"Snow {number}", content="It snowed on the hill.", namespace="hill")
    ids["d9023e7f"] = hold.reflect_suggest(namespace="hill").suggestions[0].offer_id
    hold.policy_set(namespace="thinking", require_approval_above_depth=1, self_approval=True)
    waiting = hold.reflect(source_ids=[thought.id], title="Thus", content="Deploy without fear.", namespace="thinking")
    ids["3fc8a154"] = waiting.pending_id
    disagree(hold, deploy.id, "Or on Thursdays.", owner=OWNER)
    ids["6ae170b8"] = hold.conflicts().conflicts[0].id


def _add_people(hold: holdfast.Holdfast, ids: dict[str, str]) -> None:
    hold.principal_merge(alias="slack:U42", principal="ann")
    for name in ("ann", "eve"):
        hold.call("fact_set", {"key": "pet", "value": "a dog", "principal": name})
    hold.principal_purge(name="eve")
    for key, value in FACTS:
        hold.fact_set(key=key, value=value, principal="ann")
    hold.fact_delete(key="pet", principal="ann")
    talk = hold.conversation_say(turns=[{"role": "user", "content": "Is it on?"}], principal="ann", channel="slack")
    hold.conversation_say(turns=[{"role": "user", "content": "Is it?"}])
    ids["48e7f2a5"] = talk.conversation_id
    hold.agent_register(agent_id="ai:scout@laptop", agent_type="ai:scout")
    hold.grant(id=ids["1f3a9c20"], agent_id="ai:scout@laptop")
    hold.grant(id=ids["8b2e41d7"], agent_id="ai:scout@laptop")
    ids["36b0d9ec"] = hold.notify(target_agent_id=OWNER, title="Ping", payload="Are you there?").id
    ids["1a95d3c7"] = hold.interaction_record(status="ok", input="Is it on?", principal="ann").id
    ids["c7f2086b"] = hold.key_create(name="phone", scope="read").id
    hold.project_merge(project="projects/shop", alias="projects/folder/old-shop")
    ids["70de4b95"] = hold.subscribe(url="https://hooks.example.com/memory").id


def _add_work(hold: holdfast.Holdfast, ids: dict[str, str]) -> None:
    ids["62d8a0f4"] = hold.limitation_add(title="Cannot read scans").limitation.id
    ids["93e5b2c8"] = hold.observation_save(title="Lock held", type="bugfix", what="The pool waited.").id
    burnt = hold.task_add(title="Print the report", due_at="2020-01-01", max_attempts=1).task
    (claimed,) = hold.task_claim().claimed
    hold.task_finish(id=burnt.id, token=claimed.token, error="No paper.")
    taken = hold.task_add(title="Water the plants", due_at="2020-01-01").task
    hold.task_claim()
    ids |= {"f4830a1d": burnt.id, "2c9f58e3": taken.id}
    ids["7d20e4b1"] = hold.task_add(title="Pay the rent", due_at="2099-01-01").task.id
    finished = hold.run_open(topology="report", phases=["draft"])
    hold.run_step(id=finished.run.id, token=finished.token, phase="draft", state="in_progress")
    hold.run_step(id=finished.run.id, token=finished.token, phase="draft", state="completed")
    hold.run_close(id=finished.run.id, token=finished.token)
    ids["b19c6d70"] = finished.run.id
    done = hold.run_open(topology="mail", phases=["send"], id="e6b37a20")
    for state in ("in_progress", "completed"):
        hold.run_step(id=done.run.id, token=done.token, phase="send", state=state)
    phases = ["build", "test", "publish"]
    run = hold.run_open(topology="release", phases=phases, id="c42e8d19", seconds=3600)
    hold.run_step(id=run.run.id, token=run.token, phase="build", state="in_progress")
    hold.price_set(model="model-one", input="3", output="15")
    ids["84b1f6ca"] = hold.usage_reserve(model="model-one", input_tokens=10).reservation


def _add_skill(hold: holdfast.Holdfast, folder: Path) -> None:
    hold.skill_register(inline_skill=SKILL.format("Monday"))
    hold.skill_register(folder_path=str(folder / "skills" / "deploy"))


def _add_peers(hold: holdfast.Holdfast, ids: dict[str, str], folder: Path) -> None:
    ahead = read_clock() + 30 * timestamps.DAY
    with holdfast.open(str(folder / "ahead.db"), agent_id=OWNER, now=lambda: ahead) as other:
        other.store(title="Later", content="It comes from the future.")
    hold.sync(remote=str(folder / "ahead.db"))
    ids["b8d35f02"] = hold.quarantine().quarantined[0].id
    with holdfast.open(str(folder / "laptop.db"), agent_id="human:ben@laptop") as laptop:
        laptop.store(title="Laptop", content="It has a new battery.", namespace="shop")
        laptop.sync_export_bundle(file=str(folder / "from-laptop.bundle"))
        hold.peer_add(name="laptop", token=laptop.peer_token().token)
    with holdfast.open(str(folder / "desk.db")) as desk:
        ids["TOKEN"] = desk.peer_token().token


def _add_curation(hold: holdfast.Holdfast, ids: dict[str, str]) -> None:
    for number in ("nine", "eleven"):
        hold.store(title=f"Pool of {number}", content=PARAGRAPH.replace("ten", number), namespace="shop/web")
    ids["5b7c12ef"] = hold.curate(apply=True, include_namespace=["shop/web"], max_seconds=60).run_id
    ids["9d64e3b0"] = hold.curate_proposals().proposals[0].id


def _write_files(folder: Path) -> None:
    (folder / "shop").mkdir()
    (folder / "guide.md").write_text("# Deploying\n\nWe deploy on Tuesdays.\n")
    (folder / "notes").mkdir()
    (folder / "notes" / "tea.md").write_text("# Tea\n\nGreen tea, two minutes.\n")
    turn = {"uuid": "u", "sessionId": "s", "type": "user", "message": {"role": "user", "content": "Mend the door."}}
    (folder / "session.jsonl").write_text(json.dumps(turn))
    said: list[dict[str, Any]] = [
        {"uuid": "m", "text": "Hello.", "sender": "human", "created_at": "2026-01-01T00:00:00Z"}
    ]
    chat = {"uuid": "c", "name": "Hello", "created_at": "2026-01-01T00:00:00Z", "chat_messages": said}
    (folder / "conversations.json").write_text(json.dumps([chat]))
    (folder / "skills" / "deploy" / "scripts").mkdir(parents=True)
    (folder / "skills" / "deploy" / "SKILL.md").write_text(SKILL.format("Tuesday"))
    (folder / "skills" / "deploy" / "scripts" / "deploy.sh").write_text("make deploy\n")
    with closing(sqlite3.connect(folder / "kernex.db")) as file, file:
        file.execute("create table conversations (id, channel, sender_id, started_at, updated_at)")
        file.execute("create table messages (id, conversation_id, role, content, timestamp)")
        file.execute("insert into conversations values ('c-1', 'cli', 'ann', '2026-01-01', '2026-01-01')")
