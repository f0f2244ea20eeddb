"""Memories move in and out of a peer's namespaces: nothing leaks, and both stores agree on what is inside."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.features.sync.exchange import LocalEndpoint, sync_endpoints
from holdfast.kernel.records.namespace_patterns import PeerScope

TEAM = PeerScope(("team/**",), ("team/**",))
STEPS = 60


@pytest.fixture
def engine() -> str:
    return "sqlite"


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[holdfast.Holdfast, holdfast.Holdfast]]:
    paths = [str(tmp_path / name) for name in ("a.db", "b.db")]
    with holdfast.open(paths[0], agent_id="human:a@a") as a, holdfast.open(paths[1], agent_id="human:b@b") as b:
        a.peer_add(name="b", token=b.peer_token().token, tell=list(TEAM.tell), take=list(TEAM.take))
        yield a, b


class Wandering:
    """Random operations on two stores; the first shares a part with the second."""

    def __init__(self, seed: int, here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
        self._random = Random(seed)
        self.here = here
        self.there = there
        self._number = 0

    def step(self) -> None:
        act = self._random.choices(
            (self.make, self.make_there, self.edit, self.edit_there, self.move, self.link, self.drop, self.meet),
            weights=(3, 2, 4, 4, 5, 2, 1, 5),
        )[0]
        act()

    def word(self, namespace: str) -> str:
        """Return a text; texts outside the namespaces contain "hidden"."""
        self._number += 1
        return f"{'open' if namespace.startswith('team') else 'hidden'} {self._number}"

    def make(self) -> None:
        place = self._random.choice(("team/a", "other"))
        self.here.store(title=f"T {self._number}", content=self.word(place), namespace=place)

    def make_there(self) -> None:
        self.there.store(title=f"U {self._number}", content=self.word("team"), namespace="team/b")

    def edit(self) -> None:
        if one := self._one(self.here):
            self.here.update(id=one.id, content=self.word(one.namespace), tags=[self._random.choice("xyz")])

    def edit_there(self) -> None:
        if one := self._one(self.there):
            self.there.update(id=one.id, content=self.word("team"))

    def move(self) -> None:
        """Move a memory into the namespaces with public text, or out of them."""
        if one := self._one(self.here):
            place = self._random.choice(("team/a", "team/b", "other"))
            said = self.word("team") if place != "other" and "hidden" in one.content else one.content
            self.here.update(id=one.id, namespace=place, content=said)

    def link(self) -> None:
        one, other = self._one(self.here), self._one(self.here)
        if one and other and one.id != other.id:
            self.here.link(source_id=one.id, target_id=other.id, relation="related_to")

    def drop(self) -> None:
        if one := self._one(self.here):
            self.here.delete(id=one.id)

    def meet(self) -> None:
        sync_endpoints(LocalEndpoint(self.here.ctx, scope=TEAM), LocalEndpoint(self.there.ctx), "merge")

    def _one(self, hold: holdfast.Holdfast) -> Any:
        found = sorted(hold.list(limit=200).memories, key=lambda memory: memory.title)
        return self._random.choice(found) if found else None


def read_visible(hold: holdfast.Holdfast, ids: set[str]) -> dict[str, Any]:
    found = {memory.id: memory for memory in hold.list(limit=200).memories}
    return {id: (found[id].namespace, found[id].content, sorted(found[id].tags)) for id in ids if id in found}


@pytest.mark.parametrize("seed", range(6))
def test_data_coming_into_scope_is_the_same_on_both_and_hidden_data_never_leaves(
    stores: tuple[holdfast.Holdfast, holdfast.Holdfast], seed: int
) -> None:
    here, there = stores
    wandering = Wandering(seed, here, there)
    for _ in range(STEPS):
        wandering.step()
    for _ in range(3):
        wandering.meet()
    with there.ctx.reading() as session:
        kept = msgspec.json.encode(
            [[str(part) for part in row] for row in session.rows("change_feed", after=0, limit=10**6)]
        )
    assert b"hidden" not in kept
    inside = {memory.id for memory in here.list(limit=200).memories if memory.namespace.startswith("team")}
    assert read_visible(there, inside) == read_visible(here, inside)
    assert (here.verify().intact, there.verify().intact) == (True, True)


def test_changes_refused_while_a_memory_was_out_of_scope_are_accepted_when_it_returns(
    stores: tuple[holdfast.Holdfast, holdfast.Holdfast],
) -> None:
    here, there = stores
    wandering = Wandering(0, here, there)
    kept = here.store(title="Plan", content="open", namespace="team/a")
    wandering.meet()
    here.update(id=kept.id, namespace="other")
    there.update(id=kept.id, content="open, and more")
    wandering.meet()
    assert [one.reason for one in here.quarantine().quarantined] == ["scope"]
    here.update(id=kept.id, namespace="team/b")
    for _ in range(2):
        wandering.meet()
    assert here.quarantine().total == 0
    assert (
        read_visible(there, {kept.id}) == read_visible(here, {kept.id}) == {kept.id: ("team/b", "open, and more", [])}
    )
