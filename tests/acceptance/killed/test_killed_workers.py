"""Workers are killed and paused while they process tasks: every task is finished exactly once."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import NamedTuple

import pytest

import holdfast
from benchmarks.agents import plan
from engines import ENGINES_BY_RING
from timeouts import TEST_TIMEOUT, TIMEOUT, wait_until

TASKS = int(os.environ.get("TRIED_TASKS", "800"))
"""10,000 are tried manually at times. More are added on fast machines until all kinds of failures have occurred."""
MORE = 200
WORKERS = 4
MOST_PAUSED = 2
LEASE = 2
SECONDS_BETWEEN = 2.0
PATIENCE = TIMEOUT + TASKS / 5

FEW = 60
SKEWS = (-3, 0, 3)
"""Clock errors of workers, in hours."""
MOST_KILLED = 3
POISON = "Poison"
"""A task that kills every worker."""

CLAIMANT = """
import os, sys, time, holdfast
from holdfast.kernel import timestamps
from holdfast.kernel.context import read_clock
from holdfast.kernel.errors import LeaseLost, StoreBusy
owner, lease, skew = sys.argv[2], int(sys.argv[3]), int(sys.argv[5]) * 3600 * timestamps.SECOND
def patiently(work, **said):
    while True:
        try:
            return work(**said)
        except StoreBusy:  # a paused writer locks the file
            pass
clock = lambda: read_clock() + skew
with (
    holdfast.open(sys.argv[1], agent_id="ai:tester@here", now=clock) as hold,
    open(sys.argv[4], "a", buffering=1) as book,
):
    parent = os.getppid()
    while os.getppid() == parent:  # stop when the test has ended
        found = patiently(hold.task_claim, owner=owner, limit=10, seconds=lease).claimed
        if not found:
            time.sleep(0.05)  # other leases end in time
        for one in found:
            if one.task.title == "Poison":
                os.kill(os.getpid(), 9)
            try:
                done = patiently(hold.task_finish, id=one.task.id, token=one.token, result=owner)
                book.write(f"{one.task.id} {done.run.id}\\n")
            except LeaseLost:
                book.write("late\\n")
"""


@pytest.fixture(params=ENGINES_BY_RING)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Claimant(NamedTuple):
    process: "subprocess.Popen[bytes]"
    book: Path

    @property
    def works(self) -> bool:
        """Whether it has claimed a task: on a slow machine the start takes a while."""
        return self.book.exists()

    def written_bytes(self) -> int:
        """Size of its output so far."""
        return self.book.stat().st_size

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def begin(db: str, book: Path, skew: int = 0) -> Claimant:
    argv = [sys.executable, "-c", CLAIMANT, db, book.name, str(LEASE), str(book), str(skew)]
    return Claimant(subprocess.Popen(argv), book)


class Claimants:
    """At most four running and two paused workers; some are killed or paused and replaced."""

    def __init__(self, db: str, books: Path) -> None:
        self._db = db
        self._books = books
        self._made = 0
        self.working = [self._begin() for _ in range(WORKERS)]
        self._paused: list[tuple[float, Claimant]] = []
        self._woken: list[tuple[int, Claimant]] = []
        self.killed = self.paused = 0

    def _begin(self) -> Claimant:
        self._made += 1
        return begin(self._db, self._books / f"worker-{self._made}")

    @property
    def asleep(self) -> int:
        return len(self._paused)

    def count_late_finishes(self) -> int:
        """Return how many finished a task, or were rejected, after their lease had ended."""
        return sum(claimant.written_bytes() > before for before, claimant in self._woken)

    def disturb(self) -> None:
        if not self.working[0].works:
            return
        victim = self.working.pop(0)
        if self.killed > 2 * self.paused and len(self._paused) < MOST_PAUSED:
            victim.process.send_signal(signal.SIGSTOP)
            self._paused.append((monotonic() + LEASE + 1, victim))
            self.paused += 1
        else:
            victim.kill()
            self.killed += 1
        if len(self.working) < WORKERS:
            self.working.append(self._begin())

    def wake(self) -> None:
        """Resume workers that were paused beyond their lease, and stop as many others."""
        for pair in [pair for pair in self._paused if pair[0] <= monotonic()]:
            self._paused.remove(pair)
            self._woken.append((pair[1].written_bytes(), pair[1]))
            pair[1].process.send_signal(signal.SIGCONT)
            self.working.append(pair[1])
            self.working.pop(0).kill()
            self.killed += 1

    def end(self) -> None:
        for claimant in [*self.working, *(claimant for _, claimant in self._paused)]:
            claimant.kill()

    def read_logs(self) -> list[str]:
        return read_log_lines(self._books)


def read_log_lines(books: Path) -> list[str]:
    return [line for file in books.iterdir() for line in file.read_text().splitlines()]


@pytest.mark.full
@pytest.mark.timeout(TEST_TIMEOUT + TASKS)
def test_every_task_is_finished_once_despite_killed_or_suspended_workers(db: str, tmp_path: Path) -> None:
    books = tmp_path / "books"
    books.mkdir()
    with holdfast.open(db, agent_id="ai:tester@here") as hold:
        made = plan(hold, TASKS)
        claimants = Claimants(db, books)
        try:
            made += work_off(hold, claimants)
        finally:
            claimants.end()
        runs = [run for id in made for run in hold.task_runs(id=id, limit=100).runs]
    settled = [run for run in runs if run.final]
    assert len(settled) == len(made)
    assert {run.status for run in settled} == {"completed"}
    run_ids = {line.split()[1] for line in claimants.read_logs() if line != "late"}
    assert run_ids <= {run.id for run in settled}
    assert claimants.killed > 0
    assert claimants.count_late_finishes() > 0
    tries = Counter(run.status for run in runs)
    refused = claimants.read_logs().count("late")
    print(f"\n{len(made)} tasks, {claimants.killed} killed, {claimants.paused} paused, {tries}, {refused} refused")


def work_off(hold: holdfast.Holdfast, claimants: Claimants) -> list[str]:
    """Run until no task is left, and kills and lost leases have occurred; return the added tasks."""
    added: list[str] = []
    disturbed = monotonic()

    def is_all_done() -> bool:
        nonlocal disturbed
        left = hold.task_list(limit=1).total
        if not left and claimants.count_late_finishes():
            return True
        sleep(0.1)
        claimants.wake()
        if (
            left < MORE and not claimants.count_late_finishes() and not claimants.asleep
        ):  # a suspended one can delay files
            added.extend(plan(hold, MORE))
        if monotonic() - disturbed > SECONDS_BETWEEN:
            disturbed = monotonic()
            claimants.disturb()
        return False

    wait_until(is_all_done, PATIENCE)
    return added


def test_workers_with_clocks_hours_apart_finish_each_task_once_and_fail_the_poison_task(
    db: str, tmp_path: Path
) -> None:
    books = tmp_path / "books"
    books.mkdir()
    with holdfast.open(db, agent_id="ai:tester@here") as hold:
        made = plan(hold, FEW)
        poison = hold.task_add(title=POISON, due_at="2020-01-01", max_attempts=3).task.id
        killed = work_off_by_any_clock(hold, books)
        runs = [run for id in made for run in hold.task_runs(id=id, limit=100).runs]
        deadly, tries = hold.task_show(id=poison), hold.task_runs(id=poison).runs
    settled = [run for run in runs if run.final]
    assert (len(settled), {run.status for run in settled}) == (FEW, {"completed"})
    assert {line.split()[1] for line in read_log_lines(books) if line != "late"} <= {run.id for run in settled}
    assert (deadly.state, deadly.attempts) == ("failed", 3)
    assert [(run.status, run.final) for run in tries] == [("lost", True), ("lost", False), ("lost", False)]
    assert killed == MOST_KILLED


def work_off_by_any_clock(hold: holdfast.Holdfast, books: Path) -> int:
    """Run until no task is left; killed workers are replaced by ones with the same clock."""
    random, killed = Random(4), 0
    working = {skew: begin(hold.settings.db or "", books / f"{skew}-0", skew) for skew in SKEWS}

    def is_all_done() -> bool:
        nonlocal killed
        if killed == MOST_KILLED and not hold.task_list(limit=1).total:
            return True
        sleep(0.1)
        victim = working[random.choice(SKEWS)]
        if killed < MOST_KILLED and victim.works:
            victim.kill()
            killed += 1
        for skew, one in working.items():
            if one.process.poll() is not None:
                working[skew] = begin(hold.settings.db or "", books / f"{skew}-{len(list(books.iterdir()))}", skew)
        return False

    try:
        wait_until(is_all_done)
    finally:
        for one in working.values():
            one.kill()
    return killed
