"""Any sequence of links, supersessions, deletions and restores notifies the same dependents as a simple model."""

import random
import tempfile
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import holdfast
from holdfast.features.history import service as history
from holdfast.features.reflections.invalidation import INVALIDATION
from holdfast.features.reflections.propagate import ChangeSet
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.journal import journal
from holdfast.kernel.journal.kinds import MEMORY

NODES = 5
GROUNDS = ("reflects_on", "derives_from", "derived_from")
Key = tuple[int, int, int]
"""Source, replacement and dependent."""


LIFE = ("delete", "archive", "end", "back", "back", "change")
SAID = ("acknowledge", "dismiss", "resolve")


class Step(NamedTuple):
    verb: str
    one: int
    other: int
    relation: str


def steps() -> st.SearchStrategy[list[Step]]:
    """Build a graph, then apply many changes to it."""
    node = st.integers(0, NODES - 1)
    ground = st.builds(Step, st.just("link"), node, node, st.sampled_from(GROUNDS))
    again = st.builds(Step, st.sampled_from(["unlink", "relink"]), node, st.integers(0, 20), st.just(""))
    heir = st.builds(Step, st.just("link"), node, node, st.just("supersedes"))
    life = st.builds(Step, st.sampled_from(LIFE), node, node, st.just(""))
    said = st.builds(Step, st.sampled_from(SAID), node, node, st.just(""))
    later = st.lists(st.one_of(ground, again, heir, life, life, said), min_size=10, max_size=20)
    return st.tuples(st.lists(ground, min_size=5, max_size=10), later).map(lambda both: [*both[0], *both[1]])


class Model:
    """The rules, implemented with sets and loops."""

    def __init__(self) -> None:
        self.away: dict[int, str] = {}
        self.edges: dict[tuple[int, int, str], bool] = {}
        """Every link ever made, and whether it is valid."""
        self.told: dict[Key, tuple[str, str]] = {}

    def standing(self, root: int, without: int | None = None) -> dict[int, int]:
        """The dependents of a memory with their distances."""
        far, following, hop = {root: 0}, {root}, 0
        while following:
            hop += 1
            onto = {s for (s, t, r), holds in self.edges.items() if holds and r in GROUNDS and t in following}
            following = onto - far.keys() - {without}
            far |= dict.fromkeys(following, hop)
        del far[root]
        return far

    def tell(self, fell: int, by: int, who: set[int], cause: str) -> None:
        for dependent in who - {fell}:
            was = self.told.get((fell, by, dependent))
            if was is None or was[1] in ("resolved", "dismissed"):
                self.told[fell, by, dependent] = (cause, "open")
            elif cause == "changed":
                self.told[fell, by, dependent] = ("changed", was[1])

    def take_back(self, fell: int) -> None:
        cut = {s for (s, t, r), holds in self.edges.items() if not holds and r in GROUNDS and t == fell}
        left = cut.union(*(self.standing(one).keys() for one in cut))
        for (x, by, dependent), (cause, status) in self.told.items():
            if x != fell or cause == "changed" or status not in ("open", "acknowledged"):
                continue
            over = fell in self.away or self.edges.get((by, fell, "supersedes"), False)
            if not (over and dependent in self.standing(fell)) and dependent not in left:
                self.told[x, by, dependent] = (cause, "resolved")

    def build_on(self, source: int, target: int) -> None:
        """A new dependent of an invalidated or stale memory is stale for the same reasons."""
        waits = ("open", "acknowledged")
        why = [(x, by, cause) for (x, by, d), (cause, status) in self.told.items() if d == target and status in waits]
        heirs = [s for (s, t, r), holds in self.edges.items() if holds and r == "supersedes" and t == target]
        why += [(target, heir, "superseded") for heir in heirs]
        if target in self.away and not heirs:
            why.append((target, target, self.away[target]))
        for fell, by, cause in why:
            if source not in (fell, by):
                beyond = self.standing(source, without=None if by == fell else by)
                self.tell(fell, by, {source, *beyond}, cause)

    def link(self, source: int, target: int, relation: str) -> None:
        known, held = (source, target, relation) in self.edges, self.edges.get((source, target, relation), False)
        self.edges[source, target, relation] = True
        if relation == "supersedes" and not held:
            self.tell(target, source, set(self.standing(target, without=source)), "superseded")
        elif relation in GROUNDS and not held:
            self.build_on(source, target)
            if known:
                self.take_back(target)

    def unlink(self, source: int, target: int, relation: str) -> None:
        if not self.edges.get((source, target, relation), False):
            return
        self.edges[source, target, relation] = False
        if relation == "supersedes":
            self.take_back(target)
        else:
            self.tell(target, target, {source, *self.standing(source)}, "invalidated")

    def fall(self, one: int, cause: str) -> None:
        if one not in self.away:
            self.away[one] = cause
            self.tell(one, one, set(self.standing(one)), cause)
        elif cause == "deleted":
            self.away[one] = cause

    def back(self, one: int) -> None:
        if self.away.pop(one, None):
            self.take_back(one)


_worlds = count()


class World:
    """A store and the model."""

    def __init__(self, hold: holdfast.Holdfast) -> None:
        self.ctx, self.model = hold, Model()
        hold.call("policy_set", {"namespace": "deep", "max_reflection_depth": 32})
        place = f"deep/{next(_worlds)}"
        self.ids = [
            hold.store(title=f"memory {number}", content=f"about {number}", tier="long", namespace=place).id
            for number in range(NODES)
        ]

    def take(self, step: Step) -> None:
        before, step = self.changes(), self.pick_link(step)
        try:
            self.do(step)
        except HoldfastError:
            assert self.changes() == before
            return
        match step.verb:
            case "link" | "unlink":
                getattr(self.model, step.verb)(step.one, step.other, step.relation)
            case "delete" | "archive" | "end":
                self.model.fall(step.one, {"delete": "deleted", "archive": "archived", "end": "invalidated"}[step.verb])
            case "back":
                self.model.back(step.one)
            case "change":
                self.model.tell(step.one, step.one, set(self.model.standing(step.one)), "changed")
            case "acknowledge" | "dismiss" | "resolve":
                self.settle(step.verb, step.one)

    def pick_link(self, step: Step) -> Step:
        """Map a step to one of the existing links."""
        if step.verb not in ("unlink", "relink") or not self.model.edges:
            return step
        edges = list(self.model.edges)
        return Step(step.verb.removeprefix("re"), *edges[step.other % len(edges)])

    def do(self, step: Step) -> None:
        one, other = self.ids[step.one], self.ids[step.other % NODES]
        match step.verb:
            case "link":
                self.ctx.link(one, other, relation=step.relation)
            case "unlink":
                self.ctx.kg_invalidate(one, other, step.relation)
            case "delete":
                self.ctx.delete(one)
            case "archive":
                (outcome,) = self.ctx.archive(ids=[one]).outcomes
                if outcome.outcome == "rejected":
                    raise HoldfastError
            case "end":
                self.ctx.update(one, valid_until="2020-01-01")
            case "back":
                self.bring_back(one)
            case "change":
                with self.ctx.ctx.transaction() as write:
                    write.local[ChangeSet].changed.add(one)

    def bring_back(self, id: str) -> None:
        """Restore a memory and remove its expiry."""
        with self.ctx.ctx.transaction() as write:
            memory = write.get(MEMORY, id)
            assert memory is not None
            write.change(MEMORY, memory, replace(memory, state="live", valid_until=None), "restore")

    def settle(self, verb: str, dependent: int) -> None:
        """Change all notices of one memory; closed ones cannot be acknowledged."""
        status = {"acknowledge": "acknowledged", "dismiss": "dismissed", "resolve": "resolved"}[verb]
        with self.ctx.ctx.reading() as session:
            rows = session.rows("invalidation_ever", dependent=self.ids[dependent])
        if rows:
            self.ctx.call(f"invalidations_{verb}", {"ids": [row[0] for row in rows]})
        if self.model.away.get(dependent) == "deleted":
            return
        for key, (cause, was) in self.model.told.items():
            if key[2] == dependent and (verb != "acknowledge" or was in ("open", "acknowledged")):
                self.model.told[key] = (cause, status)

    def changes(self) -> int:
        with self.ctx.ctx.reading() as session:
            return journal.get_head(session).seq

    def read_notices(self) -> dict[Key, tuple[str, str]]:
        place = {id: number for number, id in enumerate(self.ids)}
        with self.ctx.ctx.reading() as session:
            found = [session.rows("invalidation_ever", dependent=id) for id in self.ids]
        rows = [INVALIDATION.load(row) for many in found for row in many]
        return {(place[r.invalidated], place[r.invalidating], place[r.dependent]): (r.cause, r.status) for r in rows}


@pytest.fixture
def address(engine: str, request: pytest.FixtureRequest) -> Iterator[str]:
    if engine == "postgres":
        with request.getfixturevalue("postgres").new_store() as url:
            yield url
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield f"{folder}/memory.db"


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(taken=steps())
def test_the_notified_dependents_match_the_model(address: str, taken: list[Step]) -> None:
    with holdfast.open(address, agent_id="ai:tester@here") as hold:
        world = World(hold)
        for step in taken:
            world.take(step)
            assert world.read_notices() == world.model.told


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_store_of_many_random_steps_verifies(address: str, seed: int) -> None:
    pick = random.Random(seed)
    verbs = ["link"] * 5 + ["unlink", "unlink", "relink", *LIFE, *SAID]
    with holdfast.open(address, agent_id="ai:tester@here") as hold:
        world = World(hold)
        for _ in range(200):
            relation = pick.choice([*GROUNDS, "supersedes"])
            verb = pick.choice(verbs)
            other = pick.randrange(NODES if verb == "link" else 20)
            world.take(Step(verb, pick.randrange(NODES), other, relation))
            assert world.read_notices() == world.model.told
        with hold.ctx.reading() as session:
            assert history.verify(hold.ctx, session) == []
