"""Concurrent processes that write to one store. Run as a module, it is one of them."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE, Popen
from time import perf_counter
from typing import NamedTuple

import msgspec

from benchmarks.floors.bare_sqlite import BareTable, Text
from benchmarks.synthetic.synthetic_text import Prose
from benchmarks.timing import timer
from holdfast import app
from holdfast.features.recall.quality.timing import Spread, measure_spread
from holdfast.features.tasks.subprocess_runner import python_command
from holdfast.settings import load

PROCESSES = 8
EMBEDDERS = {"ours": "none", "vectors": "minilm"}


class CrowdResult(NamedTuple):
    each: Spread
    per_second: float


def run_crowd(kind: str, path: Path, count: int, *, processes: int = PROCESSES, batch: int = 1) -> CrowdResult:
    """Start the processes together; each stores `count` times, one memory or a batch at a time."""
    command = python_command("-m", "benchmarks.concurrent_writers", kind, str(path), str(count), str(batch))
    members = [
        Popen([*command, str(seed)], stdin=PIPE, stdout=PIPE, env=environment())  # noqa: S603 - our own
        for seed in range(processes)
    ]
    for member in members:
        read_line(member)
    begun = perf_counter()
    for member in members:
        assert member.stdin is not None
        member.stdin.close()
    seconds = [second for member in members for second in msgspec.json.decode(read_line(member), type=list[float])]
    elapsed = perf_counter() - begun
    for member in members:
        member.wait()
    return CrowdResult(measure_spread(seconds), len(seconds) * batch / elapsed)


def environment() -> dict[str, str]:
    """Return the environment with the benchmarks on PYTHONPATH."""
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def read_line(member: Popen[bytes]) -> bytes:
    """Read a line from a process; raise if it ended."""
    assert member.stdout is not None
    line = member.stdout.readline()
    if not line:
        raise RuntimeError(f"A benchmark process ended with exit code {member.wait()}.")
    return line


def run_member(kind: str, path: str, count: int, batch: int, seed: int) -> None:
    """Run one process: open, report ready, wait for the start, store, print the seconds of each write."""
    texts = [
        (f"{os.getpid()} {title}", content) for title, content in map(Prose(seed).text, range((count + 1) * batch))
    ]
    *batches, last = (texts[at : at + batch] for at in range(0, len(texts), batch))
    store = timer(open_writer(kind, Path(path)))
    store(last)
    print("ready", flush=True)
    sys.stdin.read()
    print(msgspec.json.encode([store(many) for many in batches]).decode(), flush=True)


def open_writer(kind: str, path: Path) -> Callable[[list[Text]], object]:
    if kind == "bare":
        return BareTable(path).insert_all
    hold = app.open(settings=load({"db": str(path), "embedder": EMBEDDERS[kind]}))
    if hold.ctx.embedder is not None:
        hold.ctx.embedder.embed(["It is loaded before anything is measured."])
    return lambda texts: store_all(hold, texts)


def store_all(hold: app.Holdfast, texts: list[Text]) -> None:
    memories = [{"title": title, "content": content, "tier": "long"} for title, content in texts]
    if len(memories) == 1:
        hold.call("store", memories[0])
    else:
        hold.call("bulk_store", {"memories": memories})


if __name__ == "__main__":
    run_member(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
