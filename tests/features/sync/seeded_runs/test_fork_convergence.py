"""Stores converge even if files are restored from copies between exchanges."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_convergence import STEPS, WEIGHTS, World, digest_of, view

import holdfast
from holdfast.features.sync.compact_journal import compact
from holdfast.features.sync.exchange import sync_stores

OWNER = "human:ann@home"


class Forking(World):
    """Stores in files that are copied and restored at random."""

    weights = {name: weight for name, weight in WEIGHTS.items() if name != "purge"} | {"copy": 3, "back": 2}

    def __init__(self, seed: int, folder: Path) -> None:
        self._folder = folder
        self._clocks: dict[str, Callable[[], int]] = {}
        self._copies: dict[str, bytes] = {}
        super().__init__(seed, self._open_new)

    def _open_new(self, now: Callable[[], int]) -> holdfast.Holdfast:
        path = str(self._folder / f"{len(self._clocks)}.db")
        self._clocks[path] = now
        return holdfast.open(path, agent_id=OWNER, now=now)

    def copy(self, store: holdfast.Holdfast) -> None:
        path = self._close(store)
        self._copies[str(path)] = path.read_bytes()
        self._reopen(store, path)

    def back(self, store: holdfast.Holdfast) -> None:
        path = self._close(store)
        if content := self._copies.get(str(path)):
            with path.open("r+b") as file:
                file.write(content)
                file.truncate()
        self._reopen(store, path)

    def _close(self, store: holdfast.Holdfast) -> Path:
        store.close()
        return Path(store.settings.db)

    def _reopen(self, store: holdfast.Holdfast, path: Path) -> None:
        place = self.stores.index(store)
        self.stores[place] = holdfast.open(str(path), agent_id=OWNER, now=self._clocks[str(path)])

    def _exchange(self, store: holdfast.Holdfast, direction: Any) -> None:
        other = self.chance.choice([one for one in self.stores if one is not store])
        done = sync_stores(store.ctx, other.ctx, direction, trust_source=True)
        assert {one.reason for one in (*done.pulled.list_rejected, *done.pushed.list_rejected)} <= {"waits", "forked"}


class Folding(Forking):
    """The same with compaction."""

    weights = {**Forking.weights, "fold": 3}

    def fold(self, store: holdfast.Holdfast) -> None:
        compact(store.ctx, 0)


@pytest.mark.full
@pytest.mark.parametrize(("kind", "seed"), [(Forking, 3), (Forking, 47), (Folding, 400), (Folding, 501)])
def test_stores_restored_from_copies_converge(kind: type[Forking], seed: int, tmp_path: Path) -> None:
    world = kind(seed, tmp_path)
    for _ in range(STEPS):
        world.step()
    world.meet()
    world.meet()
    try:
        assert len({digest_of(store) for store in world.stores}) == 1, world.done
        assert all(view(store) == view(world.stores[0]) for store in world.stores), world.done
        assert all(store.verify().intact for store in world.stores), world.done
    finally:
        for store in world.stores:
            store.close()
