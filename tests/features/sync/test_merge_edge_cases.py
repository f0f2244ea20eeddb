"""Concurrent operations on two stores: each row of the table in docs/how-to/sync.md."""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

import holdfast
from holdfast.features.sync.exchange import sync_stores
from holdfast.kernel.records.merge import MAX_CONFLICTS_PER_FIELD


def meet(one: holdfast.Holdfast, other: holdfast.Holdfast) -> None:
    for _ in range(2):
        sync_stores(one.ctx, other.ctx, "merge", trust_source=True)


def both(here: holdfast.Holdfast, there: holdfast.Holdfast, ask: Any) -> Any:
    """Return the answer of both stores after a sync; it must be equal."""
    meet(here, there)
    mine, theirs = ask(here), ask(there)
    assert mine == theirs
    return mine


def test_a_reflection_stays_above_a_source_raised_elsewhere(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    ground, seen = (here.store(title=title, content=f"{title} it is.") for title in ("Ground", "Seen"))
    deep = here.reflect(source_ids=[seen.id], title="Deep", content="So it is.")
    meet(here, there)
    drawn = there.reflect(source_ids=[ground.id], title="Drawn", content="Take a coat.")
    here.link(source_id=ground.id, target_id=deep.id, relation="reflects_on")
    assert both(here, there, lambda store: store.get(id=drawn.id).reflection_depth) == 3


def titles(store: holdfast.Holdfast) -> dict[str, str]:
    return {memory.title: memory.content for memory in store.list().memories}


def conflicts(store: holdfast.Holdfast) -> list[tuple[str, Any, Any]]:
    return [(one.field, one.shown.value, one.other.value) for one in store.conflicts().conflicts]


@pytest.fixture
def port(here: holdfast.Holdfast, there: holdfast.Holdfast) -> str:
    """A memory in both stores."""
    kept = here.store(title="Port", content="It is 8080.", tags=["net"], tier="long")
    meet(here, there)
    return str(kept.id)


def test_a_title_given_by_three_stores_is_one_memory_in_any_sync_order(make: Callable[..., holdfast.Holdfast]) -> None:
    for order in list(permutations(range(3)))[::2]:
        stores = [make() for _ in range(3)]
        ids = [store.store(title="Port", content=f"It is {n}.").id for n, store in enumerate(stores)]
        a, b, c = (stores[place] for place in order)
        for pair in ((a, b), (b, c), (a, c), (a, b)):
            meet(*pair)
        for store in stores:
            assert [(m.id, m.content) for m in store.list().memories] == [(min(ids), "It is 2.")]
            assert store.conflicts().total == 2


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_sync_counts_the_remaining_conflicts(
    here: holdfast.Holdfast, there: holdfast.Holdfast, *, dry_run: bool
) -> None:
    here.store(title="Port", content="It is 8080.")
    there.store(title="Port", content="It is 9090.")
    done = sync_stores(here.ctx, there.ctx, "merge", dry_run=dry_run, trust_source=True)
    assert (done.pulled.conflicts, done.pushed.conflicts) == (1, 1)
    assert here.conflicts().total == (0 if dry_run else 1)


def test_a_resolved_conflict_is_not_a_conflict_for_a_third_store(make: Callable[..., holdfast.Holdfast]) -> None:
    here, there, third = make(), make(), make()
    here.store(title="Port", content="It is 8080.")
    there.store(title="Port", content="It is 9090.")
    meet(here, there)
    (conflict,) = here.conflicts().conflicts
    here.conflicts_resolve(id=conflict.id, keep="shown")
    done = sync_stores(third.ctx, here.ctx, "pull", trust_source=True)
    assert (done.pulled.conflicts, third.conflicts().total) == (0, 0)


def test_deleting_ones_own_memory_keeps_another_stores_memory_of_that_title(
    here: holdfast.Holdfast, there: holdfast.Holdfast
) -> None:
    mine = here.store(title="Port", content="It is 8080.")
    here.delete(id=mine.id)
    there.store(title="Port", content="It is 9090.")
    assert both(here, there, titles) == {"Port": "It is 9090."}


def test_deleting_a_title_group_keeps_members_unknown_to_the_deleter(
    here: holdfast.Holdfast, there: holdfast.Holdfast, make: Callable[..., holdfast.Holdfast]
) -> None:
    third = make()
    for number, store in enumerate((here, there, third)):
        store.store(title="Port", content=f"It is {number}.")
    meet(here, there)
    here.delete(id=here.list().memories[0].id)
    meet(here, third)
    assert both(here, there, titles) == {"Port": "It is 2."}


def test_a_new_title_also_given_by_another_store_is_shared(
    here: holdfast.Holdfast, there: holdfast.Holdfast, port: str
) -> None:
    here.update(id=port, title="Gate")
    there.store(title="Gate", content="It is open.")
    assert both(here, there, lambda store: store.list().memories[0].content) == "It is open."
    assert both(here, there, lambda store: store.stats().total) == 1


def test_the_newer_of_two_concurrent_titles_shows_and_the_other_is_a_conflict(
    here: holdfast.Holdfast, there: holdfast.Holdfast, port: str
) -> None:
    here.update(id=port, title="Gate")
    there.update(id=port, title="Door")
    assert both(here, there, titles) == {"Door": "It is 8080."}
    assert both(here, there, conflicts) == [("title", "Door", "Gate")]


def test_a_concurrent_rename_and_move_both_apply(here: holdfast.Holdfast, there: holdfast.Holdfast, port: str) -> None:
    here.update(id=port, title="Gate")
    there.update(id=port, namespace="ops")
    found = both(here, there, lambda store: [(m.namespace, m.title) for m in store.list().memories])
    assert found == [("ops", "Gate")]


def test_a_memory_created_in_a_namespace_being_emptied_elsewhere_stays(
    here: holdfast.Holdfast, there: holdfast.Holdfast, port: str
) -> None:
    here.update(id=port, namespace="ops")
    there.store(title="Host", content="It is called alpha.")
    found = both(here, there, lambda store: {m.title: m.namespace for m in store.list().memories})
    assert found == {"Port": "ops", "Host": "global"}


@pytest.mark.parametrize("gone", ["deleted", "archived"])
@pytest.mark.parametrize("newer", [True, False], ids=["newer", "older"])
def test_a_newer_text_survives_an_older_deletion_only(
    here: holdfast.Holdfast, there: holdfast.Holdfast, port: str, gone: str, newer: bool
) -> None:
    def put_away() -> None:
        here.delete(id=port) if gone == "deleted" else here.archive(ids=[port])

    if newer:
        put_away()
    there.update(id=port, content="It is 9090.")
    if not newer:
        put_away()
    assert both(here, there, titles) == ({"Port": "It is 9090."} if newer else {})
    shown, other = ("live", gone) if newer else (gone, "live")
    assert both(here, there, conflicts) == [("state", shown, other)]
    (conflict,) = here.conflicts().conflicts
    here.conflicts_resolve(id=conflict.id, keep="other")
    assert both(here, there, titles) == ({} if newer else {"Port": "It is 9090."})


def test_a_tag_does_not_revive_a_deleted_memory_and_returns_with_it(
    here: holdfast.Holdfast, there: holdfast.Holdfast, port: str
) -> None:
    here.archive(ids=[port])
    there.update(id=port, tags=["net", "web"], priority=9)
    assert both(here, there, titles) == {}
    here.archive_restore(id=port)
    assert both(here, there, lambda store: sorted(store.get(id=port).tags)) == ["net", "web"]


def test_a_tag_removed_on_one_store_and_readded_on_another_is_present(
    here: holdfast.Holdfast, there: holdfast.Holdfast, port: str
) -> None:
    here.update(id=port, tags=[])
    there.update(id=port, tags=[])
    there.update(id=port, tags=["net"])
    assert both(here, there, lambda store: list(store.get(id=port).tags)) == ["net"]


def test_a_memory_deleted_and_stored_again_on_both_sides_is_one_with_a_new_id(
    here: holdfast.Holdfast, there: holdfast.Holdfast, port: str
) -> None:
    made = []
    for number, store in enumerate((here, there)):
        store.delete(id=port)
        made.append(store.store(title="Port", content=f"It is {number}.").id)
    assert both(here, there, lambda store: [m.id for m in store.list().memories]) == [min(made)]


def test_two_memories_with_swapped_titles_stay_separate(
    here: holdfast.Holdfast, there: holdfast.Holdfast, port: str
) -> None:
    host = here.store(title="Host", content="It is called alpha.").id
    meet(here, there)
    for id, title in ((port, "Free"), (host, "Port"), (port, "Host")):
        here.update(id=id, title=title)
    assert both(here, there, titles) == {"Host": "It is 8080.", "Port": "It is called alpha."}


def test_metadata_keys_merge_one_by_one(here: holdfast.Holdfast, there: holdfast.Holdfast, port: str) -> None:
    here.update(id=port, metadata={"owner": "ann", "team": "blue"})
    there.update(id=port, metadata={"owner": "bob", "site": "east"})
    found = both(here, there, lambda store: store.get(id=port).metadata)
    assert found == {"owner": "bob", "team": "blue", "site": "east"}
    assert both(here, there, conflicts) == [("metadata:owner", "bob", "ann")]


def test_only_the_newest_unresolved_conflicts_are_retained(
    here: holdfast.Holdfast, make: Callable[..., holdfast.Holdfast]
) -> None:
    kept = here.store(title="Port", content="It is free.", tier="long").id
    stores = [make() for _ in range(MAX_CONFLICTS_PER_FIELD + 3)]
    for number, store in enumerate(stores):
        sync_stores(store.ctx, here.ctx, "pull", trust_source=True)
        store.update(id=kept, content=f"It is {number}.")
    for store in stores:
        sync_stores(here.ctx, store.ctx, "pull", trust_source=True)
    assert here.conflicts(limit=100).total == MAX_CONFLICTS_PER_FIELD + 2
    here.gc()
    assert here.conflicts(limit=100).total == MAX_CONFLICTS_PER_FIELD
    assert here.get(id=kept).content == f"It is {MAX_CONFLICTS_PER_FIELD + 2}."
    lost = {one.other.value for one in here.conflicts(limit=100).conflicts}
    assert lost == {f"It is {number}." for number in range(2, MAX_CONFLICTS_PER_FIELD + 2)}


def test_a_source_invalidated_here_makes_its_dependent_there_stale(
    here: holdfast.Holdfast, there: holdfast.Holdfast, port: str
) -> None:
    drawn = there.reflect(source_ids=[port], title="Rule", content="Open that port.", tier="long").id
    here.delete(id=port)
    assert both(
        here, there, lambda store: [(one.dependent_id, one.cause) for one in store.invalidations().invalidations]
    ) == [(drawn, "deleted")]
