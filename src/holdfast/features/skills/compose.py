"""Compose a skill with reflections of its namespaces: valid, visible to the caller, within a token budget."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple, get_args

from msgspec.structs import replace

from holdfast.features.memories import store as memories
from holdfast.features.memories.access_log import Uses
from holdfast.features.namespaces import policy_store as policies
from holdfast.features.reflections import pending_expiry as untold
from holdfast.features.skills import reflection_store as skill_reflections
from holdfast.features.skills import service as skills
from holdfast.features.skills.model import Composes, Reason
from holdfast.features.skills.reflection_store import Within, Worth
from holdfast.features.skills.relevance import Found, relevant
from holdfast.features.skills.service import Fallen
from holdfast.features.skills.store import Shown
from holdfast.kernel.caller import under
from holdfast.kernel.context import Hold
from holdfast.kernel.records.memory import Memory
from holdfast.kernel.storage.port import Session
from holdfast.kernel.text import token_count as tokens

FEWEST = 100
"""Reflections read per namespace at least, best by age and use."""
SHORTEST = 64
"""Smallest size of a reflection; decides how many are read for a large budget."""
MOST_TOLD = 50
"""Ids listed per reason for leaving reflections out."""
RELEVANCE = 3.0
"""Relevance outweighs age and use together, which add up to at most 2."""
MOST_MISSED = 8
"""Stop counting tokens after this many reflections in a row that did not fit."""
IDS_DIFFER = 24
"""Token counts of two ids differ by at most this much."""

REASONS: tuple[Reason, ...] = get_args(Reason)


class Entry(NamedTuple):
    """A namespace that a skill composes with, and its maximum reflection depth."""

    asked: Composes
    ceiling: int
    reached: bool
    """False: the caller learns nothing about the namespace and sees only what its key reaches below it."""

    @property
    def within(self) -> Within | None:
        """The namespace and depth range to read; None if the minimum depth exceeds the maximum."""
        floor = self.asked.min_depth
        return None if floor > self.ceiling else Within(self.asked.namespace, floor, self.ceiling)


class Taken(NamedTuple):
    memory: Memory
    score: float


class Dropped(NamedTuple):
    reason: Reason
    many: int
    ids: list[str]


class Composed(NamedTuple):
    shown: Shown
    fallen: Fallen | None
    body: str
    body_tokens: int
    entries: list[Entry]
    taken: list[Taken]
    tokens_used: int
    dropped: list[Dropped]
    degraded: str | None


Rendered = Callable[[Taken], str]


def compose(hold: Hold, id: str, query: str | None, budget: int, rendered: Rendered, frame: str) -> Composed:
    """Return the body of a skill and the best reflections of its namespaces that fit the budget.

    `rendered` renders one reflection as it is sent, `frame` is the text around all of them. Both count toward the
    budget, the body does not.
    """
    now = hold.now()
    with hold.reading() as session:
        shown = skills.get(hold, session, id)
        fallen = skills.fallen(hold, session, [shown.version]).get(shown.version.id)
        body = skills.body_of(session, shown.version)
        entries = [_entry(hold, session, one) for one in shown.version.composes]
    places = _apart([entry.within for entry in entries if entry.within is not None])
    found = relevant(hold, places, query) if query is not None and places else Found({})
    most = max(FEWEST, budget // SHORTEST)
    with hold.reading() as session:
        weighed = _weighed(Looking(hold, session, now), places, found.worth, most)
        order = sorted(weighed.scores.items(), key=lambda one: (-one[1], one[0]))
        fell = {one.dependent for one in untold.of(session, [id for id, _ in order[:most]], now)}
        best = [one for one in order[:most] if one[0] not in fell]
        read = memories.by_ids(session, hold.caller, [id for id, _ in best], now)
    fitting = _fit([Taken(read[id], score) for id, score in best], budget, rendered, frame)
    hold.local(Uses).note(hold.caller.agent, [one.memory.id for one in fitting.taken], now)
    faults = weighed.faults | dict.fromkeys(sorted(fell), "stale") | dict.fromkeys(fitting.left, "budget")
    return Composed(
        shown=shown,
        fallen=fallen,
        body=body,
        body_tokens=_counted(body),
        entries=entries,
        taken=fitting.taken,
        tokens_used=fitting.tokens,
        dropped=[*_told(faults, weighed.beyond + len(order[most:]))],
        degraded=found.degraded,
    )


@lru_cache(8)
def _counted(body: str) -> int:
    """Cached: the same skills are composed repeatedly."""
    return tokens.count(body)


def _apart(places: list[Within]) -> list[Within]:
    """Drop scopes that lie within another."""
    found: list[Within] = []
    for place in sorted(set(places), key=lambda one: (len(one.namespace), one.floor, -one.ceiling)):
        if not any(
            under(place.namespace, one.namespace) and one.floor <= place.floor and place.ceiling <= one.ceiling
            for one in found
        ):
            found.append(place)
    return found


def _entry(hold: Hold, session: Session, asked: Composes) -> Entry:
    ceiling = policies.resolved(session, asked.namespace).max_reflection_depth
    return Entry(asked, ceiling, hold.caller.reaches(asked.namespace))


class Looking(NamedTuple):
    hold: Hold
    session: Session
    now: int

    def best(self, within: Within, most: int) -> list[Worth]:
        """Return at least `most` valid reflections if there are that many, and the invalid ones ranked between them."""
        looked = most + most // 2
        while True:
            found = skill_reflections.best(self.session, self.hold.caller, within, self.now, limit=looked)
            if len(found) < looked or sum(not one.fault for one in found) >= most:
                return found
            looked *= 4

    def among(self, within: Within, ids: list[str]) -> list[Worth]:
        return skill_reflections.best(self.session, self.hold.caller, within, self.now, limit=len(ids), among=ids)

    def count(self, within: Within) -> int:
        return skill_reflections.count(self.session, self.hold.caller, within)


class Weighed(NamedTuple):
    scores: dict[str, float]
    faults: dict[str, str]
    """Invalid reflections by id, with the reason."""
    beyond: int
    """Number of reflections not read because others are newer or more used."""


def _weighed(look: Looking, places: list[Within], relevant: dict[str, float], most: int) -> Weighed:
    """Score each reflection once."""
    made = Weighed({}, {}, 0)
    for within in places:
        found = {one.id: one for one in look.best(within, most)}
        found |= {one.id: one for one in look.among(within, sorted(relevant))} if relevant else {}
        for one in found.values():
            if one.fault:
                made.faults[one.id] = one.fault
            else:
                made.scores[one.id] = one.worth + RELEVANCE * relevant.get(one.id, 0.0)
        made = made._replace(beyond=made.beyond + max(0, look.count(within) - len(found)))
    return made


class _Fitting(NamedTuple):
    taken: list[Taken]
    tokens: int
    left: list[str]


def _fit(order: list[Taken], budget: int, rendered: Rendered, frame: str) -> _Fitting:
    """Take the best reflections that fit; skip one that is too large and go on with smaller ones."""
    taken: list[Taken] = []
    left: list[str] = []
    used = tokens.count(frame)
    around = _around(order[0], rendered) if order else 0
    missed = 0
    for one in order:
        room = budget - used
        cost = room + 1
        if missed < MOST_MISSED and around + len(one.memory.content.split()) <= room:  # a word has at least one token
            cost = tokens.count(rendered(one), room)
            missed += 1
        if cost > room:
            left.append(one.memory.id)
        else:
            taken.append(one)
            used, missed = used + cost, 0
    return _Fitting(taken, used if taken else 0, left)


def _around(one: Taken, rendered: Rendered) -> int:
    """Return a lower bound of the tokens sent around the text of each reflection."""
    empty = replace(one.memory, title="", content="", namespace="", agent="")
    return max(0, tokens.count(rendered(Taken(empty, 0.0))) - IDS_DIFFER)


def _told(faults: dict[str, str], beyond: int) -> Iterator[Dropped]:
    """Group the reflections left out by reason; those not read have no ids."""
    for reason in REASONS:
        if ids := [id for id, why in faults.items() if why == reason]:
            yield Dropped(reason, len(ids), ids[:MOST_TOLD])
    if beyond:
        yield Dropped("rank", beyond, [])
