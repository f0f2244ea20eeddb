"""An import is killed at any time: stored memories are complete, and a second run finishes it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

import holdfast
from engines import ENGINES
from timeouts import wait_until

pytestmark = pytest.mark.full

TURNS = 1200


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def transcript(path: Path) -> Path:
    with path.open("w") as file:
        for number in range(TURNS):
            said = {"role": "user", "content": f"Turn number {number} of many."}
            entry = {"type": "user", "uuid": f"u-{number}", "sessionId": "s", "message": said}
            file.write(json.dumps(entry) + "\n")
    return path


def start(db: str, path: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast", "--db", db, "mine", str(path), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )


def wait_for_turns(hold: holdfast.Holdfast, wanted: int, process: "subprocess.Popen[str]") -> None:
    """Wait until enough memories are stored, or the process has ended."""
    wait_until(lambda: process.poll() is not None or hold.stats().total >= wanted)


def test_repeatedly_killed_imports_store_every_turn_once(db: str, tmp_path: Path) -> None:
    path = transcript(tmp_path / "s.jsonl")
    holdfast.open(db).close()
    chance = Random(7)
    counts = [0]
    for _ in range(20):
        process = start(db, path)
        wanted = counts[-1] + chance.randrange(1, TURNS // 3)
        with holdfast.open(db) as hold:
            wait_for_turns(hold, wanted, process)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            counts.append(hold.stats().total)
        if counts[-1] == TURNS:
            break
    assert counts == sorted(counts)
    assert any(0 < number < TURNS for number in counts)
    done = start(db, path)
    output, _ = done.communicate()
    answer = json.loads(output)
    assert (answer["imported"], answer["unchanged"], done.returncode) == (TURNS - counts[-1], counts[-1], 0)
    with holdfast.open(db) as hold:
        exported = hold.export()["memories"]
        assert sorted(one["place"] for one in exported) == list(range(TURNS))
        assert {one["content"] for one in exported} == {f"Turn number {number} of many." for number in range(TURNS)}
        assert hold.verify().intact
