"""Run in a process of its own: the Python entry point that handles a task, which it is told on standard input."""

import sys
from importlib.metadata import entry_points

import msgspec

GROUP = "holdfast.handlers"
"""The entry points that handle tasks: each takes a task as a dict, and what it returns is the result."""


def main(name: str) -> None:
    found = entry_points(group=GROUP, name=name)
    if not found:
        sys.exit(f"No package gives a handler {name!r}: one declares it as an entry point of the group {GROUP}.")
    (point, *_) = found
    result = point.load()(msgspec.json.decode(sys.stdin.buffer.read()))
    if result is not None:
        print(result, end="")


if __name__ == "__main__":
    main(sys.argv[1])
