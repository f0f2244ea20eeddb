"""Several stores with clocks days apart; any operation happens anywhere and is synced in any order."""

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from typing import Any, NamedTuple

import holdfast
from holdfast.features.sync import conflicts
from holdfast.features.sync.apply_changes import SyncResult
from holdfast.features.sync.exchange import LocalEndpoint, apply_pages, read_missing_pages
from holdfast.kernel.context import Progress
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.journal import title_groups
from holdfast.kernel.timestamps import Stamp, format_timestamp

DAY = 86_400 * 10**6
START = 1_790_000_000_000_000
STEPS = (1_000, 10**6, 60 * 10**6, 3600 * 10**6)
SKEWS = (0, 0, 1, -1, 3, -3, 5, -5)
PAGES = (1, 2, 5, 500)
TITLES = "abcd"
PLACES = ("n", "m")
WEIGHTS = {
    "pull": 14,
    "reword": 7,
    "store": 6,
    "merge": 2,
    "pull_one_page": 3,
    "pull_again": 1,
    "pull_shuffled": 3,
    "pull_some": 3,
    "pull_cut": 1,
    "rename": 3,
    "delete": 3,
    "tag": 2,
    "untag": 2,
    "annotate": 2,
    "move": 2,
    "archive": 2,
    "restore": 2,
    "resolve": 3,
    "link": 3,
    "rate": 1,
    "reword_and_rate": 1,
    "supersede": 1,
    "reflect": 2,
    "unlink": 1,
    "resolve_notice": 1,
    "undo": 1,
    "purge": 1,
    "expire": 1,
    "collect": 1,
    "skill": 0.6,
    "drop_skill": 0.3,
    "policy": 0.5,
    "standard": 0.3,
    "entity": 0.3,
    "newer_release": 0.7,
    "jump": 0.7,
}


class Choice(NamedTuple):
    """An operation, a store, and two numbers that select its targets."""

    what: str
    who: int
    a: int
    b: int


class World:
    def __init__(self, make: Callable[[int, Callable[[], int]], holdfast.Holdfast], skews: Sequence[int]) -> None:
        self.clock = START
        self.skews = list(skews)
        self.stores = [make(number, self._clock(number)) for number in range(len(skews))]
        self.ends = [LocalEndpoint(store.ctx) for store in self.stores]
        self.done: list[Any] = []
        self.texts: set[str] = set()
        """Stored texts that no later edit replaced."""
        self.number = 0
        self.ends_come = False
        """Whether a memory has an expiry time."""

    def _clock(self, number: int) -> Callable[[], int]:
        return lambda: self.clock + self.skews[number] * DAY

    def act(self, choice: Choice) -> None:
        """Run an operation; an operation that a store rejects has no effect."""
        self.number += 1
        self.clock += STEPS[choice.a % len(STEPS)]
        who = choice.who % len(self.stores)
        self.done.append(choice._replace(who=who))
        try:
            getattr(self, choice.what)(self.stores[who], choice.a, choice.b)
        except LookupError:
            self.done[-1] = (*self.done[-1], "nothing there")
        except HoldfastError as error:
            self.done[-1] = (*self.done[-1], error.code)

    def begin(self) -> None:
        """Give all stores a few common memories, two with the same title."""
        for number, title in enumerate("aabc"):
            self.act(Choice("store", number % len(self.stores), TITLES.index(title), 0))
        for what, who in (("reflect", 0), ("link", 1), ("reword", 1), ("delete", 2)):
            self.meet(1)
            self.act(Choice(what, who, 2, 1))
        self.meet(1)

    def new_text(self) -> str:
        return f"text {self.number}"

    def list_memories(self, store: holdfast.Holdfast) -> list[Any]:
        return sorted(store.list(limit=200).memories, key=lambda memory: (memory.namespace, memory.title, memory.id))

    def one(self, store: holdfast.Holdfast, number: int) -> Any:
        return _pick(self.list_memories(store), number)

    def ids(self, store: holdfast.Holdfast, id: str) -> list[str]:
        """Return the ids of the title group of a memory."""
        with store.ctx.reading() as session:
            return sorted(row[0] for row in session.rows("title_group_with_self", id=id))

    # Memories.

    def store(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        text, scope = self.new_text(), "private" if b % 7 == 6 else "collective"
        store.store(
            title=TITLES[a % 4], content=text, namespace=PLACES[b % 2], tier="long", scope=scope, on_conflict="error"
        )
        self.texts.add(text)

    def reword(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        memory = self.one(store, a)
        text = f"again {b % 2}" if b % 5 == 4 else self.new_text()
        store.update(id=_pick(self.ids(store, memory.id), b), content=text)
        self.texts.discard(memory.content)
        if text.startswith("text"):
            self.texts.add(text)
        assert store.get(id=memory.id).content == text, "what was just said does not show"

    def tag(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        memory = self.one(store, a)
        store.update(id=memory.id, tags=sorted({*memory.tags, "xyz"[b % 3]}))
        assert "xyz"[b % 3] in store.get(id=memory.id).tags, "a tag that was just given is not there"

    def untag(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        memory = self.one(store, a)
        store.update(id=memory.id, tags=list(memory.tags)[1:])
        assert not set(memory.tags[:1]) & set(store.get(id=memory.id).tags), "a tag that was just taken away is there"

    def annotate(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        store.update(id=self.one(store, a).id, metadata={"kl"[b % 2]: b % 3 or None})

    def rate(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        store.update(id=self.one(store, a).id, priority=b % 10 + 1)

    def reword_and_rate(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        """Change one memory twice; a store may receive only the second change."""
        self.reword(store, a, b)
        self.rate(store, a, b)

    def rename(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        memory = self.one(store, a)
        store.update(id=_pick(self.ids(store, memory.id), b), title="abcdef"[b % 6])

    def move(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        store.update(id=self.one(store, a).id, namespace=PLACES[b % 2])

    def delete(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        memory = self.one(store, a)
        store.delete(id=_pick(self.ids(store, memory.id), b))
        assert memory.id not in [one.id for one in self.list_memories(store)], "what was just deleted shows"

    def archive(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        memory = self.one(store, a)
        store.archive(ids=[memory.id])
        assert memory.id not in [one.id for one in self.list_memories(store)], "what was just archived shows"

    def _pick_archived(self, store: holdfast.Holdfast, number: int) -> Any:
        found = store.archive_list(limit=50).archived
        return _pick(sorted(found, key=lambda memory: (memory.namespace, memory.title, memory.id)), number)

    def restore(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        memory = self._pick_archived(store, a)
        store.archive_restore(id=memory.id)
        assert store.get(id=memory.id).content, "what was just brought back does not show"

    def purge(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        memory = self._pick_archived(store, a)
        held = contents(store, [memory.id])
        store.archive_purge(ids=[memory.id])
        self.texts -= held

    def expire(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        ends = None if b % 3 == 0 else format_timestamp(self.clock + (b % 5) * DAY)
        store.update(id=self.one(store, a).id, expires_at=ends)
        self.ends_come = True

    def collect(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        store.gc()

    def undo(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        before = contents(store)
        store.undo(change=_pick(store.events(limit=1000).events, a).seq)
        self.texts -= before - contents(store)

    # Links, reflections and other records.

    def link(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        source, target = self.one(store, a), self.one(store, b)
        relation = ("related_to", "derived_from", "contradicts")[b % 3]
        store.link(source_id=_pick(self.ids(store, source.id), b), target_id=target.id, relation=relation)

    def supersede(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        store.link(source_id=self.one(store, a).id, target_id=self.one(store, b).id, relation="supersedes")

    def unlink(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        link = _pick(store.get_links(id=self.one(store, a).id).links, b)
        store.kg_invalidate(source_id=link.source_id, target_id=link.target_id, relation=link.relation)

    def reflect(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        text = self.new_text()
        store.reflect(source_ids=[self.one(store, a).id], title="rst"[b % 3], content=text, namespace="n", tier="long")
        self.texts.add(text)

    def resolve_notice(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        told = _pick(store.invalidations(limit=100).invalidations, a)
        how = ("invalidations_acknowledge", "invalidations_resolve", "invalidations_dismiss")[b % 3]
        store.call(how, {"ids": [told.id], "reason": f"because {b % 2}"})

    def skill(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        name = "tidy" if a % 2 else "sweep"
        store.skill_register(inline_skill=f"---\nname: {name}\ndescription: Does it.\n---\nStep {b % 5}.\n")

    def drop_skill(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        store.skill_delete(skill_id=_pick(store.skill_list().skills, a).id, purge=b % 2 == 0)

    def policy(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        if b % 3:
            store.policy_set(namespace=PLACES[a % 2], max_reflection_depth=b % 4 + 2)
        else:
            store.policy_clear(namespace=PLACES[a % 2])

    def standard(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        store.namespace_set_standard(namespace=PLACES[a % 2], id=self.one(store, b).id)

    def entity(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        store.entity_register(canonical_name="ef"[a % 2], namespace="n", aliases=["xyz"[b % 3]])

    def newer_release(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        """Write an unknown field, as a newer release would."""
        id = self.one(store, a).id
        with store.ctx.transaction() as write:
            unknown = conflicts.Conflict("", "memory", id, id, "mood", Stamp(0, ""), 0, "", "")
            conflicts.replace_values(write, unknown, ["glad", "sad"][b % 2])

    # Conflicts.

    def resolve(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        found = store.conflicts(limit=100).conflicts
        conflict = _pick(sorted(found, key=lambda one: (one.title, one.field, one.other.at, str(one.other.value))), a)
        keep = ("shown", "other", "both", "edited", "mine")[b % 5]
        text = self.new_text()
        held = contents(store, self.ids(store, conflict.memory_id))
        store.conflicts_resolve(id=conflict.id, keep=keep, value=text if keep == "edited" else None)
        left = store.conflicts(limit=1000).conflicts
        assert conflict.id not in [one.id for one in left], "a conflict that was just settled is there"
        if conflict.field == "content" and keep != "both":
            self.texts -= held - contents(store, self.ids(store, conflict.memory_id))
            self.texts |= {text} if keep == "edited" else set()

    def jump(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        self.skews[self.stores.index(store)] = SKEWS[b % len(SKEWS)]

    # Exchanges.

    def _other(self, store: holdfast.Holdfast, number: int) -> tuple[LocalEndpoint, LocalEndpoint]:
        place = self.stores.index(store)
        others = [end for end in self.ends if end is not self.ends[place]]
        return self.ends[place], others[number % len(others)]

    def pull(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        here, there = self._other(store, a)
        apply_pages(here, read_missing_pages(there, here, PAGES[b % 4]), SyncResult())

    def merge(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        here, there = self._other(store, a)
        apply_pages(here, read_missing_pages(there, here, 500), SyncResult())
        apply_pages(there, read_missing_pages(here, there, 500), SyncResult())

    def pull_one_page(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        here, there = self._other(store, a)
        _take(here, there, PAGES[b % 3])

    def pull_again(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        """Pull from the beginning, including known changes."""
        here, there = self._other(store, a)
        here.apply_changes(there.read_changes(0, {}, 500), there.read_handshake(), SyncResult())

    def pull_shuffled(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        here, there = self._other(store, a)
        _take(here, there, 5, b)

    def pull_some(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        """Pull only the newest missing changes; the older ones arrive later."""
        here, there = self._other(store, a)
        known = {origin: reached.n for origin, reached in here.read_handshake().vector.items()}
        sender = there.read_handshake()
        after = here.get_cursor(sender)
        page = there.read_changes(after, known, 500)
        here.apply_changes(page._replace(changes=page.changes[-1 - b % 3 :], upto=after), sender, SyncResult())

    def pull_cut(self, store: holdfast.Holdfast, a: int, b: int) -> None:
        """Simulate a crash before the applied page is committed."""
        here, there = self._other(store, a)
        before = here.read_handshake()
        try:
            _take(LocalEndpoint(store.ctx.for_caller(store.ctx.caller, Cut())), there, 5)
        except KeyboardInterrupt:
            assert here.read_handshake() == before, "a page was half applied"

    def meet(self, a: int = 0) -> None:
        """Sync all stores, in a ring or pairwise, after the clocks agree again."""
        self.clock += 12 * DAY
        self.skews = [0] * len(self.stores)
        for _ in range(4):
            for store in self.stores if self.ends_come or self._puts_aside() else ():
                store.gc()
            for here, there in self._ways(a):
                apply_pages(here, read_missing_pages(there, here, 500), SyncResult())
            if len({str(sorted(end.read_handshake().vector.items())) for end in self.ends}) == 1:
                break

    def _puts_aside(self) -> bool:
        """Whether a store quarantined a change from the future."""
        for store in self.stores:
            with store.ctx.reading() as session:
                if session.row("quarantine_future"):
                    return True
        return False

    def _ways(self, a: int) -> Iterator[tuple[LocalEndpoint, LocalEndpoint]]:
        pairs = list(permutations(self.ends, 2))
        ring = [(self.ends[place - 1], self.ends[place]) for place in (*range(len(self.ends)), *range(len(self.ends)))]
        yield from ring if a % 2 else sorted(pairs, key=lambda pair: hash((a, *map(self.ends.index, pair))))


class Cut(Progress):
    def begin_commit(self) -> None:
        raise KeyboardInterrupt


def _take(here: LocalEndpoint, there: LocalEndpoint, limit: int, shuffled: int = 0) -> None:
    """Apply one page with its changes shuffled."""
    known = {origin: reached.n for origin, reached in here.read_handshake().vector.items()}
    sender = there.read_handshake()
    page = there.read_changes(here.get_cursor(sender), known, limit)
    if page.more:
        (behind, *_) = there.read_changes(page.upto, known, 1).changes or [None]
        assert behind is None or behind.group != page.changes[-1].group, "a page cuts a transaction"
    changes = sorted(page.changes, key=lambda change: hash((shuffled, change.n))) if shuffled else page.changes
    here.apply_changes(page._replace(changes=changes), sender, SyncResult())


def _pick(found: Sequence[Any], number: int) -> Any:
    if not found:
        raise LookupError
    return found[number % len(found)]


def contents(store: holdfast.Holdfast, ids: Sequence[str] | None = None) -> set[str]:
    """Return every content of the given memories, or of all, shown or in conflict."""
    with store.ctx.reading() as session:
        known = [row[1] for row in session.rows("record_list") if row[0] == "memory"] if ids is None else ids
        held = [member.all_states["content"] for member in title_groups.read_members(session, known)]
    return {value for cell in held for value in cell.values.values() if isinstance(value, str)}
