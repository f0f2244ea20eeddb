"""The same store on both engines: run each call on both and compare the answers."""

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from four_surfaces import AGENT, Json, Outcome, new_store, normalize

import holdfast
from engines import Postgres
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.timestamps import parse_timestamp
from holdfast.surfaces import error_responses as wire

OF_THE_ENGINE = ("score", "sha256", "snapshot", "signers")
"""Each engine ranks by its own measure and writes its own kind of snapshot; a file that was copied has a new signer."""

SIGNED = re.compile(r"\bhfpeer1_[\w-]+|\b[0-9a-f]{128}\b")
"""What follows from the key of a store."""


class Twin(NamedTuple):
    hold: holdfast.Holdfast
    folder: Path
    """Where files go that an operation is told to write by a path that is not absolute."""

    def ask(self, name: str, arguments: Json, caller: Caller | None = None) -> Outcome:
        os.chdir(self.folder)
        try:
            return Outcome(json.loads(wire.encode(self.hold.call(name, arguments, caller=caller))))
        except HoldfastError as error:
            return Outcome(error=json.loads(wire.encode(error.to_json())))


class Twins:
    """Two stores with the same calls since their creation."""

    def __init__(self, sqlite: Twin, postgres: Twin) -> None:
        self.sqlite = sqlite
        self.postgres = postgres

    def ask(self, name: str, arguments: Json) -> tuple[Outcome, Outcome]:
        """Return the answer of each store."""
        return self.sqlite.ask(name, arguments), self.postgres.ask(name, arguments)

    def differing(self, name: str, arguments: Json) -> tuple[Any, Any] | None:
        """Return the answers if they differ."""
        one, other = map(comparable, self.ask(name, arguments))
        return None if one == other else (one, other)


def comparable(outcome: Outcome) -> Any:
    """Return an outcome without the parts that differ between any two stores."""
    return _without(normalize(outcome.answer if outcome.error is None else outcome.error))


def _without(value: Any) -> Any:
    match value:
        case dict():
            rest = {key: _without(item) for key, item in value.items() if key not in OF_THE_ENGINE}
            ranked = [name for name in rest if name == "results" or _is_scored(value[name])]
            return rest | {name: sorted(rest[name], key=json.dumps) for name in ranked}
        case list():
            return [_without(item) for item in value]
        case str():
            return SIGNED.sub("<signed>", re.sub(r"holdfast-<time>\S*", "<snapshot>", value))
    return value


def _is_scored(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, dict) and "score" in item for item in value)


@contextmanager
def twins(postgres: Postgres, folder: Path, now: Callable[[], int] = lambda: START) -> Iterator[Twins]:
    """Yield a new store on each engine, with a shared clock."""
    before = Path.cwd()
    with ExitStack() as stack:
        opened = []
        for name in ("one", "two"):
            own = folder / name
            own.mkdir()
            db = new_store(own) if name == "one" else stack.enter_context(postgres.empty_store())
            opened.append(Twin(stack.enter_context(holdfast.open(db, agent_id=AGENT, now=now)), own))
        stack.callback(os.chdir, before)
        yield Twins(*opened)


START = parse_timestamp("2026-01-31T09:00:00Z", "at")
