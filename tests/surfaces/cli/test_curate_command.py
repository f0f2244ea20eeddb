"""Human output of the curate commands."""

import json
from pathlib import Path

import pytest
from four_surfaces import run_command

POOL = "The connection pool keeps ten connections for all of the workers of the server."


@pytest.fixture
def at(tmp_path: Path) -> list[str]:
    """Options for a store with two duplicates and a memory that contradicts them."""
    at = [f"--db={tmp_path / 'memory.db'}", "--agent-id=ai:tester@here"]
    texts = {"Pool": POOL, "Connections": POOL.replace("all of the", "the"), "Workers": POOL.replace("ten", "nine")}
    for title, text in texts.items():
        assert run_command([*at, "store", "-T", title, "-c", text])[0] == 0
    return at


def run_ok(words: list[str]) -> str:
    code, out, err = run_command(words)
    assert (code, err) == (0, b"")
    return out.decode()


def test_a_dry_run_shows_what_would_be_done_and_how_to_apply_it(at: list[str]) -> None:
    shown = run_ok([*at, "curate", "--once"])
    assert "changed  merged 'Pool', 'Connections' into 'Pool'" in shown
    assert "Dry run. Add --apply to write." in shown
    assert shown.splitlines()[-7].split() == ["STEP", "CHECKED", "CHANGED", "PROPOSED", "SKIPPED"]


def test_a_run_is_applied_decided_and_rolled_back_by_two_word_commands(at: list[str]) -> None:
    run = json.loads(run_ok([*at, "--json", "curate", "--apply"]))["run_id"]
    proposed = run_ok([*at, "curate", "proposals"])
    assert POOL.replace("ten", "nine") in proposed
    (id, *_) = [line.split()[0] for line in proposed.splitlines() if line.endswith("contradiction")]
    assert "applied" in run_ok([*at, "curate", "decide", id, "--decision", "dismiss"])
    head, row = run_ok([*at, "curate", "runs"]).splitlines()
    assert head.split() == ["RUN", "ID", "BEGAN", "AT", "ENDED", "AT", "STATUS", "AGENT", "ID"]
    assert run in row
    assert "applied" in run_ok([*at, "curate", "rollback", run])
    assert run_command([*at, "curate", "rollback", "no-such-run"])[0] == 1


@pytest.mark.parametrize(
    "words", [["--interval-secs=59"], ["--steps=nonsense"], ["--max-ops=0"], ["--once", "--daemon"]]
)
def test_invalid_arguments_are_refused(at: list[str], words: list[str]) -> None:
    code, out, err = run_command([*at, "--json", "curate", *words])
    assert (code, out, json.loads(err)["code"]) == (2, b"", "VALIDATION_FAILED")
