"""Measure hooks and `boot` as cold processes, relative to a cold `holdfast recall`."""

import subprocess
from pathlib import Path

import msgspec

from benchmarks import cold
from benchmarks.report import Row, times
from benchmarks.speed import Rounds, fill, open_store
from benchmarks.synthetic.synthetic_text import Prose
from benchmarks.timing import Doer, in_turns, timer
from holdfast.features.recall.quality.timing import ProgressMeter
from holdfast.surfaces.bench.clients import holdfast_command

SIZE = 100
RECALL = "`holdfast recall`, cold"


def measure_hooks(place: Path, rounds: Rounds, meter: ProgressMeter) -> list[Row]:
    """Measure the hooks; every prompt is new, so captured turns accumulate as in a session."""
    path = place / "hooks.db"
    fill(path, SIZE, lambda: None)
    with open_store(path, "minilm") as hold:
        hold.call("reembed", {})
    prose, step = Prose(11), meter.start_phase("answering hooks")
    doers: dict[str, Doer] = {
        "recall": timer(lambda prompt: cold.run(holdfast_command("recall", prompt, "--json", "--db", str(path)))),
        "prompt": timer(lambda prompt: run_hook(path, "prompt", prompt=prompt)),
        "tool": timer(lambda _: run_hook(path, "tool", tool_name="Edit", tool_input={"file_path": "a.py"})),
        "end": timer(lambda prompt: run_hook(path, "session-end", last_assistant_message=f"{prompt} So it was.")),
        "boot": timer(lambda _: cold.run(holdfast_command("boot", "--db", str(path)))),
    }
    for do in doers.values():
        do(prose.question())
    found = in_turns(doers, [prose.question() for _ in range(rounds.starts)], step)
    recall = found["recall"]
    return [
        times("`holdfast hook prompt`, p95", f"{RECALL}, p95", recall.p95, found["prompt"].p95, at_most=2),
        times("`holdfast hook prompt`, median", f"{RECALL}, median", recall.p50, found["prompt"].p50, at_most=2),
        times("`holdfast hook tool`, median", f"{RECALL}, median", recall.p50, found["tool"].p50),
        times("`holdfast hook session-end`, median", f"{RECALL}, median", recall.p50, found["end"].p50),
        times("`holdfast boot`, median", f"{RECALL}, median", recall.p50, found["boot"].p50, at_most=2),
    ]


def run_hook(path: Path, event: str, **said: object) -> None:
    """Run a hook as a host does, with a long timeout, so the work is measured and not the limit."""
    told = msgspec.json.encode({"session_id": "bench", "cwd": str(path.parent), **said})
    command, patient = holdfast_command("hook", event, "--db", str(path)), {"HOLDFAST_HOOK_TIMEOUT_MS": "60000"}
    subprocess.run(command, input=told, check=True, stdout=subprocess.DEVNULL, env=cold.environment() | patient)  # noqa: S603 - ours
