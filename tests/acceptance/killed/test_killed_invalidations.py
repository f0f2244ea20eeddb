"""A process is killed while it invalidates memories: all dependents of a source are flagged, or none."""

import signal
import subprocess
import sys
from random import Random

import pytest

import holdfast
from engines import ENGINES
from holdfast.features.graph import service as graph_service
from holdfast.features.history import service as history

pytestmark = pytest.mark.full

ROOTS = 60
EACH = 40
"""Dependents of each root; every other one depends on the previous one."""

FALLING = """
import sys, holdfast
hold = holdfast.open(sys.argv[1], agent_id="ai:killed@here")
heir, *roots = sys.argv[2:]
for root in roots:
    print(root, len(hold.link(heir, root, relation="supersedes").invalidation_notified), flush=True)
"""


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def build_memories(hold: holdfast.Holdfast) -> tuple[str, list[str]]:
    """Create a replacement, and roots with dependents."""
    replacement = hold.store(title="heir", content="takes every place", tier="long").id
    roots = []
    for root in range(ROOTS):
        titles = [f"{root}: {number}" for number in range(EACH + 1)]
        ids = hold.bulk_store(memories=[{"title": title, "content": title, "tier": "long"} for title in titles]).ids
        with hold.ctx.transaction() as write:
            for number in range(1, EACH + 1):
                source = ids[0] if number % 2 else ids[number - 1]
                graph_service.add_link(hold.ctx, write, ids[number], source, "derived_from")
        roots.append(ids[0])
    return replacement, roots


def run_until_killed(db: str, heir: str, roots: list[str], after: int) -> list[str]:
    """Run a process, kill it at work, and return what it acknowledged."""
    command = [sys.executable, "-c", FALLING, db, heir, *roots]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(after)]
        process.kill()
        lines += list(process.stdout)
    assert process.returncode in (0, -signal.SIGKILL)
    done = [line.split() for line in lines if line.endswith("\n")]
    assert {told for _, told in done[1:]} <= {str(EACH)}
    assert done[0][1] in (str(EACH), "0")  # none, if the previous process was killed just after creating this one
    return [root for root, _ in done]


def test_notices_of_a_killed_process_are_created_for_every_dependent_or_none(db: str) -> None:
    pick = Random(1)
    with holdfast.open(db, agent_id="ai:tester@here") as hold:
        replacement, roots = build_memories(hold)
    acknowledged = list[str]()
    for _ in range(6):
        left = [root for root in roots if root not in acknowledged]
        acknowledged += run_until_killed(db, replacement, left, pick.randrange(1, 8))
    with holdfast.open(db, agent_id="ai:tester@here") as hold, hold.ctx.reading() as session:
        for root in roots:
            link = session.row("link_get", id=graph_service.link_id(replacement, root, "supersedes"))
            notices = session.rows("invalidation_pending", ids=[root])
            assert len(notices) == (EACH if link else 0)
            assert link or root not in acknowledged
        assert history.verify(hold.ctx, session) == []
    assert acknowledged
