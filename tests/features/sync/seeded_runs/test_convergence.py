"""Stores converge after any operations and any order of exchanges, and nothing is lost."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import holdfast
from holdfast.features.sync import exchange as syncing
from holdfast.features.sync import read_changes as exchange
from holdfast.features.sync.exchange import sync_stores
from holdfast.kernel.errors import HoldfastError

DAY = 86_400 * 10**6
START = 1_790_000_000_000_000
STEPS = 45
WEIGHTS = {
    "store": 6,
    "reword": 6,
    "tag": 2,
    "untag": 2,
    "annotate": 2,
    "rename": 2,
    "move": 1,
    "delete": 2,
    "archive": 2,
    "restore": 2,
    "rate": 1,
    "link": 3,
    "supersede": 1,
    "reflect": 2,
    "undo": 1,
    "purge": 0.7,
    "pull": 14,
    "merge": 3,
}


class World:
    """Several stores with clocks days apart, and random operations on them."""

    weights = WEIGHTS

    def __init__(self, seed: int, make: Callable[..., holdfast.Holdfast]) -> None:
        self.chance = random.Random(seed)
        self.clock = START
        self.stores = [make(now=self._clock(self.chance.choice([0, 0, 1, -1, 3, -3]))) for _ in range(3)]
        self.done: list[tuple[Any, ...]] = []

    def _clock(self, skew: int) -> Callable[[], int]:
        return lambda: self.clock + skew * DAY

    def step(self) -> None:
        self.clock += self.chance.choice([1, 1000, 10**6, 3600 * 10**6])
        store = self.chance.choice(self.stores)
        what = self.chance.choices(list(self.weights), list(self.weights.values()))[0]
        self.done.append((self.stores.index(store), what))
        try:
            getattr(self, what)(store)
        except HoldfastError as error:
            self.done[-1] += (error.code,)

    def one(self, store: holdfast.Holdfast) -> Any:
        found = store.list(limit=200).memories
        if not found:
            raise HoldfastError("There is nothing yet.")
        return self.chance.choice(found)

    def store(self, store: holdfast.Holdfast) -> None:
        store.store(
            title=self.chance.choice("abcd"),
            content=f"text {self.chance.random()}",
            namespace=self.chance.choice(["n", "m"]),
            tier="long",
            on_conflict="error",
        )

    def reword(self, store: holdfast.Holdfast) -> None:
        store.update(id=self.one(store).id, content=f"text {self.chance.choice([1, 2, self.chance.random()])}")

    def tag(self, store: holdfast.Holdfast) -> None:
        memory = self.one(store)
        store.update(id=memory.id, tags=[*memory.tags, self.chance.choice("xyz")])

    def untag(self, store: holdfast.Holdfast) -> None:
        memory = self.one(store)
        store.update(id=memory.id, tags=list(memory.tags)[1:])

    def annotate(self, store: holdfast.Holdfast) -> None:
        store.update(id=self.one(store).id, metadata={self.chance.choice("kl"): self.chance.choice([1, "z"])})

    def rename(self, store: holdfast.Holdfast) -> None:
        store.update(id=self.one(store).id, title=self.chance.choice("abcdef"))

    def move(self, store: holdfast.Holdfast) -> None:
        store.update(id=self.one(store).id, namespace=self.chance.choice(["n", "m"]))

    def rate(self, store: holdfast.Holdfast) -> None:
        store.update(id=self.one(store).id, priority=self.chance.randint(1, 10))

    def delete(self, store: holdfast.Holdfast) -> None:
        store.delete(id=self.one(store).id)

    def archive(self, store: holdfast.Holdfast) -> None:
        store.archive(ids=[self.one(store).id])

    def _pick_archived(self, store: holdfast.Holdfast) -> str:
        found = store.archive_list(limit=50).archived
        if not found:
            raise HoldfastError("There is nothing yet.")
        return str(self.chance.choice(found).id)

    def restore(self, store: holdfast.Holdfast) -> None:
        store.archive_restore(id=self._pick_archived(store))

    def purge(self, store: holdfast.Holdfast) -> None:
        store.archive_purge(ids=[self._pick_archived(store)])

    def link(self, store: holdfast.Holdfast) -> None:
        relation = self.chance.choice(["related_to", "derived_from", "contradicts"])
        store.link(source_id=self.one(store).id, target_id=self.one(store).id, relation=relation)

    def supersede(self, store: holdfast.Holdfast) -> None:
        store.link(source_id=self.one(store).id, target_id=self.one(store).id, relation="supersedes")

    def reflect(self, store: holdfast.Holdfast) -> None:
        store.reflect(
            source_ids=[self.one(store).id], title=self.chance.choice("rst"), content=f"so {self.chance.random()}"
        )

    def undo(self, store: holdfast.Holdfast) -> None:
        if changes := store.events(limit=1000).events:
            store.undo(change=self.chance.choice(changes).seq)

    def pull(self, store: holdfast.Holdfast) -> None:
        self._exchange(store, "pull")

    def merge(self, store: holdfast.Holdfast) -> None:
        self._exchange(store, "merge")

    def _exchange(self, store: holdfast.Holdfast, direction: Any) -> None:
        other = self.chance.choice([one for one in self.stores if one is not store])
        done = sync_stores(store.ctx, other.ctx, direction, trust_source=True)
        assert {one.reason for one in (*done.pulled.list_rejected, *done.pushed.list_rejected)} <= {"waits"}

    def meet(self) -> None:
        """Sync all stores with each other."""
        for _ in range(3):
            for store in self.stores:
                for other in self.stores:
                    if store is not other:
                        sync_stores(store.ctx, other.ctx, "pull", trust_source=True)


def view(store: holdfast.Holdfast) -> list[Any]:
    """Return all memories and conflicts that a store shows."""
    memories = [
        (m.namespace, m.title, m.id, m.content, sorted(m.tags), m.priority, m.reflection_depth, m.metadata)
        for m in store.list(limit=200).memories
    ]
    return [sorted(memories, key=str), sorted(one.id for one in store.conflicts(limit=1000).conflicts)]


@pytest.fixture
def page_size(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    return lambda size: monkeypatch.setattr(syncing, "PAGE", size)


def seeds(engine: str) -> Iterator[int]:
    yield from range(4) if engine == "sqlite" else range(100, 101)


@pytest.mark.full
@pytest.mark.parametrize("part", range(4))
def test_synced_stores_converge(
    engine: str, part: int, make: Callable[..., holdfast.Holdfast], page_size: Callable[[int], None]
) -> None:
    for seed in [seed for seed in seeds(engine) if seed % 4 == part]:
        world = World(seed, make)
        page_size([1, 2, 5, 500][seed // 4 % 4])
        for _ in range(STEPS):
            world.step()
        page_size(500)
        world.meet()
        assert len({digest_of(store) for store in world.stores}) == 1, world.done
        assert all(view(store) == view(world.stores[0]) for store in world.stores), world.done
        for store in world.stores:
            assert store.verify().intact, (store.verify().findings, world.done)
            assert store.ctx.store.faults() == []


def digest_of(store: holdfast.Holdfast) -> str:
    with store.ctx.reading() as session:
        return exchange.compute_digest(session)
