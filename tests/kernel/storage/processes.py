"""Processes that start at the same time."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any


def at_once(processes: int, work: Callable[[int], Any]) -> list[Any]:
    """Run work in several processes started at the same time; return each result or error."""
    gate, opener = os.pipe()
    results: dict[int, int] = {}
    for number in range(processes):
        theirs, ours = os.pipe()
        if (child := os.fork()) == 0:
            os.close(opener)
            os.read(gate, 1)
            try:
                answer = {"answer": work(number)}
            except Exception as error:  # noqa: BLE001 - whatever it is, the test is to see it
                answer = {"error": f"{type(error).__name__}: {error}"}
            os.write(ours, json.dumps(answer).encode())
            os._exit(0)
        os.close(ours)
        results[child] = theirs
    os.close(gate)
    os.close(opener)
    return list(collect_results(results))


def collect_results(results: dict[int, int]) -> Iterator[Any]:
    """Yield the result of each child, in order of start. All children are ended in any case."""
    left = set(results)
    try:
        for child, theirs in results.items():
            with open(theirs, "rb") as pipe:
                yield json.loads(pipe.read())
            os.waitpid(child, 0)
            left.remove(child)
    finally:
        for child in left:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
