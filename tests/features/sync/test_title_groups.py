"""Memories with the same title on two stores are shown as one, and separate again without loss."""

from collections.abc import Callable

import holdfast
from holdfast.features.recall.flush_access import flush_access_log
from holdfast.features.sync.exchange import sync_stores
from holdfast.kernel.timestamps import format_timestamp


def meet(one: holdfast.Holdfast, other: holdfast.Holdfast) -> None:
    for _ in range(2):
        sync_stores(one.ctx, other.ctx, "merge", trust_source=True)


def test_a_title_given_by_two_stores_is_one_memory_with_the_newest_text_and_all_tags(
    here: holdfast.Holdfast, there: holdfast.Holdfast
) -> None:
    mine = here.store(title="Port", content="It is 8080.", tags=["net"])
    theirs = there.store(title="Port", content="It is 9090.", tags=["web"])
    meet(here, there)
    for store in (here, there):
        (shown,) = store.list().memories
        assert (shown.id, shown.content, sorted(shown.tags)) == (min(mine.id, theirs.id), "It is 9090.", ["net", "web"])
        assert store.get(id=theirs.id).id == store.get(id=mine.id).id == shown.id
        assert store.stats().total == 1


def test_the_other_text_is_a_conflict_that_either_store_can_resolve(
    here: holdfast.Holdfast, there: holdfast.Holdfast
) -> None:
    here.store(title="Port", content="It is 8080.")
    there.store(title="Port", content="It is 9090.")
    meet(here, there)
    (conflict,) = here.conflicts().conflicts
    assert (conflict.field, conflict.shown.value, conflict.other.value) == ("content", "It is 9090.", "It is 8080.")
    assert (conflict.mine, there.conflicts_show(id=conflict.id).mine) == ("other", "shown")
    here.conflicts_resolve(id=conflict.id, keep="mine")
    meet(here, there)
    assert [store.conflicts().total for store in (here, there)] == [0, 0]
    assert [store.list().memories[0].content for store in (here, there)] == ["It is 8080.", "It is 8080."]


def test_keeping_both_gives_each_its_own_memory(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    mine = here.store(title="Port", content="It is 8080.", tags=["net"])
    theirs = there.store(title="Port", content="It is 9090.", tags=["web"])
    meet(here, there)
    (conflict,) = there.conflicts().conflicts
    there.conflicts_resolve(id=conflict.id, keep="both")
    meet(here, there)
    for store in (here, there):
        shown = {memory.id: (memory.title, memory.content, list(memory.tags)) for memory in store.list().memories}
        assert shown == {mine.id: ("Port (2)", "It is 8080.", ["net"]), theirs.id: ("Port", "It is 9090.", ["web"])}


def test_an_edit_of_a_title_group_changes_the_shown_memory(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    mine = here.store(title="Port", content="It is 8080.")
    theirs = there.store(title="Port", content="It is 9090.")
    meet(here, there)
    here.update(id=mine.id, content="It is 7070.", priority=9)
    meet(here, there)
    assert [store.get(id=theirs.id).content for store in (here, there)] == ["It is 7070.", "It is 7070."]
    assert {conflict.other.value for conflict in there.conflicts().conflicts} == {"It is 8080."}
    assert there.get(id=theirs.id).priority == 9


def test_a_title_group_is_renamed_and_deleted_as_one(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    mine = here.store(title="Port", content="It is 8080.")
    there.store(title="Port", content="It is 9090.")
    meet(here, there)
    here.update(id=mine.id, title="Gate")
    meet(here, there)
    assert [[m.title for m in store.list().memories] for store in (here, there)] == [["Gate"], ["Gate"]]
    there.delete(id=there.list().memories[0].id)
    meet(here, there)
    assert [store.list().memories for store in (here, there)] == [[], []]


def test_private_and_shared_memories_are_not_grouped(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    here.store(title="Port", content="It is 8080.")
    there.store(title="Port", content="It is a secret.", scope="private")
    meet(here, there)
    for store in (here, there):
        assert {memory.content for memory in store.list().memories} == {"It is 8080.", "It is a secret."}
        assert store.conflicts().total == 0


def test_stores_with_shared_titles_verify(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    here.store(title="Port", content="It is 8080.")
    there.store(title="Port", content="It is 9090.")
    meet(here, there)
    assert [store.verify().findings for store in (here, there)] == [[], []]


def test_a_title_group_lives_as_long_as_any_member(make: Callable[..., holdfast.Holdfast]) -> None:
    moments = [1_790_000_000_000_000]
    here, there = (make(now=lambda: moments[0]) for _ in range(2))
    here.store(title="Port", content="It is 8080.", expires_at=format_timestamp(moments[0] + 5_000_000))
    moments[0] += 1_000_000
    there.store(title="Port", content="It is 9090.", expires_at=format_timestamp(moments[0] + 1_000_000))
    meet(here, there)
    moments[0] += 2_000_000
    here.gc()
    assert [memory.content for memory in here.list().memories] == ["It is 8080."]
    assert here.verify().findings == []
    moments[0] += 5_000_000
    here.gc()
    assert here.list().memories == []
    assert here.store(title="Port", content="It is 7070.").outcome == "created"
    assert here.verify().findings == []


def test_the_texts_of_either_side_are_searchable_at_once(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    mine = here.store(title="Port", content="The gateway listens on a walrus.", tags=["net"])
    theirs = there.store(title="Port", content="The gateway listens on a penguin.")
    other = here.store(title="Other", content="Nothing to do with it.")
    meet(here, there)
    here.update(id=other.id, content="The weather is stormy.")
    there.update(id=other.id, content="The weather is sunny.")
    meet(here, there)
    shown = min(mine.id, theirs.id)
    for store in (here, there):
        for word, id in {"walrus": shown, "penguin": shown, "gateway": shown, "stormy": other.id}.items():
            assert [hit.id for hit in store.search(query=word).results] == [id], word
            assert [hit.id for hit in store.recall(context=word).memories] == [id], word
        assert store.search(query="walrus", tags=["other"]).results == []
        assert store.recall(context="walrus", namespace="elsewhere").memories == []


def test_either_id_means_the_title_group_and_the_answer_names_both(
    here: holdfast.Holdfast, there: holdfast.Holdfast
) -> None:
    mine = here.store(title="Port", content="It is 8080.")
    theirs = there.store(title="Port", content="It is 9090.")
    meet(here, there)
    shown, other = sorted((mine.id, theirs.id))
    assert [(found.id, found.also) for found in (here.get(id=shown), here.get(id=other))] == [(shown, [other])] * 2
    assert here.update(id=other, priority=9).id == shown
    assert here.delete(id=other).id == shown
    assert here.list().memories == []


def test_a_title_group_has_each_link_of_its_members_once(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    host = here.store(title="Host", content="It is called alpha.")
    meet(here, there)
    mine, theirs = here.store(title="Port", content="It is 8080."), there.store(title="Port", content="It is 9090.")
    for store, port in ((here, mine), (there, theirs)):
        store.link(source_id=port.id, target_id=host.id, relation="related_to")
    own = there.store(title="Service", content="It runs there.")
    there.link(source_id=own.id, target_id=theirs.id, relation="derived_from")
    meet(here, there)
    shown = min(mine.id, theirs.id)
    expected = [(shown, host.id, "related_to"), (own.id, shown, "derived_from")]
    for store in (here, there):
        links = store.get_links(id=theirs.id).links
        assert sorted((one.source_id, one.target_id, one.relation) for one in links) == sorted(expected)
        assert [one.target_id for one in store.get_links(id=own.id).links] == [shown]
        assert [one.source_id for one in store.get(id=host.id).links][:1] == [shown]


def test_each_store_counts_its_own_accesses(here: holdfast.Holdfast, there: holdfast.Holdfast) -> None:
    kept = here.store(title="Port", content="It is 8080.")
    meet(here, there)
    here.recall(context="8080")
    here.recall(context="8080")
    flush_access_log(here.ctx)
    meet(here, there)
    assert [store.get(id=kept.id).access_count for store in (here, there)] == [2, 0]


def test_renaming_one_known_member_splits_a_title_group(
    here: holdfast.Holdfast, there: holdfast.Holdfast, make: Callable[..., holdfast.Holdfast]
) -> None:
    third = make()
    mine, theirs = here.store(title="Port", content="It is 8080."), there.store(title="Port", content="It is 9090.")
    meet(third, there)
    meet(here, there)
    third.update(id=theirs.id, title="Gate")
    for store in (there, here, there):
        meet(store, third)
    for store in (here, there, third):
        shown = {memory.id: (memory.title, memory.content) for memory in store.list().memories}
        assert shown == {mine.id: ("Port", "It is 8080."), theirs.id: ("Gate", "It is 9090.")}
