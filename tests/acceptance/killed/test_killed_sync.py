"""A sync daemon and a server are killed during a sync: the next one continues without duplicates."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from serving_processes import HOLDFAST, ServerProcess

import holdfast
from holdfast.features.sync.status import list_cursors
from timeouts import wait_until

EACH = 300
BATCH = 10
KILLS = 2


@contextmanager
def running_sync_daemon(db: str, url: str) -> Iterator[subprocess.Popen[bytes]]:
    """`holdfast sync-daemon` as a process."""
    command = [*HOLDFAST, "sync-daemon", "--db", db, "--peers", url, "--interval", "1", "--batch-size", str(BATCH)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=os.environ)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def fill(hold: holdfast.Holdfast, whose: str) -> None:
    for start in range(0, EACH, BATCH):
        numbers = range(start, start + BATCH)
        hold.bulk_store(memories=[{"title": f"{whose} {one}", "content": f"{whose} said {one}."} for one in numbers])


def wait_for_changes(hold: holdfast.Holdfast, count: int) -> None:
    """Wait until enough further changes were applied, or all."""
    wanted = min(read_cursor(hold) + count, EACH)
    wait_until(lambda: read_cursor(hold) >= wanted)


def read_cursor(hold: holdfast.Holdfast) -> int:
    with hold.ctx.reading() as session:
        return max(list_cursors(session).values(), default=0)


@pytest.mark.full
@pytest.mark.parametrize("victim", ["daemon", "server"])
def test_a_sync_killed_at_either_end_continues_without_duplicates(victim: str, tmp_path: Path) -> None:
    mine, theirs = str(tmp_path / "mine.db"), str(tmp_path / "theirs.db")
    with holdfast.open(mine, agent_id="ai:a@x") as here, holdfast.open(theirs, agent_id="ai:b@y") as there:
        fill(here, "Ann")
        fill(there, "Bob")
        watched = here if victim == "daemon" else there
        for _ in range(KILLS):
            server = ServerProcess(theirs)
            server.is_ready()
            with running_sync_daemon(mine, server.url) as daemon:
                wait_for_changes(watched, 5 * BATCH)
                (daemon if victim == "daemon" else server.process).kill()
            server.process.kill()
            server.process.communicate()
        server = ServerProcess(theirs)
        server.is_ready()
        try:
            here.sync(remote=server.url, trust_source=True)
            assert here.sync(remote=server.url, trust_source=True).pulled == 0
            assert server.stop() == (0, "")
        finally:
            server.process.kill()
        assert here.sync_digest().digest == there.sync_digest().digest
        assert [hold.stats().total for hold in (here, there)] == [2 * EACH, 2 * EACH]
        assert [hold.sync_digest().seq for hold in (here, there)] == [2 * EACH, 2 * EACH]
        assert all(hold.verify().intact for hold in (here, there))
