"""Subprocess entry point: run a Python task handler; the task arrives as JSON on standard input."""

import sys
from importlib.metadata import entry_points

import msgspec

GROUP = "holdfast.handlers"
"""Entry point group of task handlers: each takes the task as a dict and returns the result."""


def main(name: str) -> None:
    found = entry_points(group=GROUP, name=name)
    if not found:
        sys.exit(f"No handler {name!r}: a package must declare it as an entry point in the group {GROUP}.")
    (point, *_) = found
    result = point.load()(msgspec.json.decode(sys.stdin.buffer.read()))
    if result is not None:
        print(result, end="")


if __name__ == "__main__":
    main(sys.argv[1])
