"""Curators as processes: one at a time, killed at any moment, ended when told."""

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
from holdfast.features.curation.run import LEASE, LEASE_MICROSECONDS
from holdfast.kernel import timestamps as moment
from holdfast.kernel.errors import CuratorBusy
from holdfast.kernel.storage import leases
from timeouts import TIMEOUT, wait_until

pytestmark = pytest.mark.full

PAIRS = 12


@pytest.fixture
def crowded(tmp_path: Path) -> str:
    """A store with many pairs of memories that say the same."""
    db = str(tmp_path / "memory.db")
    with holdfast.open(db, agent_id="ai:tester@here") as hold:
        for number in range(PAIRS):
            said = f"The lamp of room w{number:03}x hangs above all of the tables of room w{number:03}x."
            hold.store(title=f"Lamp w{number:03}x", content=said, tier="long")
            hold.store(title=f"Room w{number:03}x", content=said.replace("all of the", "all the"), tier="long")
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


def must_be_whole(hold: holdfast.Holdfast) -> int:
    """Every text is live, or archived and in what was made of it; how many are live."""
    live = hold.list(limit=1000).memories
    archived = {memory.id: memory for memory in hold.archive_list(limit=1000).archived}
    made = {source: memory for memory in live for source in memory.metadata.get("derived_from", ())}
    assert set(made) == set(archived)
    assert len(live) + len(archived) - sum("derived_from" in memory.metadata for memory in live) == 2 * PAIRS
    assert hold.verify().intact
    return len(live)


def test_a_killed_curator_leaves_whole_steps_and_the_next_goes_on(crowded: str) -> None:
    with holdfast.open(crowded, agent_id="ai:tester@here") as hold:
        before = hold.verify().entries
        with curating(crowded, "--apply", "--steps=duplicates", "--max-ops=1000") as process:
            wait_until(lambda: hold.verify().entries >= before + 5 or process.poll() is not None)
            process.kill()
            process.wait()
        partly = must_be_whole(hold)
        with hold.hold.reading() as session:
            held = leases.held(session, LEASE, moment.now())
        if held is not None:
            with pytest.raises(CuratorBusy):
                hold.curate(apply=True)
    later = moment.now() + LEASE_MICROSECONDS
    with holdfast.open(crowded, agent_id="ai:tester@here", now=lambda: max(later, moment.now())) as hold:
        hold.curate(apply=True, steps=["duplicates"], max_ops=1000)
        assert PAIRS <= must_be_whole(hold) <= partly
        assert hold.curate(apply=True, steps=["duplicates"], max_ops=1000).changed == 0
        assert must_be_whole(hold) == PAIRS
        statuses = {run.status for run in hold.curate_runs().runs}
        assert statuses <= {"done", "broken off"}


def test_two_curators_never_do_the_same_work(crowded: str) -> None:
    words = ("--apply", "--steps=duplicates", "--max-ops=1000")
    with curating(crowded, *words) as one, curating(crowded, *words) as other:
        answers = [(process.communicate()[0], process.returncode) for process in (one, other)]
    codes = [code for _, code in answers]
    assert 0 in codes
    assert set(codes) <= {0, 3}
    assert sum(json.loads(said)["changed"] for said, code in answers if code == 0) == PAIRS
    with holdfast.open(crowded, agent_id="ai:tester@here") as hold:
        assert must_be_whole(hold) == PAIRS


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_daemon_goes_on_until_it_is_told_and_lets_go_of_its_lease(crowded: str, told: signal.Signals) -> None:
    with curating(crowded, "--apply", "--daemon", "--interval-secs=3600", "--steps=duplicates") as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert (first["changed"], process.poll()) == (PAIRS, None)
        process.send_signal(told)
        assert process.wait(TIMEOUT) == 0
    with holdfast.open(crowded, agent_id="ai:tester@here") as hold:
        with hold.hold.reading() as session:
            assert leases.held(session, LEASE, moment.now()) is None
        assert hold.curate(apply=True, steps=["duplicates"]).changed == 0


def test_a_daemon_waits_while_another_curates(crowded: str) -> None:
    with holdfast.open(crowded, agent_id="ai:tester@here") as hold, hold.hold.store.writing() as session:
        assert leases.take(session, LEASE, "another", moment.now() + LEASE_MICROSECONDS, moment.now())
    with curating(crowded, "--apply", "--daemon") as process:
        assert process.stderr is not None
        said = json.loads(process.stderr.readline())
        assert (said["code"], said["retryable"], process.poll()) == ("CURATOR_BUSY", True, None)
        process.terminate()
        assert process.wait(TIMEOUT) == 0
