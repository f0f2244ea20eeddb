"""Update a memory: optimistic locking, tiers that only rise, unique titles."""

import threading
from typing import Any

import pytest

import holdfast
from holdfast.kernel.errors import Forbidden, HoldfastError, Invalid, NotFound, TitleTaken, VersionConflict
from holdfast.kernel.timestamps import format_datetime


@pytest.fixture
def hold(clocked_store: holdfast.Holdfast) -> holdfast.Holdfast:
    return clocked_store


@pytest.fixture
def plan(hold: Any) -> Any:
    return hold.store(title="Plan", content="first", tags=["a"], metadata={"k": 1}, namespace="team", tier="mid")


def plain(answer: Any) -> Any:
    return answer.to_dict()


CHANGES: dict[str, dict[str, Any]] = {
    "title": {"title": "Other"},
    "content": {"content": "second"},
    "namespace": {"namespace": "team/sub"},
    "tier": {"tier": "long"},
    "tags": {"tags": ["b", "c"]},
    "no-tags": {"tags": []},
    "priority": {"priority": 9},
    "confidence": {"confidence": 0.25},
    "kind": {"kind": "decision"},
    "category": {"category": "bugfix"},
    "scope": {"scope": "team"},
    "metadata": {"metadata": {"l": [True, None]}},
    "no-metadata": {"metadata": {}},
    "citations": {"citations": [{"uri": "doc:a", "accessed_at": "2026-01-31"}]},
    "source_uri": {"source_uri": "doc:a"},
    "source_span": {"source_span": {"start": 0, "end": 5}},
    "expires_at": {"expires_at": "2026-12-31T00:00:00.000000Z"},
    "valid_from": {"valid_from": "2025-01-01T00:00:00.000000Z"},
    "valid_until": {"valid_until": "2027-01-01T00:00:00.000000Z"},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_is_visible_bumps_the_version_and_leaves_everything_else(
    hold: Any, plan: Any, clock: Any, change: dict[str, Any]
) -> None:
    at = clock.move(seconds=5)
    before = plain(hold.get(plan.id))
    changed = plain(hold.update(plan.id, **change))
    expected = before | change | {"version": 2, "updated_at": format_datetime(at)}
    if "kind" in change:
        expected["memory_kind"] = expected.pop("kind")
    if "tier" in change:
        del expected["expires_at"]
    assert plain(hold.get(plan.id)) == changed | {"links": []} == expected


def test_an_update_without_changes_changes_nothing(hold: Any, plan: Any, clock: Any) -> None:
    clock.move(seconds=5)
    same = hold.update(plan.id, content="first", priority=5, tags=["a"])
    assert (same.version, same.updated_at) == (1, plan.updated_at)
    assert hold.update(plan.id).version == 1
    assert hold.history(plan.id).count == 1


@pytest.mark.parametrize("wrong", [2, 99], ids=["next", "far"])
def test_a_stale_expected_version_is_a_conflict_that_names_both(hold: Any, plan: Any, wrong: int) -> None:
    with pytest.raises(VersionConflict) as refused:
        hold.update(plan.id, content="second", expected_version=wrong)
    assert refused.value.details == {
        "id": plan.id,
        "expected_version": wrong,
        "current_version": 1,
        "status": "conflict",
    }
    assert hold.get(plan.id).content == "first"


def test_recall_search_list_and_get_return_the_version_to_expect(hold: Any, plan: Any) -> None:
    hold.update(plan.id, content="second deploy")
    told = [
        hold.get(plan.id).version,
        hold.list().memories[0].version,
        hold.search("deploy").results[0].version,
        hold.recall("deploy").memories[0].version,
    ]
    assert told == [2, 2, 2, 2]
    assert hold.update(plan.id, content="third", expected_version=told[-1]).version == 3


def test_a_merge_bumps_the_version_for_the_optimistic_lock(hold: Any, plan: Any) -> None:
    hold.store(title="Plan", content="merged", namespace="team")
    with pytest.raises(VersionConflict):
        hold.update(plan.id, content="second", expected_version=plan.version)


def test_only_one_of_eight_changes_expecting_the_same_version_succeeds(hold: Any, plan: Any) -> None:
    start = threading.Barrier(8)
    results: list[str] = []

    def change(number: int) -> None:
        start.wait()
        try:
            results.append(hold.update(plan.id, content=f"by {number}", expected_version=1).content)
        except HoldfastError as error:
            results.append(error.code)

    threads = [threading.Thread(target=change, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winner = hold.get(plan.id)
    assert (winner.version, sorted(results)) == (2, sorted([winner.content] + ["VERSION_CONFLICT"] * 7))


def test_a_taken_title_is_refused_and_the_error_names_its_memory(hold: Any, plan: Any) -> None:
    other = hold.store(title="Other", content="x", namespace="team")
    for change in ({"title": "Plan"}, {"title": " Plan "}):
        with pytest.raises(TitleTaken) as refused:
            hold.update(other.id, **change)
        assert refused.value.details == {"existing_id": plan.id}
    elsewhere = hold.store(title="Plan", content="x", namespace="other")
    with pytest.raises(TitleTaken):
        hold.update(elsewhere.id, namespace="team")


def test_a_released_title_can_be_taken(hold: Any, plan: Any) -> None:
    other = hold.store(title="Other", content="x", namespace="team")
    hold.update(plan.id, title="Moved")
    assert hold.update(other.id, title="Plan").title == "Plan"


def test_raising_a_tier_by_update_gives_the_lifetime_of_that_tier(hold: Any, clock: Any) -> None:
    short = hold.store(title="s", content="x", tier="short")
    assert hold.update(short.id, tier="mid").expires_at == clock.after(days=7)
    assert hold.update(short.id, tier="long").expires_at is None


def test_raising_a_tier_never_shortens_a_lifetime(hold: Any) -> None:
    short = hold.store(title="s", content="x", tier="short", expires_at="2027-01-01")
    assert hold.update(short.id, tier="mid").expires_at == short.expires_at


def test_a_tier_is_never_lowered(hold: Any, plan: Any) -> None:
    with pytest.raises(Invalid) as refused:
        hold.update(plan.id, tier="short")
    assert refused.value.details == {"fields": ["tier"]}


def test_promoting_to_long_removes_the_expiry_and_survives_every_collection(hold: Any, plan: Any, clock: Any) -> None:
    promoted = hold.promote(plan.id)
    assert (promoted.tier, promoted.expires_at, promoted.version) == ("long", None, 2)
    clock.move(days=4000)
    assert hold.gc().collected == 0
    assert hold.list().count == 1


def test_promoting_a_long_term_memory_removes_its_expiry(hold: Any) -> None:
    kept = hold.store(title="Plan", content="first", tier="long", ttl_secs=3600)
    promoted = hold.promote(kept.id)
    assert (promoted.tier, promoted.expires_at, promoted.version) == ("long", None, 2)
    assert hold.promote(kept.id).version == 2


def test_promotion_to_mid_is_possible_but_not_to_a_lower_tier(hold: Any, plan: Any, clock: Any) -> None:
    short = hold.store(title="s", content="x", tier="short")
    assert hold.promote(short.id, target_tier="mid").expires_at == clock.after(days=7)
    hold.promote(plan.id)
    with pytest.raises(Invalid):
        hold.promote(plan.id, target_tier="mid")


def test_a_key_copies_a_memory_only_within_its_namespaces(hold: Any, seen_by: Any) -> None:
    local = hold.store(title="Rule", content="x", namespace="org/team")
    with pytest.raises(Forbidden):
        seen_by("ai:key@here", right="write", namespaces=("org/team",)).promote(local.id, to_namespace="org")


@pytest.mark.parametrize("never", [None, ""], ids=["null", "empty"])
def test_an_expiry_can_be_removed(hold: Any, plan: Any, never: str | None) -> None:
    assert hold.update(plan.id, expires_at=never).expires_at is None


def test_an_end_in_the_past_is_refused(hold: Any, plan: Any) -> None:
    with pytest.raises(Invalid) as refused:
        hold.update(plan.id, expires_at="2026-01-31T08:59:59Z")
    assert refused.value.details == {"fields": ["expires_at"]}


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("content", {"content": "   "}),
        ("content", {"content": "\U0001f600" * 16_385}),
        ("title", {"title": "é" * 257}),
        ("namespace", {"namespace": "a/../b"}),
        ("tags", {"tags": ["a\x00b"]}),
        ("metadata", {"metadata": {"k": float("inf")}}),
        ("metadata.scope", {"metadata": {"scope": "public"}}),
        ("source_uri", {"source_uri": "http://a"}),
        ("source_span", {"source_span": {"start": 5, "end": 5}}),
        ("citations.accessed_at", {"citations": [{"uri": "doc:a", "accessed_at": "lately"}]}),
        ("valid_until", {"valid_from": "2026-01-02", "valid_until": "2026-01-01"}),
        ("priority", {"priority": 11}),
        ("expires_at", {"expires_at": "soon"}),
    ],
)
def test_a_patch_is_validated_like_a_store(hold: Any, plan: Any, field: str, change: dict[str, Any]) -> None:
    before = hold.get(plan.id)
    with pytest.raises(Invalid) as refused:
        hold.update(plan.id, **change)
    assert refused.value.details == {"fields": [field]}
    assert hold.get(plan.id) == before


def test_a_scope_in_the_metadata_of_a_patch_is_honoured(hold: Any, plan: Any) -> None:
    forged = {"scope": "private", "agent_id": "ai:other@here", "imported_from_agent_id": "ai:king@here"}
    changed = hold.update(plan.id, metadata={**forged, "mine": 1})
    assert (changed.scope, changed.agent_id, changed.metadata) == ("private", "ai:tester@here", {"mine": 1})


@pytest.mark.parametrize("away", ["delete", "archive", "expire"])
def test_only_a_live_memory_can_be_changed(hold: Any, plan: Any, clock: Any, away: str) -> None:
    match away:
        case "delete":
            hold.delete(plan.id)
        case "archive":
            hold.archive(ids=[plan.id])
        case "expire":
            clock.move(days=8)
    with pytest.raises(NotFound):
        hold.update(plan.id, content="second")
    with pytest.raises(NotFound):
        hold.promote(plan.id)


def test_any_agent_can_change_a_shared_memory_and_its_owner_stays(hold: Any, plan: Any, seen_by: Any) -> None:
    changed = seen_by("ai:other@here").update(plan.id, content="second")
    assert (changed.agent_id, hold.history(plan.id).changes[-1].actor) == ("ai:tester@here", "ai:other@here")


@pytest.mark.parametrize("grant", [None, "read"])
def test_a_private_memory_of_another_agent_is_not_found_or_forbidden(
    hold: Any, plan: Any, seen_by: Any, grant: str | None
) -> None:
    hold.update(plan.id, scope="private")
    if grant:
        hold.grant(plan.id, agent_id="ai:other@here", permission=grant)
    with pytest.raises(Forbidden if grant else NotFound):
        seen_by("ai:other@here").update(plan.id, content="second")
    assert hold.get(plan.id).content == "first"


def test_only_the_owner_and_admin_grantees_change_the_scope_of_a_memory(hold: Any, plan: Any, seen_by: Any) -> None:
    """A write grant does not allow publishing."""
    hold.update(plan.id, scope="private")
    other = seen_by("ai:other@here")
    hold.grant(plan.id, agent_id="ai:other@here", permission="write")
    assert other.update(plan.id, content="second").content == "second"
    for publish in ({"scope": "collective"}, {"metadata": {"scope": "team"}}):
        with pytest.raises(Forbidden):
            other.update(plan.id, **publish)
    with pytest.raises(Forbidden):
        other.store(title="Plan", content="third", namespace="team", scope="collective")
    hold.grant(plan.id, agent_id="ai:other@here", permission="admin")
    assert other.update(plan.id, scope="collective").scope == "collective"


def test_only_the_owner_hides_a_shared_memory(hold: Any, plan: Any, seen_by: Any) -> None:
    with pytest.raises(Forbidden):
        seen_by("ai:other@here").update(plan.id, scope="private")


def test_a_key_moves_a_memory_only_within_its_namespaces(hold: Any, plan: Any, seen_by: Any) -> None:
    team = seen_by("ai:key@here", right="write", namespaces=("team",))
    assert team.update(plan.id, namespace="team/sub").namespace == "team/sub"
    with pytest.raises(Forbidden):
        team.update(plan.id, namespace="teams")
    elsewhere = hold.store(title="x", content="x", namespace="teams")
    with pytest.raises(NotFound):
        team.update(elsewhere.id, content="y")
