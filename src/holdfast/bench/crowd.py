"""Eight processes that store into one file at once. Run as a module it is one of them."""

import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE, Popen
from time import perf_counter
from typing import NamedTuple

import msgspec

from .. import app
from .floors import BareTable, Text
from .prose import Prose
from .timing import Spread, spread, took

PROCESSES = 8


class Crowded(NamedTuple):
    each: Spread
    per_second: float


def crowd(kind: str, path: Path, count: int) -> Crowded:
    """Let eight processes store `count` memories each, all beginning together."""
    command = [sys.executable, "-m", "holdfast.bench.crowd", kind, str(path), str(count)]
    members = [Popen([*command, str(seed)], stdin=PIPE, stdout=PIPE) for seed in range(PROCESSES)]  # noqa: S603
    for member in members:
        said(member)
    begun = perf_counter()
    for member in members:
        assert member.stdin is not None
        member.stdin.close()
    seconds = [second for member in members for second in msgspec.json.decode(said(member), type=list[float])]
    elapsed = perf_counter() - begun
    for member in members:
        member.wait()
    return Crowded(spread(seconds), len(seconds) / elapsed)


def said(member: Popen[bytes]) -> bytes:
    """The next line of a process. One that ended without it has said why on standard error."""
    assert member.stdout is not None
    line = member.stdout.readline()
    if not line:
        raise RuntimeError(f"A process of the measurement ended with {member.wait()}.")
    return line


def member(kind: str, path: str, count: int, seed: int) -> None:
    """One process: open, say so, wait for the start, store, tell how long each took."""
    prose = Prose(seed)
    texts = [(f"{seed} {prose.title(number)}", prose.content()) for number in range(count + 1)]
    store = took(storing(kind, Path(path)))
    store(texts[-1])
    print("ready", flush=True)
    sys.stdin.read()
    print(msgspec.json.encode([store(text) for text in texts[:-1]]).decode(), flush=True)


def storing(kind: str, path: Path) -> Callable[[Text], object]:
    if kind == "bare":
        return BareTable(path).insert
    hold = app.open(str(path))
    return lambda text: hold.call("store", {"title": text[0], "content": text[1], "tier": "long"})


if __name__ == "__main__":
    member(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
