"""An erased person is erased in every store that receives the erasure, in any order of exchanges."""

from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import pytest

import holdfast
import person_data
from holdfast.features.sync.exchange import LocalEndpoint, sync_endpoints, sync_stores
from holdfast.kernel.errors import NotFound
from holdfast.kernel.records.namespace_patterns import PeerScope
from holdfast.kernel.storage.copy_destinations import tables
from holdfast.kernel.timestamps import parse_timestamp

WHO, ALIAS = "quetzalcoatlus", "slack:Uxochitl"
WORDS = ("quetzalcoatlus", "xochitl", "tlaloc")
HOUR = 3600_000_000


class Time:
    """A shared time for several clocks; it advances on every read."""

    def __init__(self) -> None:
        self.at = parse_timestamp("2026-01-31T09:00:00Z", "at")

    def clock(self, hours: int = 0) -> Any:
        def now() -> int:
            self.at += 1000
            return self.at + hours * HOUR

        return now


@pytest.fixture
def time() -> Time:
    return Time()


def tell_of(hold: holdfast.Holdfast, who: str, word: str) -> None:
    person_data.tell_of(hold, who, word)
    hold.onboarding_tell(step="introduce", principal=who)


def left_of(hold: holdfast.Holdfast, words: tuple[str, ...] = WORDS) -> set[tuple[str, str]]:
    """Return the tables that still contain a word."""
    with hold.ctx.store.reading() as session:
        rows = [(table.name, str(row).lower()) for table in tables() for row in table.rows(session, None)]
    return {(name, word) for name, row in rows for word in words if word in row}


def meet(*stores: holdfast.Holdfast, times: int = 1) -> None:
    for _ in range(times):
        for one, other in pairwise(stores):
            sync_stores(one.ctx, other.ctx, "merge", trust_source=True)


def ends(*stores: holdfast.Holdfast) -> list[int]:
    """Return the last sequence number of each journal."""
    return [LocalEndpoint(store.ctx).read_handshake().seq for store in stores]


def must_agree(*stores: holdfast.Holdfast) -> None:
    """Assert that the stores are equal, valid and fully synced."""
    assert len({store.sync_digest().digest for store in stores}) == 1
    for store in stores:
        assert store.verify().intact
        assert store.ctx.store.faults() == []
    before = ends(*stores)
    meet(*stores, *stores[-2::-1], times=2)
    assert ends(*stores) == before


@pytest.mark.parametrize("orders", [0, 1], ids=["the first orders it", "the second orders it"])
def test_a_store_receiving_an_erasure_erases_its_own_data_of_the_person(make: Any, time: Time, orders: int) -> None:
    stores = [make(now=time.clock()), make(now=time.clock())]
    first, other = stores[orders], stores[1 - orders]
    first.fact_set(key="pet", value="a dog of tlaloc", principal=WHO)
    tell_of(other, WHO, "tlaloc")
    tell_of(other, "bob", "sunflower")
    theirs = left_of(other, ("sunflower",))
    first.principal_purge(name=WHO)
    sync_stores(first.ctx, other.ctx, "push")
    assert left_of(other) == set()
    assert left_of(other, ("sunflower",)) == theirs
    assert other.recall("tlaloc").count == 0
    gone = other.principal_forgotten(name=WHO).counts
    rows = ("tasks", "usage", "runs", "phases", "budgets", "sessions", "outcomes", "conversations", "onboarding")
    assert {what: gone[what] for what in rows} == dict.fromkeys(rows, 1)
    assert (gone["memories"], gone["interactions"]) == (3, 1)
    assert first.principal_forgotten(name=WHO).counts["memories"] == 1
    meet(first, other)
    must_agree(first, other)


def test_aliases_known_only_to_the_other_store_are_erased_with_the_person(make: Any, time: Time) -> None:
    first, other, third = (make(now=time.clock()) for _ in range(3))
    for store, who in ((first, WHO), (other, ALIAS), (third, ALIAS)):
        tell_of(store, who, "tlaloc")
    other.principal_merge(alias=ALIAS, principal=WHO)
    first.principal_purge(name=WHO)
    sync_stores(first.ctx, other.ctx, "push")
    assert left_of(other) == set()
    meet(first, other, third, other, first)
    assert [left_of(store) for store in (first, other, third)] == [set()] * 3
    assert third.principal_forgotten(name=ALIAS).counts["tasks"] == 1
    must_agree(first, other, third)


def test_turns_are_erased_where_their_conversation_record_is_missing(make: Any, time: Time) -> None:
    other, first, talks = (make(now=time.clock()) for _ in range(3))
    say = {"principal": WHO, "channel": "cli", "namespace": "support"}
    talks.conversation_say(turns=[{"role": "user", "content": "I am from tlaloc."}], **say)
    sync_stores(talks.ctx, other.ctx, "push")
    first.task_add(title="Call", due_at="2020-01-01", principal=WHO)
    first.principal_purge(name=WHO)
    sync_stores(first.ctx, other.ctx, "push")
    assert left_of(other) == set()
    assert other.principal_forgotten(name=WHO).counts["memories"] == 1


def test_changes_of_an_erased_person_are_erased_on_arrival_and_from_history(make: Any, time: Time) -> None:
    orders, away, third = (make(now=time.clock()) for _ in range(3))
    orders.fact_set(key="city", value="lives in a city", principal=WHO)
    orders.fact_set(key="pet", value="a dog", principal=WHO)
    meet(orders, away)
    city, pet = (away.fact_get(key=key, principal=WHO).memory_id for key in ("city", "pet"))
    away.update(pet, tags=["tlaloc"])
    orders.principal_purge(name=WHO)
    away.update(city, content="moved to tlaloc", tags=["tlaloc"])
    away.fact_set(key="tea", value="green", principal=WHO)
    sync_stores(away.ctx, orders.ctx, "push")
    assert left_of(orders, ("tlaloc",)) == set()
    assert orders.fact_get(key="tea", principal=WHO).value == "green"
    sync_stores(orders.ctx, third.ctx, "push")
    assert left_of(third, ("tlaloc",)) == set()


def test_records_erased_on_arrival_count_as_deleted(make: Any, time: Time) -> None:
    here, away = make(now=time.clock()), make(now=time.clock())
    here.fact_set(key="city", value="Rome", principal=WHO)
    away.fact_set(key="food", value="figs", principal=WHO)
    here.principal_purge(name=WHO)
    done = sync_stores(here.ctx, away.ctx, "pull", trust_source=True)
    assert (done.pulled.memory_count, len(done.pulled.deleted_ids)) == (0, 1)


def get_counts(hold: holdfast.Holdfast, who: str = WHO) -> tuple[int, ...]:
    """Return the counts in a tombstone."""
    counts = hold.principal_forgotten(name=who).counts
    return tuple(counts[what] for what in ("memories", "interactions", "names", "tasks"))


@pytest.mark.parametrize("direction", ["merge", "push"])
def test_each_tombstone_counts_the_records_of_its_own_store(make: Any, time: Time, direction: Any) -> None:
    """Erased on arrival by the store that ordered it, or by the other store itself."""
    here, there, third = (make(now=time.clock()) for _ in range(3))
    here.fact_set(key="city", value="Rome", principal=WHO)
    for store in (there, third):
        store.fact_set(key="food", value="figs", principal=WHO)
        tell_of(store, ALIAS, "tlaloc")
        store.principal_merge(alias=ALIAS, principal=WHO)
        tell_of(store, "bob", "sunflower")
    here.principal_purge(name=WHO)
    sync_stores(here.ctx, there.ctx, direction, trust_source=True)
    assert get_counts(here) == (1, 0, 0, 0)
    assert [get_counts(there, who) for who in (WHO, ALIAS)] == [(4, 1, 1, 1)] * 2
    meet(here, there, third, there, here, times=2)
    assert [get_counts(store) for store in (here, there, third)] == [(1, 0, 0, 0), (4, 1, 1, 1), (4, 1, 1, 1)]
    must_agree(here, there, third)


def test_a_person_erased_again_is_counted_again(make: Any, time: Time) -> None:
    here, there = make(now=time.clock()), make(now=time.clock())
    for store in (here, there):
        tell_of(store, WHO, "tlaloc")
    here.principal_purge(name=WHO)
    meet(here, there, times=2)
    first = there.principal_forgotten(name=WHO)
    there.fact_set(key="city", value="a new city", principal=WHO)
    meet(here, there)
    here.principal_purge(name=WHO)
    meet(here, there)
    assert [get_counts(store) for store in (here, there)] == [(1, 0, 0, 0)] * 2
    assert there.principal_forgotten(name=WHO).at > first.at


def test_people_erased_at_once_are_counted_separately(make: Any, time: Time) -> None:
    here, there = make(now=time.clock()), make(now=time.clock())
    for who, keys in ((WHO, "ab"), ("bob", "cde")):
        here.fact_set(key="z", value="known", principal=who)
        for key in keys:
            there.fact_set(key=key, value="known", principal=who)
        here.principal_purge(name=who)
    meet(here, there)
    assert [get_counts(there, who)[0] for who in (WHO, "bob")] == [2, 3]


WAYS = list(permutations([(0, 1), (1, 2), (2, 0)]))
SKEWS = {"in time": 0, "behind": -30, "ahead": 30}


@pytest.mark.parametrize("engine", ["sqlite"])
@pytest.mark.parametrize(("way", "skew"), list(zip(WAYS, [*SKEWS, *SKEWS], strict=True)), ids=range(len(WAYS)))
def test_no_older_data_returns_in_any_sync_order(
    make: Any, time: Time, way: tuple[tuple[int, int], ...], skew: str
) -> None:
    """One store orders the erasure, one was offline and keeps writing, and one with a different clock receives both."""
    stores = [make(now=time.clock()), make(now=time.clock()), make(now=time.clock(SKEWS[skew]))]
    orders, away, third = stores
    for store in stores:
        store.fact_set(key="city", value="lives in tlaloc", principal=WHO)
    third.principal_describe(name=WHO, display="Tlaloc of the hills")
    meet(*stores, *stores[-2::-1])
    away.fact_set(key="city", value="moved to tlaloc", principal=WHO)
    away.fact_set(key="pet", value="a dog of tlaloc", principal=WHO)
    away.principal_merge(alias=ALIAS, principal=WHO)
    away.principal_describe(name=WHO, display="tlaloc again")
    third.fact_set(key="city", value="tlaloc, they say", principal=WHO)
    time.at += 48 * HOUR
    orders.principal_purge(name=WHO)
    for _ in range(3):
        for one, other in way:
            meet(stores[one], stores[other])
    assert [left_of(store) for store in stores] == [set()] * 3
    must_agree(*stores)


@pytest.mark.parametrize("skew", SKEWS)
def test_data_set_again_after_the_erasure_arrived_stays(make: Any, time: Time, skew: str) -> None:
    orders, heard, late = make(now=time.clock()), make(now=time.clock(SKEWS[skew])), make(now=time.clock())
    for store in (orders, late):
        tell_of(store, WHO, "tlaloc")
    orders.principal_merge(alias=ALIAS, principal=WHO)
    orders.principal_purge(name=WHO)
    meet(orders, heard)
    heard.fact_set(key="city", value="a new city", principal=WHO)
    heard.principal_merge(alias="mail:new", principal=WHO)
    heard.principal_merge(alias=ALIAS, principal=WHO)
    heard.task_add(title="Greet them", due_at="2020-01-01", principal=WHO)
    orders.fact_set(key="tea", value="green", principal=WHO)
    meet(orders, heard, late, heard, orders, times=2)
    for store in (orders, heard, late):
        assert {(one.key, one.value) for one in store.fact_list(principal="mail:new").facts} == {
            ("city", "a new city"),
            ("tea", "green"),
        }
        assert store.principal_show(name="mail:new").names == [WHO, "mail:new", ALIAS]
        assert left_of(store, ("tlaloc",)) == set()
    assert heard.task_list(principal=[WHO]).count == 1
    must_agree(orders, heard, late)
    assert late.principal_purge(name=WHO).counts["memories"] == 2
    meet(orders, late, heard, orders, times=2)
    assert [left_of(store) for store in (orders, late)] == [set()] * 2
    must_agree(orders, heard, late)


def test_data_written_after_the_erasure_stays_on_stores_unaware_of_it(make: Any, time: Time) -> None:
    orders, other = make(now=time.clock()), make(now=time.clock())
    for store in (orders, other):
        store.task_add(title="Before", due_at="2020-01-01", principal=WHO)
    orders.principal_purge(name=WHO)
    other.task_add(title="Since", due_at="2020-01-01", principal=WHO)
    other.fact_set(key="city", value="since", principal=WHO)
    meet(orders, other)
    assert [one.title for one in other.task_list(principal=[WHO]).tasks] == ["Since"]
    assert [store.fact_get(key="city", principal=WHO).value for store in (orders, other)] == ["since"] * 2


def test_two_concurrent_erasures_agree_and_each_shows_its_own_counts(make: Any, time: Time) -> None:
    first, other, third = (make(now=time.clock()) for _ in range(3))
    for store in (first, other, third):
        tell_of(store, WHO, "tlaloc")
    gone = [store.principal_purge(name=WHO).counts for store in (first, other)]
    meet(first, third, other, third, first, times=2)
    assert [left_of(store) for store in (first, other, third)] == [set()] * 3
    assert [store.principal_forgotten(name=WHO).counts["tasks"] for store in (first, other, third)] == [1, 1, 1]
    assert [one["memories"] for one in gone] == [3, 3]
    must_agree(first, other, third)


def test_a_store_filled_from_a_file_refuses_older_data_too(make: Any, time: Time) -> None:
    filled, orders, away = (make(now=time.clock()) for _ in range(3))
    for store in (orders, away):
        tell_of(store, WHO, "tlaloc")
    orders.principal_purge(name=WHO)
    file = orders.export()
    filled.call("import", {"envelope": file})
    sync_stores(away.ctx, filled.ctx, "push")
    assert left_of(filled) == set()
    assert filled.principal_forgotten(name=WHO).at == orders.principal_forgotten(name=WHO).at


def test_an_erasure_by_a_peer_without_admin_rights_waits_for_them(make: Any, time: Time) -> None:
    here, there = make(now=time.clock()), make(now=time.clock())
    there.fact_set(key="city", value="lives in tlaloc", principal=WHO)
    here.task_add(title="Call tlaloc", due_at="2020-01-01", principal=WHO)
    meet(here, there)
    there.principal_purge(name=WHO)
    here.peer_add(name="there", token=there.peer_token().token, tell=["**"], take=["**"])
    everything = PeerScope(("**",), ("**",))
    done = sync_endpoints(LocalEndpoint(here.ctx, scope=everything), LocalEndpoint(there.ctx), "pull")
    assert [one.reason for one in done.pulled.list_rejected] == ["governance"]
    assert here.fact_list(principal=WHO).count == 0
    assert here.task_list(principal=[WHO]).count == 1
    with pytest.raises(NotFound):
        here.principal_forgotten(name=WHO)
    assert here.quarantine_retry().applied == 0
    here.peer_set(name="there", admin=True)
    assert here.quarantine_retry().applied == 1
    assert here.task_list(principal=[WHO]).count == 0
    assert here.principal_forgotten(name=WHO).counts["tasks"] == 1


def test_a_bundle_carries_an_erasure_and_a_dry_run_erases_nothing(make: Any, time: Time, tmp_path: Path) -> None:
    here, there = make(now=time.clock()), make(now=time.clock())
    tell_of(here, WHO, "tlaloc")
    there.fact_set(key="city", value="lives in tlaloc", principal=WHO)
    there.principal_purge(name=WHO)
    file = str(tmp_path / "orders.bundle")
    there.sync_export_bundle(file=file)
    before = left_of(here)
    here.sync_import_bundle(file=file, trust_sender=True, dry_run=True)
    sync_stores(here.ctx, there.ctx, "merge", dry_run=True)
    assert left_of(here) == before
    here.sync_import_bundle(file=file, trust_sender=True)
    assert left_of(here) == set()


def test_a_store_receiving_whole_records_applies_the_erasure(make: Any, time: Time) -> None:
    """Compacted records are sent as snapshots, in no order of time."""
    orders, late = make(now=time.clock()), make(now=time.clock())
    tell_of(late, WHO, "tlaloc")
    orders.fact_set(key="pet", value="a dog of tlaloc", principal=WHO)
    orders.principal_purge(name=WHO)
    orders.fact_set(key="city", value="a new city", principal=WHO)
    orders.principal_describe(name=WHO, display="Back again")
    orders.compact(older_than=0)
    meet(orders, late, times=2)
    assert left_of(late, ("tlaloc",)) == set()
    assert late.fact_get(key="city", principal=WHO).value == "a new city"
    assert late.principal_show(name=WHO).display == "Back again"
    must_agree(orders, late)
