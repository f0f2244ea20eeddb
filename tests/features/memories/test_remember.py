"""Store a memory: titles, merging, and durability."""

import subprocess
import sys
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

import holdfast
from holdfast.kernel.context import Caller
from holdfast.kernel.errors import Forbidden, HoldfastError, TitleTaken


@pytest.fixture
def hold(clocked_store: holdfast.Holdfast) -> holdfast.Holdfast:
    return clocked_store


def fields(answer: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(answer, name) for name in names}


def test_a_stored_memory_is_readable_at_once_by_id_list_search_and_recall(hold: Any) -> None:
    stored = hold.store(title="Deploy day", content="We deploy on Tuesdays.", tags=["ops"])
    assert hold.get(stored.id).content == "We deploy on Tuesdays."
    assert [one.id for one in hold.list().memories] == [stored.id]
    assert [one.id for one in hold.search("deploy tuesdays").results] == [stored.id]
    assert [one.id for one in hold.recall("when do we deploy?").memories] == [stored.id]


def test_stored_memories_survive_reopening(db: str, hold: Any) -> None:
    stored = hold.store(title="Deploy day", content="We deploy on Tuesdays.")
    hold.close()
    with holdfast.open(db) as again:
        assert again.get(stored.id).content == "We deploy on Tuesdays."


def test_a_store_on_one_handle_is_visible_to_another_at_once(db: str, hold: Any, clock: Any) -> None:
    with holdfast.open(db, now=clock) as other:
        stored = hold.store(title="Deploy day", content="We deploy on Tuesdays.")
        assert [one.id for one in other.recall("deploy").memories] == [stored.id]


def test_a_title_is_trimmed_and_normalised_before_it_is_compared(hold: Any) -> None:
    first = hold.store(title="Café", content="one")
    assert hold.store(title=" Cafe\u0301 ", content="two").id == first.id
    assert hold.list().count == 1


def test_the_same_title_in_another_namespace_is_another_memory(hold: Any) -> None:
    here, there = (hold.store(title="Plan", content="x", namespace=name) for name in ("a", "a/b"))
    assert here.id != there.id


def test_on_conflict_error_refuses_a_taken_title_and_names_its_memory(hold: Any) -> None:
    held = hold.store(title="Plan", content="first")
    with pytest.raises(TitleTaken) as refused:
        hold.store(title="Plan", content="second", on_conflict="error")
    assert refused.value.details == {"existing_id": held.id}
    assert hold.get(held.id).content == "first"


def test_on_conflict_version_numbers_a_taken_title(hold: Any) -> None:
    titles = [hold.store(title="Plan", content=f"{n}", on_conflict="version").title for n in range(3)]
    assert titles == ["Plan", "Plan (2)", "Plan (3)"]


@pytest.mark.parametrize("title", ["x" * 512, "é" * 256], ids=["ascii", "two-bytes"])
def test_a_number_suffix_does_not_make_a_title_too_long(hold: Any, title: str) -> None:
    titles = [hold.store(title=title, content=f"{n}", on_conflict="version").title for n in range(3)]
    assert [len(made.encode()) for made in titles] == [512, 512, 512]
    assert [made[-4:] for made in titles[1:]] == [" (2)", " (3)"]
    assert title.startswith(titles[1][:-4])


def test_merging_replaces_the_content_unites_tags_and_never_lowers_values(hold: Any) -> None:
    held = hold.store(
        title="Plan",
        content="first",
        tags=["a", "b"],
        metadata={"k": 1, "l": 1},
        priority=7,
        tier="long",
        speaker="Ada",
    )
    merged = hold.store(
        title="Plan",
        content="second",
        tags=["b", "c"],
        metadata={"l": 2, "m": 3},
        priority=3,
        tier="short",
        confidence=0.5,
    )
    assert (merged.id, merged.outcome, merged.version) == (held.id, "merged", 2)
    assert fields(hold.get(held.id), "content", "tags", "metadata", "priority", "tier", "confidence", "speaker") == {
        "content": "second",
        "tags": ("a", "b", "c"),
        "metadata": {"k": 1, "l": 2, "m": 3},
        "priority": 7,
        "tier": "long",
        "confidence": 0.5,
        "speaker": "Ada",
    }


def test_merging_never_changes_the_owner_or_the_source(hold: Any, seen_by: Any) -> None:
    held = hold.store(title="Plan", content="first", source="user")
    merged = seen_by("ai:other@here").store(title="Plan", content="second", source="hook")
    assert (merged.id, merged.agent_id, merged.source) == (held.id, "ai:tester@here", "user")


def test_every_effective_merge_bumps_the_version(hold: Any) -> None:
    versions = [hold.store(title="Plan", content=text).version for text in ("a", "b", "b", "c")]
    assert versions == [1, 2, 2, 3]


def test_storing_the_same_again_is_unchanged(hold: Any) -> None:
    first = hold.store(title="Plan", content="same", tags=["a"])
    again = hold.store(title="Plan", content="same", tags=["a"])
    assert (again.id, again.outcome, again.version) == (first.id, "unchanged", 1)
    assert hold.history(first.id).count == 1


@pytest.mark.parametrize(
    ("tier", "days_later", "lives"), [("short", 0, {"hours": 6}), ("mid", 3, {"days": 7})], ids=["short", "mid"]
)
def test_merging_without_a_tier_renews_the_lifetime_of_the_current_tier(
    hold: Any, clock: Any, tier: str, days_later: int, lives: dict[str, int]
) -> None:
    hold.store(title="Plan", content="first", tier=tier)
    clock.move(days=days_later, hours=1)
    merged = hold.store(title="Plan", content="second")
    assert (merged.tier, merged.expires_at) == (tier, clock.after(**lives))


def test_merging_never_shortens_a_lifetime(hold: Any, clock: Any) -> None:
    held = hold.store(title="Plan", content="first", expires_at="2026-12-31")
    assert hold.store(title="Plan", content="second", ttl_secs=60).expires_at == held.expires_at


def test_storing_a_long_term_memory_again_with_an_end_moves_the_end_and_keeps_one(hold: Any, clock: Any) -> None:
    hold.store(title="Plan", content="first", tier="long", ttl_secs=3600)
    assert hold.store(title="Plan", content="second", ttl_secs=60).expires_at == clock.after(hours=1)
    assert hold.store(title="Plan", content="third", ttl_secs=7200).expires_at == clock.after(hours=2)
    assert hold.store(title="Plan", content="fourth").expires_at is None


def test_merging_into_the_long_tier_removes_the_expiry(hold: Any) -> None:
    hold.store(title="Plan", content="first", tier="short")
    merged = hold.store(title="Plan", content="second", tier="long")
    assert (merged.tier, merged.expires_at) == ("long", None)


def test_the_title_of_an_expired_memory_can_be_stored_again(hold: Any, clock: Any) -> None:
    old = hold.store(title="Plan", content="first", tier="short")
    clock.move(hours=7)
    new = hold.store(title="Plan", content="second", on_conflict="error")
    assert (new.outcome, new.id != old.id) == ("created", True)
    assert [one.id for one in hold.list().memories] == [new.id]
    assert [one.id for one in hold.archive_list().archived] == [old.id]


@pytest.mark.parametrize("away", ["delete", "archive"])
def test_the_title_of_a_deleted_memory_can_be_stored_again(hold: Any, away: str) -> None:
    old = hold.store(title="Plan", content="first")
    hold.delete(old.id) if away == "delete" else hold.archive(ids=[old.id])
    assert hold.store(title="Plan", content="second", on_conflict="error").id != old.id


def test_bulk_store_returns_an_outcome_per_item_and_stores_the_valid_ones(hold: Any) -> None:
    hold.store(title="Taken", content="old")
    answer = hold.bulk_store(
        memories=[
            {"title": "New", "content": "x"},
            {"title": "Taken", "content": "new"},
            {"title": "Taken", "content": "other", "on_conflict": "error"},
            {"title": "Blank", "content": "  "},
            {"title": "Late", "content": "x", "expires_at": "yesterday"},
        ]
    )
    assert [one.outcome for one in answer.outcomes] == ["created", "merged", "rejected", "rejected", "rejected"]
    assert [one.code for one in answer.errors] == ["TITLE_TAKEN", "VALIDATION_FAILED", "VALIDATION_FAILED"]
    assert sorted(one.title for one in hold.list().memories) == ["New", "Taken"]
    assert hold.search("new").count == 2


def test_bulk_store_merges_exactly_like_a_single_store(hold: Any) -> None:
    item = {"content": "second", "tags": ["b"], "metadata": {"l": 2}, "priority": 3, "tier": "short"}
    for title in ("Single", "Bulk"):
        hold.store(title=title, content="first", tags=["a"], metadata={"k": 1}, priority=7)
    hold.store(title="Single", **item)
    hold.bulk_store(memories=[{"title": "Bulk", **item}])
    single, bulk = sorted(hold.list().memories, key=lambda one: one.title, reverse=True)
    names = ("content", "tags", "metadata", "priority", "tier", "expires_at", "version", "source", "agent_id")
    assert fields(single, *names) == fields(bulk, *names)


def test_a_bulk_item_overrides_the_on_conflict_of_the_batch(hold: Any) -> None:
    hold.store(title="Plan", content="first")
    items = [{"title": "Plan", "content": "second", "on_conflict": "merge"}, {"title": "Plan", "content": "third"}]
    answer = hold.bulk_store(memories=items, on_conflict="version")
    assert [one.outcome for one in answer.outcomes] == ["merged", "created"]
    assert sorted(one.title for one in hold.list().memories) == ["Plan", "Plan (2)"]


def test_a_bulk_store_has_one_agent(hold: Any) -> None:
    mine, other = {"title": "a", "content": "x"}, {"title": "b", "content": "x", "agent_id": "ai:other@here"}
    answer = hold.bulk_store(memories=[mine, other])
    assert [one.outcome for one in answer.outcomes] == ["created", "rejected"]
    hold.bulk_store(memories=[other], agent_id="ai:other@here")
    assert {one.title: one.agent_id for one in hold.list().memories} == {"a": "ai:tester@here", "b": "ai:other@here"}


def test_ownership_claims_in_metadata_are_ignored(hold: Any) -> None:
    forged = {"agent_id": "ai:boss@here", "imported_from_agent_id": "ai:king@here"}
    stored = hold.store(title="Plan", content="x", metadata={**forged, "created_at": "1999-01-01"})
    assert (stored.agent_id, stored.metadata) == ("ai:tester@here", {"created_at": "1999-01-01"})
    assert stored.created_at == datetime(2026, 1, 31, 9, tzinfo=UTC)


def test_a_title_taken_by_a_private_memory_does_not_reveal_it(hold: Any, seen_by: Any) -> None:
    secret = hold.store(title="Plan", content="CANARY", scope="private")
    for mode in ("merge", "error"):
        with pytest.raises(TitleTaken) as refused:
            seen_by("ai:other@here").store(title="Plan", content="mine", on_conflict=mode)
        assert secret.id not in str(refused.value.to_json())
    assert hold.get(secret.id).content == "CANARY"


def test_a_title_is_numbered_beside_a_private_title_of_another_agent(hold: Any, seen_by: Any) -> None:
    hold.store(title="Plan", content="CANARY", scope="private")
    assert seen_by("ai:other@here").store(title="Plan", content="mine", on_conflict="version").title == "Plan (2)"


def test_a_key_stores_only_within_its_namespaces_including_the_default_one(hold: Any, seen_by: Any) -> None:
    team = seen_by("ai:key@here", right="write", namespaces=("team",))
    assert team.store(title="a", content="x", namespace="team/sub").namespace == "team/sub"
    for where in ({}, {"namespace": "teams"}, {"namespace": "global"}):
        with pytest.raises(Forbidden):
            team.store(title="b", content="x", **where)
        refused = team.bulk_store(memories=[{"title": "b", "content": "x", **where}])
        assert [one.code for one in refused.errors] == ["FORBIDDEN"]
    assert hold.list().count == 1


def test_each_item_of_a_batch_has_its_own_outcome_whatever_is_wrong_with_it(hold: Any) -> None:
    given: list[dict[str, Any]] = [
        {"title": "Good", "content": "kept"},
        {"title": "", "content": "no title"},
        {"title": "No content"},
        {"title": "Odd", "content": "x", "colour": "red"},
        {"title": "Wrong", "content": "x", "priority": 11},
        {"title": "Blank", "content": "  "},
        {"title": "Also good", "content": "kept", "priority": 9.0},
    ]
    answer = hold.bulk_store(memories=given)
    assert [one.outcome for one in answer.outcomes] == ["created", *["rejected"] * 5, "created"]
    assert [one.code for one in answer.errors] == ["VALIDATION_FAILED"] * 5
    assert ["colour" in str(one.error) for one in answer.errors] == [False, False, True, False, False]
    assert sorted(memory.title for memory in hold.list().memories) == ["Also good", "Good"]


def test_the_same_title_stored_by_many_threads_is_one_memory(hold: Any) -> None:
    start = threading.Barrier(64)
    outcomes: list[str] = []

    def store(number: int) -> None:
        start.wait()
        outcomes.append(hold.store(title="Plan", content=f"by {number}").outcome)

    threads = [threading.Thread(target=store, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["created"] + ["merged"] * 63
    [only] = hold.list().memories
    assert only.version == 64
    assert hold.verify().intact


def test_a_race_for_a_title_has_one_winner_and_the_others_fail(hold: Any) -> None:
    start = threading.Barrier(16)
    results: list[str] = []

    def store(number: int) -> None:
        start.wait()
        try:
            results.append(hold.store(title="Plan", content=f"by {number}", on_conflict="error").outcome)
        except HoldfastError as error:
            results.append(error.code)

    threads = [threading.Thread(target=store, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == ["TITLE_TAKEN"] * 15 + ["created"]


PROCESS = """
import sys, holdfast
with holdfast.open(sys.argv[1]) as hold:
    sys.stdin.read()
    for n in range(8):
        hold.store(title="Plan", content=f"{sys.argv[2]}.{n}")
"""


def test_the_same_title_stored_by_eight_processes_is_one_memory(db: str) -> None:
    command = [sys.executable, "-c", PROCESS, db]
    racing = [
        subprocess.Popen([*command, str(n)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for n in range(8)
    ]
    for process in racing:
        assert process.stdin
        process.stdin.close()
        process.stdin = None
    assert [process.communicate() for process in racing] == [(b"", b"")] * 8
    with holdfast.open(db) as hold:
        [only] = hold.list().memories
        assert only.version == 64
        assert hold.verify().intact


def test_a_read_only_caller_stores_nothing(hold: Any) -> None:
    with pytest.raises(Forbidden):
        hold.call("store", {"title": "Plan", "content": "x"}, caller=Caller("ai:reader@here", right="read"))
    assert hold.list().count == 0
