"""The script that fits the weights replays feedback."""

import subprocess
import sys
from pathlib import Path

import msgspec

import holdfast

SCRIPT = Path(__file__).parents[3] / "tools" / "fit_weights.py"


def test_rated_recalls_are_replayed(tmp_path: Path) -> None:
    with holdfast.open(str(tmp_path / "store.db")) as hold:
        used, wrong = (
            hold.store(title=day, content=f"We deploy on {day}.").id for day in ("Tuesday mornings", "Friday nights")
        )
        for question in ("when do we deploy?", "on which days do we deploy?", "deploy?"):
            hold.feedback(hold.recall(question).recall_id, "used", [used])
        hold.feedback(hold.recall("on which nights do we deploy?").recall_id, "wrong", [wrong])
        (tmp_path / "recalls.json").write_bytes(msgspec.json.encode(hold.recalls()))
    done = subprocess.run(
        [sys.executable, SCRIPT, "--recalls", tmp_path / "recalls.json"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("3 questions, current weights: any@5 100.0")
