"""Stores that heard of each other once, and are put back to that moment for every run: new ones would cost more."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

from agreement import must_agree
from world import SKEWS, WEIGHTS, Choice, World

import holdfast
from engines import Postgres
from holdfast.settings import Settings, load

OWNER = "human:ann@home"
MAX_STORES = 5
TIMES = float(os.environ.get("SYNC_EXAMPLES_TIMES", "1"))
"""How many times as many runs as usual are tried."""
SHARED = 2
"""How many of them are on PostgreSQL, where some are."""


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
        """Some of the stores as they were, each with a clock of its own."""
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
    """By their names: of two stamps of one time the one of the greater name wins, in every run the same."""
    nodes = {}
    for address in addresses:
        with holdfast.open(settings=_settings(address)) as store:
            nodes[address] = store.sync_digest().node
    return sorted(addresses, key=lambda address: nodes[address])


def _settings(address: str) -> Settings:
    return load({"db": address, "agent_id": OWNER, "embedder": "none"}, {})


def drive(stable: StorePool, seed: int, steps: int, favoured: Sequence[str] = ()) -> None:
    """One run by chance: what a seed chooses, it chooses each time. `favoured`: what is done more than other things."""
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
