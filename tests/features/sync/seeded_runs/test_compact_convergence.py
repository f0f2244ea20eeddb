"""Stores that compact at any time converge, and so does a new store."""

from collections.abc import Callable

import pytest
from test_convergence import STEPS, WEIGHTS, World, digest_of, view

import holdfast
from holdfast.features.sync.compact_journal import compact


class Folding(World):
    """Stores that are compacted while they exchange."""

    weights = {**WEIGHTS, "fold": 5}

    def fold(self, store: holdfast.Holdfast) -> None:
        compact(store.ctx, 0)


def run(seed: int, make: Callable[..., holdfast.Holdfast]) -> None:
    world = Folding(seed, make)
    for _ in range(STEPS):
        world.step()
    world.stores.append(make(now=lambda: world.clock))
    world.meet()
    assert len({digest_of(store) for store in world.stores}) == 1, world.done
    assert all(view(store) == view(world.stores[0]) for store in world.stores), world.done
    for store in world.stores:
        assert store.verify().intact, (store.verify().findings, world.done)


@pytest.mark.full
def test_stores_compacted_during_sync_converge(engine: str, make: Callable[..., holdfast.Holdfast]) -> None:
    for seed in (0, 1, 203) if engine == "sqlite" else (100,):
        run(seed, make)
