"""why-not: the reason that a memory is not a hit, from the code that excluded it."""

from typing import Any

import pytest

import holdfast
from holdfast.features.memories.store import AccessLog
from holdfast.features.recall import lexical_hits
from holdfast.kernel.errors import NotFound

SAYING = "We deploy on Tuesdays."


@pytest.fixture
def hold(clocked_store: holdfast.Holdfast) -> holdfast.Holdfast:
    return clocked_store


def codes(told: Any) -> list[str]:
    return [reason.code for reason in told.reasons]


def test_a_returned_memory_is_reported_with_its_rank_and_features(hold: Any) -> None:
    hold.store(title="Deploy day", content=SAYING)
    lunch = hold.store(title="Lunch", content="On Tuesdays we have soup.").id
    told = hold.why_not(lunch, "when do we deploy on Tuesdays?")
    hit = hold.recall("when do we deploy on Tuesdays?", explain=True).memories[told.place - 1]
    assert (told.returned, codes(told), hit.id) == (True, ["returned"], lunch)
    assert told.why == hit.why


def test_why_not_does_not_count_as_access(hold: Any) -> None:
    id = hold.store(title="Deploy day", content=SAYING).id
    hold.why_not(id, "deploy")
    assert hold.ctx.local[AccessLog].drain() == {}


OUTSIDE: dict[str, dict[str, Any]] = {
    "namespaces": {"namespace": "team/a"},
    "tags": {"tags": ["ops", "day"]},
    "kinds": {"kinds": ["fact", "decision"]},
    "tier": {"tier": "mid"},
    "since": {"since": "2026-02-01"},
    "until": {"until": "2026-01-01"},
    "has_citations": {"has_citations": True},
    "source_uri_prefix": {"source_uri_prefix": "doc:man"},
    "confidence": {"confidence_tier": "ambiguous"},
    "as_agent": {"as_agent": "elsewhere/unit/team"},
}


@pytest.mark.parametrize(("code", "filters"), OUTSIDE.items(), ids=OUTSIDE.keys())
def test_the_filter_excluding_a_memory_is_named(hold: Any, code: str, filters: dict[str, Any]) -> None:
    id = hold.store(title="Deploy day", content=SAYING, namespace="team/b", scope="team", tags=["ops"]).id
    told = hold.why_not(id, "deploy", **filters)
    assert hold.recall("deploy", **filters).count == 0
    assert (told.returned, codes(told), told.why) == (False, [code], None)
    assert told.reasons[0].message.endswith(".")


def test_every_excluding_filter_is_named_and_no_other(hold: Any) -> None:
    id = hold.store(title="Deploy day", content=SAYING, namespace="team", tags=["ops"]).id
    filters = {"namespace": "team", "tags": ["ops", "a", "b"], "tier": "mid", "since": "2026-01-01"}
    assert codes(hold.why_not(id, "deploy", **filters)) == ["tier", "tags", "tags"]


def test_the_state_of_a_memory_is_a_reason_too(hold: Any, clock: Any) -> None:
    ids = {title: hold.store(title=title, content=SAYING, tier="short").id for title in ("a", "b", "c")}
    hold.archive(ids=[ids["a"]])
    hold.delete(ids["b"])
    clock.move(days=1)
    assert [codes(hold.why_not(id, "deploy")) for id in ids.values()] == [["archived"], ["deleted"], ["expired"]]
    told = [hold.why_not(id, "deploy", include_archived=True) for id in ids.values()]
    assert [codes(one) for one in told] == [["returned"], ["deleted"], ["returned"]]


def test_a_standard_is_not_repeated_among_the_hits(hold: Any) -> None:
    id = hold.store(title="How we deploy", content=SAYING, namespace="team").id
    hold.namespace_set_standard(namespace="team", id=id)
    assert codes(hold.why_not(id, "deploy", namespace="team")) == ["standard"]
    assert codes(hold.why_not(id, "deploy")) == ["returned"]


def test_a_memory_beyond_the_limit_is_reported_with_its_rank_and_both_scores(hold: Any) -> None:
    for number in range(4):
        hold.store(title=f"Plan {number}", content=f"We deploy with plan {number} on day {number}.", priority=9)
    last = hold.store(title="Other", content="They seldom deploy, which is said at some length here.", priority=1).id
    told = hold.why_not(last, "how do we deploy?", limit=2)
    hits = hold.recall("how do we deploy?", limit=2, explain=True).memories
    assert (told.returned, codes(told), told.place) == (False, ["limit"], 5)
    assert told.score == told.why.score < told.last_score == hits[-1].why.score
    assert hold.recall("how do we deploy?", limit=5).memories[told.place - 1].id == last


def test_a_duplicate_of_a_hit_names_that_hit(hold: Any) -> None:
    first = hold.store(title="first", content="We deploy on every Tuesday at nine sharp.", priority=9).id
    second = hold.store(title="second", content="We deploy on every Tuesday at nine sharp.", priority=1, force=True).id
    assert [hit.id for hit in hold.recall("deploy").memories] == [first]
    told = hold.why_not(second, "deploy")
    assert (codes(told), told.place) == (["folded"], 1)
    assert first in told.reasons[0].message


def test_a_memory_dropped_by_the_budget_is_reported(hold: Any) -> None:
    hold.store(title="first", content="deploy deploy")
    long = hold.store(title="long", content="We deploy " + "and talk about it " * 100).id
    told = hold.why_not(long, "deploy", budget_tokens=400)
    assert (hold.recall("deploy", budget_tokens=400).count, codes(told), told.place) == (1, ["budget"], 2)


def test_a_zero_budget_is_reported_for_a_hit_and_for_its_duplicate(hold: Any) -> None:
    ids = [
        hold.store(title=title, content="We deploy on every Tuesday at nine sharp.", priority=priority, force=True).id
        for title, priority in (("first", 9), ("second", 1))
    ]
    told = [hold.why_not(id, "deploy", budget_tokens=0) for id in ids]
    assert [(one.returned, codes(one)) for one in told] == [(False, ["budget"]), (False, ["folded", "budget"])]
    assert ids[0] in told[1].reasons[1].message


def test_a_memory_found_by_neither_words_nor_vectors_is_reported_for_each(hold: Any) -> None:
    hold.store(title="Deploy day", content=SAYING)
    id = hold.store(title="Violets", content="In shady forests.", embedding={"model": "own", "vector": [0.1, 1]}).id
    told = hold.why_not(id, "when do we deploy?", embedding={"model": "own", "vector": [1, 0]})
    assert (told.returned, codes(told)) == (False, ["no_words", "far", "unrelated"])


def test_a_missing_embedding_is_reported(hold: Any) -> None:
    hold.store(title="near", content="North.", embedding={"model": "own", "vector": [1, 0]})
    id = hold.store(title="none", content="Somewhere.").id
    told = hold.why_not(id, "xylophone", embedding={"model": "own", "vector": [1, 0]})
    assert codes(told)[:2] == ["no_words", "no_vector"]


def test_a_lower_ranked_memory_is_reported_with_the_score_difference(
    hold: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each channel returns at most three."""
    monkeypatch.setattr(lexical_hits, "WIDE", lexical_hits.Breadth(3, 3, 3))
    ids = [
        hold.store(
            title=f"{number}",
            content="deploy " * (5 - number) + "or not " * number,
            embedding={"model": "own", "vector": [10, number]},
        ).id
        for number in range(5)
    ]
    told = hold.why_not(ids[4], "deploy", embedding={"model": "own", "vector": [1, 0]}, limit=3)
    assert (codes(told), told.place, told.candidates) == (["words", "vectors", "limit"], 4, 3)
    assert "0.928; 3 others are nearer, the last with 0.981" in told.reasons[1].message


def test_an_invisible_memory_is_not_found(hold: Any, seen_by: Any) -> None:
    id = hold.store(title="Secret", content=SAYING, scope="private").id
    with pytest.raises(NotFound):
        seen_by("ai:other@there").why_not(id, "deploy")
    with pytest.raises(NotFound):
        hold.why_not("no-such-memory", "deploy")


def test_a_question_about_another_time_is_answered_for_that_time(hold: Any, clock: Any) -> None:
    id = hold.store(title="Place", content="The office is in Berlin.", tier="long").id
    hold.store(title="Other", content="The office is warm.", tier="long")
    at = clock.move(days=1)
    clock.move(days=1)
    hold.update(id, title="Here", content="We sit in Rome.")
    now, past = hold.why_not(id, "Berlin"), hold.why_not(id, "Berlin", known_at=at)
    hit = hold.recall("Berlin", known_at=at, explain=True).memories[0]
    assert (now.title, codes(now)) == ("Here", ["no_words", "no_question_vector", "unrelated"])
    assert (past.title, codes(past), past.place, past.known_at) == ("Place", ["returned"], 1, at)
    assert (hit.id, hit.why) == (id, past.why)


def test_a_memory_unknown_or_not_valid_at_that_time_is_reported(hold: Any, clock: Any) -> None:
    before = clock.after(hours=-1)
    id = hold.store(
        title="Old", content="The office was a barn.", valid_from="1990-01-01", valid_until="2000-01-01", tier="long"
    ).id
    clock.move(days=1)
    assert codes(hold.why_not(id, "barn", known_at=before)) == ["unknown_then"]
    assert codes(hold.why_not(id, "barn", as_of="2005-01-01")) == ["untrue_then"]
    assert codes(hold.why_not(id, "barn", as_of="1980-01-01")) == ["untrue_then"]
    assert codes(hold.why_not(id, "barn", as_of="1995-01-01")) == ["returned"]


@pytest.mark.parametrize(("code", "filters"), OUTSIDE.items(), ids=OUTSIDE.keys())
def test_the_filter_excluding_a_memory_at_that_time_is_named(
    hold: Any, clock: Any, code: str, filters: dict[str, Any]
) -> None:
    id = hold.store(title="Deploy day", content=SAYING, namespace="team/b", scope="team", tags=["ops"]).id
    at = clock.move(hours=1)
    clock.move(hours=1)
    hold.update(id, content="Never.", namespace="team/a", tags=["ops", "day"])
    told = hold.why_not(id, "deploy", known_at=at, **filters)
    assert hold.recall("deploy", known_at=at, **filters).count == 0
    assert (told.returned, codes(told), told.why) == (False, [code], None)


def test_the_past_state_of_a_memory_is_a_reason(hold: Any, clock: Any) -> None:
    id = hold.store(title="a", content=SAYING, tier="long").id
    times = [clock.move(hours=1)]
    for change in (lambda: hold.archive(ids=[id]), lambda: hold.archive_restore(id), lambda: hold.delete(id)):
        clock.move(hours=1)
        change()
        times.append(clock.move(hours=1))
    told = [codes(hold.why_not(id, "deploy", known_at=at)) for at in times]
    assert told == [["returned"], ["archived"], ["returned"], ["deleted"]]


def test_a_memory_invisible_at_that_time_counts_as_unknown(hold: Any, clock: Any, seen_by: Any) -> None:
    id = hold.store(title="Secret", content=SAYING, scope="private", tier="long").id
    at = clock.move(hours=1)
    clock.move(hours=1)
    hold.update(id, scope="collective")
    other = seen_by("ai:other@there")
    assert codes(other.why_not(id, "deploy")) == ["returned"]
    assert codes(other.why_not(id, "deploy", known_at=at)) == ["unknown_then"]


def test_a_memory_outranked_at_that_time_is_reported_with_its_rank(
    hold: Any, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each channel returns at most three."""
    monkeypatch.setattr(lexical_hits, "WIDE", lexical_hits.Breadth(3, 3, 3))
    own = {"model": "own", "vector": [1, 0]}
    ids = [
        hold.store(title=f"{number}", content="deploy " + "soon " * (number < 3), embedding=own, tier="long").id
        for number in range(4)
    ]
    at = clock.move(hours=1)
    clock.move(hours=1)
    for id in ids:
        hold.update(id, content="All gone.", embedding=own)
    told = hold.why_not(ids[3], "deploy soon", known_at=at, embedding=own, limit=3)
    assert (told.returned, codes(told), told.place) == (False, ["words", "no_vector", "limit"], 4)
    assert "current text" in told.reasons[1].message
