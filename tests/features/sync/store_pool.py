"""Synced stores that are reset to a saved state for every run, since new stores would be slower."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

from convergence import must_agree
from sync_world import SKEWS, WEIGHTS, Choice, World

import holdfast
from engines import Postgres
from holdfast.settings import Settings, load

OWNER = "human:ann@home"
MAX_STORES = 5
TIMES = float(os.environ.get("SYNC_EXAMPLES_TIMES", "1"))
"""Factor for the number of runs."""
SHARED = 2
"""Number of stores on PostgreSQL, in tests that use it."""


class StorePool:
    def __init__(self, folder: Path, server: Postgres | None, stack: ExitStack) -> None:
        self._server = server
        self._shared = SHARED if server else 0
        urls = [stack.enter_context(server.new_store()) for _ in range(self._shared)] if server else []
        files = [str(folder / f"{number}.db") for number in range(MAX_STORES - self._shared)]
        self._addresses = [*_in_order(urls), *_in_order(files)]
        with self._world([0] * MAX_STORES) as world:
            world.begin()
            must_agree(world)
        self._clock, self._texts, self._number = world.clock, world.texts, world.number
        self._kept = {address: Path(address).read_bytes() for address in files}
        for url in urls if server else ():
            server.keep(url)

    @contextmanager
    def world(self, skews: list[int]) -> Iterator[World]:
        """Open some of the stores in their saved state, each with its own clock."""
        for address in self._addresses[: len(skews)]:
            self._put_back(address)
        with self._world(skews) as world:
            world.clock, world.texts, world.number = self._clock, set(self._texts), self._number
            yield world

    def _put_back(self, address: str) -> None:
        if address in self._kept:
            Path(address).write_bytes(self._kept[address])
        elif self._server:
            self._server.put_back(address)

    @contextmanager
    def _world(self, skews: list[int]) -> Iterator[World]:
        with ExitStack() as stack:

            def open_store(number: int, now: Callable[[], int]) -> holdfast.Holdfast:
                return stack.enter_context(holdfast.open(settings=_settings(self._addresses[number]), now=now))

            yield World(open_store, skews)


def _in_order(addresses: list[str]) -> list[str]:
    """Sort stores by node, since the greater name wins between equal stamps: every run is the same."""
    nodes = {}
    for address in addresses:
        with holdfast.open(settings=_settings(address)) as store:
            nodes[address] = store.sync_digest().node
    return sorted(addresses, key=lambda address: nodes[address])


def _settings(address: str) -> Settings:
    return load({"db": address, "agent_id": OWNER, "embedder": "none"}, {})


def drive(stable: StorePool, seed: int, steps: int, favoured: Sequence[str] = ()) -> None:
    """Run random steps, reproducible by seed. `favoured`: operations to run more often."""
    chance = Random(seed)
    with stable.world([chance.choice(SKEWS) for _ in range(chance.choice((3, 3, 3, 4, 5)))]) as world:
        weights = WEIGHTS | dict.fromkeys(favoured, 60)
        try:
            for what in chance.choices(list(weights), list(weights.values()), k=steps):
                world.act(Choice(what, *(chance.randrange(1000) for _ in range(3))))
            world.meet(seed)
            must_agree(world)
        except BaseException as error:
            error.add_note(f"seed {seed}: {world.done}")
            raise
