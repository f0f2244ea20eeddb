"""Curators as processes: one at a time, killed at any time, stopped on request."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import holdfast
from holdfast.features.curation.run import LEASE
from holdfast.kernel.context import read_clock
from holdfast.kernel.errors import CuratorBusy
from holdfast.kernel.storage import leases
from timeouts import TIMEOUT, wait_until

pytestmark = pytest.mark.full

PAIRS = 12


@pytest.fixture
def store_with_duplicates(tmp_path: Path) -> str:
    """A store with many pairs of duplicates."""
    db = str(tmp_path / "memory.db")
    with holdfast.open(db, agent_id="ai:tester@here") as hold:
        for number in range(PAIRS):
            text = f"The lamp of room w{number:03}x hangs above all of the tables of room w{number:03}x."
            hold.store(title=f"Lamp w{number:03}x", content=text, tier="long")
            hold.store(title=f"Room w{number:03}x", content=text.replace("all of the", "all the"), tier="long")
    return db


@contextmanager
def curating(db: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "holdfast", "--db", db, "--agent-id", "ai:tester@here", "--json", "curate", *words]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"HOLDFAST_EMBEDDER": "none"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def check_texts_complete(hold: holdfast.Holdfast) -> int:
    """Check that every text is live, or archived and part of its merge; return the number of live ones."""
    live = hold.list(limit=1000).memories
    archived = {memory.id: memory for memory in hold.archive_list(limit=1000).archived}
    merges = {source: memory for memory in live for source in memory.metadata.get("derived_from", ())}
    assert set(merges) == set(archived)
    assert len(live) + len(archived) - sum("derived_from" in memory.metadata for memory in live) == 2 * PAIRS
    assert hold.verify().intact
    return len(live)


def test_a_killed_curator_leaves_whole_steps_and_the_next_run_continues(store_with_duplicates: str) -> None:
    with holdfast.open(store_with_duplicates, agent_id="ai:tester@here") as hold:
        before = hold.verify().entries
        with curating(store_with_duplicates, "--apply", "--steps=duplicates", "--max-ops=1000") as process:
            wait_until(lambda: hold.verify().entries >= before + 5 or process.poll() is not None)
            process.kill()
            process.wait()
        partly = check_texts_complete(hold)
        with hold.ctx.reading() as session:
            lease = leases.get_lease(session, LEASE.name, read_clock())
        if lease is not None:
            with pytest.raises(CuratorBusy):
                hold.curate(apply=True)
    later = read_clock() + LEASE.duration
    with holdfast.open(store_with_duplicates, agent_id="ai:tester@here", now=lambda: max(later, read_clock())) as hold:
        hold.curate(apply=True, steps=["duplicates"], max_ops=1000)
        assert PAIRS <= check_texts_complete(hold) <= partly
        assert hold.curate(apply=True, steps=["duplicates"], max_ops=1000).changed == 0
        assert check_texts_complete(hold) == PAIRS
        statuses = {run.status for run in hold.curate_runs().runs}
        assert statuses <= {"done", "broken off"}


def test_two_curators_never_repeat_each_others_work(store_with_duplicates: str) -> None:
    words = ("--apply", "--steps=duplicates", "--max-ops=1000")
    with curating(store_with_duplicates, *words) as one, curating(store_with_duplicates, *words) as other:
        answers = [(process.communicate()[0], process.returncode) for process in (one, other)]
    codes = [code for _, code in answers]
    assert 0 in codes
    assert set(codes) <= {0, 3}
    assert sum(json.loads(said)["changed"] for said, code in answers if code == 0) == PAIRS
    with holdfast.open(store_with_duplicates, agent_id="ai:tester@here") as hold:
        assert check_texts_complete(hold) == PAIRS


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_curator_daemon_runs_until_stopped_and_releases_its_lease(
    store_with_duplicates: str, told: signal.Signals
) -> None:
    with curating(
        store_with_duplicates, "--apply", "--daemon", "--interval-secs=3600", "--steps=duplicates"
    ) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert (first["changed"], process.poll()) == (PAIRS, None)
        process.send_signal(told)
        assert process.wait(TIMEOUT) == 0
    with holdfast.open(store_with_duplicates, agent_id="ai:tester@here") as hold:
        with hold.ctx.reading() as session:
            assert leases.get_lease(session, LEASE.name, read_clock()) is None
        assert hold.curate(apply=True, steps=["duplicates"]).changed == 0


def test_a_curator_daemon_waits_while_another_curates(store_with_duplicates: str) -> None:
    with (
        holdfast.open(store_with_duplicates, agent_id="ai:tester@here") as hold,
        hold.ctx.store.transaction() as session,
    ):
        assert leases.acquire(session, LEASE.name, "another", read_clock() + LEASE.duration, read_clock())
    with curating(store_with_duplicates, "--apply", "--daemon") as process:
        assert process.stderr is not None
        report = json.loads(process.stderr.readline())
        assert (report["code"], report["retryable"], process.poll()) == ("CURATOR_BUSY", True, None)
        process.terminate()
        assert process.wait(TIMEOUT) == 0
