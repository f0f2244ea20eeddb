"""Hooks run on every surface, and only local settings configure them."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from select import select

import httpx
import pytest
from four_surfaces import surface
from serving import serve_app

import holdfast
from holdfast.kernel.registry.operation import Effect
from holdfast.operations import REGISTRY
from holdfast.settings import load
from holdfast.surfaces.http.app import build_app
from timeouts import TIMEOUT, wait_until

STORED = {"title": "Plan", "content": "x"}

CONFIG = """
[[hooks]]
event = "pre_store"
command = ["/bin/sh", "-c", "cat > /dev/null; echo '{\\"decision\\": \\"deny\\", \\"reason\\": \\"not here\\"}'"]
match = ["shut/**"]
on_error = "deny"
"""


@pytest.mark.parametrize("which", ["library", "cli", "http", "mcp"])
def test_a_refusal_by_a_hook_applies_on_every_surface(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    monkeypatch.setenv("HOLDFAST_CONFIG", str(tmp_path / "config.toml"))
    with surface(which, tmp_path / which, None) as opened:
        refused = opened.ask("store", {"title": "Plan", "content": "x", "namespace": "shut/up"})
        accepted = opened.ask("store", {"title": "Plan", "content": "x", "namespace": "open"})
    assert (refused.code, accepted.code) == ("HOOK_DENIED", None)
    assert refused.error is not None
    assert "not here" in refused.error["error"]


def test_requests_waiting_for_hooks_do_not_block_other_requests(db: str, tmp_path: Path) -> None:
    """More requests wait than there are threads; each continues after reading a line of its own."""
    begun, gate = tmp_path / "begun", tmp_path / "gate"
    os.mkfifo(gate)
    waits = {"command": ["/bin/sh", "-c", f"echo >> '{begun}'; read line < '{gate}'"], "timeout": 60}
    rules = [{**waits, "event": event, "on_error": "deny"} for event in ("pre_store", "pre_recall")]
    with ExitStack() as stack:
        hold = stack.enter_context(holdfast.open(settings=load({"db": db, "hooks": rules, "timeout_secs": TIMEOUT})))
        url = stack.enter_context(serve_app(build_app(hold)))
        client = stack.enter_context(httpx.Client(base_url=url, timeout=TIMEOUT))
        pool = stack.enter_context(ThreadPoolExecutor(20))
        requests = [pool.submit(client.post, "/api/v1/memories", json=STORED) for _ in range(10)]
        requests += [pool.submit(client.get, "/api/v1/recall", params={"context": "x"}) for _ in range(10)]
        wait_until(lambda: begun.exists() and len(begun.read_text()) >= len(requests))
        assert not any(one.done() for one in requests)
        assert client.post("/api/v1/gc", json={}).status_code == 200
        assert client.get("/api/v1/memories").json()["count"] == 0
        opened = stack.enter_context(gate.open("r+b", buffering=0))
        opened.write(b"go\n" * len(requests))
        assert {one.result().status_code for one in requests} == {200, 201, 409}


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_ending_a_command_ends_its_hook_too(how: signal.Signals, db: str, tmp_path: Path) -> None:
    fifo, config = tmp_path / "held", tmp_path / "config.toml"
    os.mkfifo(fifo)
    waits = f'["/bin/sh", "-c", "exec 3> {fifo}; echo begun >&3; sleep 60"]'
    config.write_text(f'[[hooks]]\nevent = "pre_store"\ncommand = {waits}\ntimeout = 60\non_error = "allow"\n')
    words = [sys.executable, "-m", "holdfast", "store", "-T", "Plan", "-c", "x", "--db", db]
    with subprocess.Popen(words, env={**os.environ, "HOLDFAST_CONFIG": str(config)}) as process, fifo.open() as pipe:
        assert pipe.readline() == "begun\n"
        process.send_signal(how)
        assert process.wait() == 128 + how
        assert select([pipe], [], [], 30)[0], "nobody holds it any more"
        assert pipe.read() == ""
    with holdfast.open(db) as hold:
        assert hold.list().count == 0


def test_remote_callers_neither_see_nor_run_hooks() -> None:
    named = [op for op in REGISTRY if op.name.startswith("hooks_")]
    assert {op.name: op.surfaces for op in named} == {key: {"library", "cli"} for key in ("hooks_list", "hooks_test")}


AWAY = "sets aside what its own time or its owner ends, to be restored from the archive"
MARKS = "marks what others said, and writes no memory"
NO_MEMORY = "keeps records of its own that are no memories"
PEERS = "what another store says was asked about where it was stored"
SETS_UP = "says how this store is run"
WHOLE = "keeps every memory as it is"
UNASKED = {
    **dict.fromkeys(("archive", "gc"), AWAY),
    **dict.fromkeys(("invalidations_acknowledge", "invalidations_resolve", "invalidations_dismiss"), MARKS),
    **dict.fromkeys(("feedback", "reflect_suggest", "reflect_dismiss", "pending_reject", "onboarding_tell"), MARKS),
    **dict.fromkeys(("agent_register", "notify", "inbox_read", "interaction_record", "interaction_erase"), NO_MEMORY),
    **dict.fromkeys(("skill_register", "skill_promote_from_reflection", "skill_rollback", "skill_delete"), NO_MEMORY),
    **dict.fromkeys(("run_open", "run_step", "run_heartbeat", "run_close", "run_clear"), NO_MEMORY),
    **dict.fromkeys(("session_keep", "session_clear", "usage_record", "usage_reserve", "usage_release"), NO_MEMORY),
    **dict.fromkeys(("task_add", "task_update", "task_defer", "task_cancel", "task_retry"), NO_MEMORY),
    **dict.fromkeys(("task_claim", "task_heartbeat", "task_finish"), NO_MEMORY),
    **dict.fromkeys(("sync", "sync_import_bundle", "peer_hello", "peer_take"), PEERS),
    **dict.fromkeys(("quarantine_retry", "quarantine_drop"), PEERS),
    **dict.fromkeys(("grant", "revoke", "namespace_set_standard", "namespace_clear_standard"), SETS_UP),
    **dict.fromkeys(("policy_set", "policy_clear", "key_create", "key_revoke", "llm_test"), SETS_UP),
    **dict.fromkeys(("peer_add", "peer_set", "peer_remove", "peer_certificate"), SETS_UP),
    **dict.fromkeys(("principal_merge", "principal_split", "principal_describe"), SETS_UP),
    **dict.fromkeys(("project_merge", "project_split", "price_set", "price_remove", "budget_set"), SETS_UP),
    **dict.fromkeys(("subscribe", "unsubscribe", "subscription_replay", "subscription_test"), SETS_UP),
    **dict.fromkeys(("backup", "migrate", "compact", "reembed"), WHOLE),
}
"""Operations that write and ask no hook, and why."""


def test_every_writing_operation_runs_hooks_or_documents_why_not() -> None:
    silent = {op.name for op in REGISTRY if op.effect is not Effect.READ and not op.all_stages}
    assert silent == set(UNASKED)


def test_an_operation_has_one_hook_stage_or_derives_it_from_the_request() -> None:
    asking = [op for op in REGISTRY if op.all_stages]
    assert [op.name for op in asking if (op.stage is None) != (op.parts is not None and bool(op.stages))] == []
