"""Recall in the past: what this store knew, and what was true."""

import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.features.history import snapshot as then
from holdfast.features.memories import store as memories
from holdfast.features.memories.store import Filter
from holdfast.features.recall.recall_log import RecallLog
from holdfast.kernel.context import Progress
from holdfast.kernel.errors import Invalid, OperationCancelled


@pytest.fixture
def hold(clocked_store: holdfast.Holdfast) -> holdfast.Holdfast:
    return clocked_store


def a_day(clock: Any) -> datetime:
    """Return a time between the last change and the next one."""
    at: datetime = clock.move(hours=12)
    clock.move(hours=12)
    return at


def recall_texts(ctx: Any, question: str = "office", **when: Any) -> list[str]:
    return sorted(hit.content for hit in ctx.recall(question, **when).memories)


def test_a_fact_changed_twice_is_recalled_as_known_at_each_time(hold: Any, clock: Any) -> None:
    before = a_day(clock)
    fact = hold.store(title="Place", content="The office is in Berlin.", tier="long").id
    times = [a_day(clock)]
    for city in ("Paris", "Rome"):
        hold.update(fact, content=f"The office is in {city}.")
        times.append(a_day(clock))
    hold.store(title="Other", content="The office is warm.", tier="long")
    assert [recall_texts(hold, known_at=at) for at in times] == [
        ["The office is in Berlin."],
        ["The office is in Paris."],
        ["The office is in Rome."],
    ]
    assert recall_texts(hold, known_at=before) == []
    assert (
        recall_texts(hold)
        == recall_texts(hold, known_at="2100-01-01")
        == ["The office is in Rome.", "The office is warm."]
    )


def test_a_past_text_is_found_by_its_past_words_and_not_by_current_ones(hold: Any, clock: Any) -> None:
    fact = hold.store(title="Place", content="It is in Berlin.", tier="long").id
    at = a_day(clock)
    hold.update(fact, content="It is in Rome.")
    assert recall_texts(hold, "Berlin", known_at=at) == ["It is in Berlin."]
    assert recall_texts(hold, "Rome", known_at=at) == recall_texts(hold, "Berlin") == []


def test_memories_deleted_since_are_present_and_those_restored_since_are_absent(hold: Any, clock: Any) -> None:
    kept = {name: hold.store(title=name, content=f"{name} office", tier="long").id for name in ("a", "b")}
    whole = a_day(clock)
    hold.delete(kept["a"])
    hold.archive(ids=[kept["b"]])
    without = a_day(clock)
    hold.undo(hold.history(kept["a"]).changes[-1].seq)
    hold.archive_restore(kept["b"])
    back = a_day(clock)
    assert [recall_texts(hold, known_at=at) for at in (whole, without, back)] == [
        ["a office", "b office"],
        [],
        ["a office", "b office"],
    ]
    assert recall_texts(hold, known_at=without, include_archived=True) == ["b office"]


def test_memories_expired_since_are_present(hold: Any, clock: Any) -> None:
    id = hold.store(title="Soon over", content="The office is closed today.", tier="short").id
    at = clock.move(hours=1)
    a_day(clock)
    hold.gc()
    assert (recall_texts(hold), recall_texts(hold, known_at=at)) == ([], ["The office is closed today."])
    hold.archive_restore(id)
    assert recall_texts(hold, known_at=at) == ["The office is closed today."]
    assert recall_texts(hold, known_at=clock.after(hours=-12)) == []


def test_a_memory_private_at_that_time_stays_private_in_the_past(hold: Any, seen_by: Any, clock: Any) -> None:
    other = seen_by("ai:other@there")
    secret = hold.store(title="Secret", content="The office moves.", scope="private", tier="long").id
    private = a_day(clock)
    hold.update(secret, scope="collective")
    shared = a_day(clock)
    hold.update(secret, priority=9)
    assert recall_texts(other, known_at=private) == []
    assert recall_texts(other, known_at=shared) == recall_texts(hold, known_at=private) == ["The office moves."]
    hold.update(secret, scope="private")
    assert recall_texts(other, known_at=shared) == []


def test_a_key_sees_no_more_of_the_past_than_of_the_present(hold: Any, seen_by: Any, clock: Any) -> None:
    moved = hold.store(title="Moved", content="The office moves.", namespace="team", tier="long").id
    at = a_day(clock)
    hold.update(moved, namespace="elsewhere")
    a_day(clock)
    for namespace in ("team", "elsewhere"):
        assert recall_texts(seen_by("ai:other@there", namespaces=(namespace,)), known_at=at) == []
    assert recall_texts(hold, known_at=at, namespace="team") == ["The office moves."]
    assert recall_texts(hold, known_at=at, namespace="elsewhere") == []


def test_purged_memories_never_reappear(hold: Any, clock: Any) -> None:
    id = hold.store(title="Secret", content="The office moves.", tier="long").id
    times = [a_day(clock)]
    hold.update(id, content="The office stays.")
    times.append(a_day(clock))
    hold.archive(ids=[id])
    times.append(a_day(clock))
    hold.archive_purge(ids=[id])
    for at in times:
        assert (
            recall_texts(hold, known_at=at, include_archived=True)
            == recall_texts(hold, as_of=at, include_archived=True)
            == []
        )


def test_validity_at_a_time_follows_the_dates_of_memories(hold: Any, clock: Any) -> None:
    office = hold.store(title="Place", content="The office is in Berlin.", valid_from="2020-01-01", tier="long").id
    hold.store(
        title="Old", content="The office was a barn.", valid_from="1990-01-01", valid_until="2000-01-01", tier="long"
    )
    hold.store(title="Note", content="The office is noisy.", tier="long")
    hold.update(office, content="The office is in Paris.", valid_from="2024-01-01")
    assert recall_texts(hold, as_of="1995-06-01") == ["The office was a barn."]
    assert recall_texts(hold, as_of="2022-06-01") == ["The office is in Berlin."]
    assert recall_texts(hold, as_of="2025-06-01") == ["The office is in Paris."]
    assert recall_texts(hold, as_of=a_day(clock)) == ["The office is in Paris.", "The office is noisy."]
    assert recall_texts(hold, as_of="1980-01-01") == []


def test_validity_at_a_time_can_be_combined_with_knowledge_at_another(hold: Any, clock: Any) -> None:
    office = hold.store(title="Place", content="The office is in Berlin.", valid_from="2020-01-01", tier="long").id
    before = a_day(clock)
    hold.update(office, content="The office is in Munich.")
    a_day(clock)
    assert recall_texts(hold, as_of="2022-06-01") == ["The office is in Munich."]
    assert recall_texts(hold, as_of="2022-06-01", known_at=before) == ["The office is in Berlin."]


def test_memories_no_longer_valid_at_a_time_are_left_out_even_if_changed_since(hold: Any, clock: Any) -> None:
    barn = hold.store(title="Old", content="The office was a barn.", valid_from="1990-01-01", valid_until="2000-01-01")
    before = a_day(clock)
    hold.update(barn.id, content="The office was a stable.")
    assert recall_texts(hold, as_of="1995-01-01", known_at=before) == ["The office was a barn."]
    assert recall_texts(hold, as_of="2005-01-01", known_at=before) == recall_texts(hold, as_of="2005-01-01") == []


def test_neighbours_of_a_hit_count_with_their_past_text(hold: Any, clock: Any) -> None:
    beside, _ = (
        hold.store(title=f"{n}", content=content, thread="talk", place=n, tier="long").id
        for n, content in enumerate(("Hello there.", "The office is in Berlin."))
    )
    at = a_day(clock)
    hold.update(beside, content="About the office:")
    (hit,) = hold.recall("office", known_at=at, explain=True).memories
    assert "before" not in hit.why.parts


def superseding(ctx: Any, id: str, **when: Any) -> Any:
    return {hit.id: hit.superseded_by for hit in ctx.recall("office", **when).memories}[id]


def test_a_later_supersession_does_not_apply_to_the_past(hold: Any, clock: Any) -> None:
    old = hold.store(title="Old", content="The office is in Berlin.", tier="long").id
    new = hold.store(title="New", content="The office is in Paris.", tier="long").id
    before = a_day(clock)
    hold.link(new, old, relation="supersedes")
    after = a_day(clock)
    hold.kg_invalidate(source_id=new, target_id=old, relation="supersedes")
    a_day(clock)
    times = ({"known_at": before}, {"known_at": after}, {"as_of": after}, {"as_of": before, "known_at": after}, {})
    assert [superseding(hold, old, **when) for when in times] == [None, new, new, None, None]


def test_a_link_written_later_was_unknown_then_whatever_its_dates(hold: Any, clock: Any) -> None:
    old = hold.store(title="Old", content="The office is in Berlin.", tier="long", valid_from="2020-01-01").id
    new = hold.store(title="New", content="The office is in Paris.", tier="long", valid_from="2020-01-01").id
    at = a_day(clock)
    hold.link(new, old, relation="supersedes", valid_from="2026-01-01")
    assert (superseding(hold, old, known_at=at), superseding(hold, old, as_of=at)) == (None, new)


def test_an_embedding_counts_for_the_past_only_while_the_text_is_unchanged(hold: Any, clock: Any) -> None:
    near = {"model": "own", "vector": [1, 0]}
    same = hold.store(title="same", content="north", embedding=near, tier="long").id
    other = hold.store(title="other", content="up", embedding=near, tier="long").id
    at = a_day(clock)
    hold.update(same, priority=9)
    hold.update(other, content="upwards", embedding=near)
    answer = hold.recall("which way is up?", known_at=at, embedding=near, explain=True)
    assert {hit.id: (hit.priority, hit.why.cosine) for hit in answer.memories} == {same: (5, 1.0), other: (5, None)}


def test_the_answer_names_its_time_and_does_not_count_as_access(hold: Any, clock: Any) -> None:
    hold.store(title="Place", content="The office is in Berlin.", tier="long")
    at = a_day(clock)
    answer = hold.recall("office", as_of=at, known_at="2026-02-01")
    assert (answer.as_of, answer.known_at, answer.recall_id) == (at, datetime(2026, 2, 1, tzinfo=UTC), None)
    assert hold.recall("office").as_of is None
    assert len(hold.ctx.local[RecallLog].drain()) == 1


def test_an_invalid_time_is_refused(hold: Any) -> None:
    for when in ({"as_of": "yesterday"}, {"known_at": "2026-13-01"}):
        with pytest.raises(Invalid):
            hold.recall("office", **when)


def test_a_context_block_can_show_another_time(hold: Any, clock: Any) -> None:
    fact = hold.store(title="Place", content="The office is in Berlin.", tier="long").id
    at = a_day(clock)
    hold.update(fact, content="The office is in Rome.")
    block = hold.context("where is the office?", known_at=at)
    assert (block.cited, block.known_at) == ([fact], at)
    assert "Berlin" in block.text
    assert "Rome" not in block.text


def test_a_block_of_the_past_shows_nothing_written_later(hold: Any, clock: Any) -> None:
    old = hold.store(title="Old", content="The office is in Berlin.", tier="long").id
    new = hold.store(title="New", content="We moved on.", tier="long").id
    hold.link(new, old, relation="supersedes")
    at = a_day(clock)
    hold.update(new, content="We moved to Rome.")
    assert "Rome" in hold.context("where is the office?").text
    assert "Rome" not in hold.context("where is the office?", known_at=at).text


def test_past_recall_finds_the_best_of_many_changed_memories_and_can_be_cancelled(
    hold: Any, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(then, "ROWS_PER_SCAN", 7)
    monkeypatch.setattr(then, "PAGE_SIZE", 3)
    many = [{"title": f"{n}", "content": f"Some office number {n}.", "tier": "long"} for n in range(40)]
    many[20]["content"] = "The office of the director."
    ids = hold.bulk_store(memories=many).ids
    at = a_day(clock)
    for id in ids:
        hold.update(id, content="All gone.")
    assert hold.recall("director's office", known_at=at).memories[0].id == ids[20]
    assert hold.recall("office", known_at=at, limit=50).count == 40
    stop = threading.Event()
    stop.set()
    with pytest.raises(OperationCancelled):
        hold.call("recall", {"context": "office", "known_at": at.isoformat()}, progress=Progress(stop=stop))


FILTERS = st.builds(
    Filter,
    namespace=st.sampled_from([None, "a", "a/b"]),
    namespaces=st.sampled_from([(), ("a",), ("a", "a/b")]),
    under=st.sampled_from([None, "a", "a/b/c"]),
    tier=st.sampled_from([None, "mid", "long"]),
    agent=st.sampled_from([None, "ai:tester@here", "x"]),
    min_priority=st.sampled_from([None, 5, 6]),
    since=st.sampled_from([None, 0, 1 << 60]),
    until=st.sampled_from([None, 0, 1 << 60]),
    tags=st.sampled_from([(), ("x",), ("x", "y")]),
    kinds=st.sampled_from([(), ("fact",), ("fact", "observation")]),
    has_citations=st.booleans(),
    source_uri=st.sampled_from([None, "doc:manual"]),
    source_uri_prefix=st.sampled_from([None, "", "doc:", "doc:manual", "file:"]),
    confidence=st.sampled_from([None, (0.95, 2.0), (0.7, 0.95)]),
    as_agent=st.sampled_from([None, "a", "a/b/c", "a/b/c/d"]),
    archived=st.booleans(),
)


@pytest.fixture
def shelf(hold: Any, clock: Any) -> Any:
    """Memories that differ in every field of a filter."""
    cited = [{"uri": "doc:manual", "accessed_at": "2026-01-01"}]
    hold.bulk_store(
        memories=[
            {"title": "1", "content": "x", "namespace": "a", "tags": ["x"], "kind": "fact", "tier": "long"},
            {"title": "2", "content": "x", "namespace": "a/b", "tags": ["x", "y"], "priority": 6, "scope": "team"},
            {"title": "3", "content": "x", "namespace": "a/b/c", "scope": "private", "confidence": 0.8, "tier": "mid"},
            {"title": "4", "content": "x", "namespace": "ab", "source_uri": "doc:manual", "citations": cited},
            {"title": "5", "content": "x", "namespace": "a", "scope": "org", "tier": "short"},
            {"title": "6", "content": "x", "namespace": "a/b", "scope": "unit"},
            {"title": "7", "content": "x", "namespace": "a"},
        ]
    )
    hold.archive(ids=[hold.search("6").results[0].id])
    hold.delete(hold.search("7").results[0].id)
    a_day(clock)
    return hold


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(which=FILTERS)
@example(which=Filter())
@example(which=Filter(archived=True))
def test_a_past_state_is_filtered_exactly_like_an_sql_row(shelf: Any, which: Filter) -> None:
    ctx = shelf.ctx
    now = ctx.now()
    with ctx.reading() as session:
        rows = memories.select(session, ctx.caller, Filter(), now, limit=50, view="any")
        passed = {memory.id for memory in memories.select(session, ctx.caller, which, now, limit=50)}
    assert len(rows) == 7
    assert {memory.id for memory in rows if then.matches_filter(memory, which, now)} == passed
