"""Read memories by id, in pages and by keyword search."""

from typing import Any

import pytest

import holdfast
from holdfast.kernel.errors import AmbiguousId, FilterRequired, Invalid, NotFound


@pytest.fixture
def hold(clocked_store: holdfast.Holdfast) -> holdfast.Holdfast:
    return clocked_store


def titles(found: Any) -> list[str]:
    return [one.title for one in found]


def test_an_id_or_an_unambiguous_prefix_finds_a_memory(hold: Any) -> None:
    stored = hold.store(title="Plan", content="x")
    assert hold.get(stored.id) == hold.get(stored.id[:-1]) == hold.get(stored.id[:8])


def test_an_ambiguous_prefix_is_refused_with_the_candidates(hold: Any) -> None:
    ids = sorted(hold.store(title=f"{n}", content="x").id for n in range(2))
    for use in (hold.get, hold.delete, hold.update, hold.history, hold.promote):
        with pytest.raises(AmbiguousId) as refused:
            use(ids[0][:8])
        assert sorted(refused.value.details["candidates"]) == ids
    assert hold.list().count == 2


def test_invisible_memories_make_no_prefix_ambiguous(hold: Any, seen_by: Any) -> None:
    hold.store(title="Hidden", content="x", scope="private")
    shown = hold.store(title="Shown", content="x")
    assert seen_by("ai:other@here").get(shown.id[:8]).id == shown.id


@pytest.mark.parametrize("id", ["no-such-memory", "%", "_" * 36, "' or 1=1 --", "~", "\U0010ffff", "../x"])
def test_an_unknown_id_finds_nothing(hold: Any, id: str) -> None:
    hold.store(title="Plan", content="x")
    with pytest.raises(NotFound):
        hold.get(id)


def test_an_id_invalid_in_a_database_is_refused(hold: Any) -> None:
    with pytest.raises(Invalid, match="id: must not contain NUL"):
        hold.get("a\x00b")


def test_memories_are_listed_by_priority_then_newest_first(hold: Any, clock: Any) -> None:
    for title, priority in (("old low", 1), ("old high", 9), ("new high", 9), ("new low", 1)):
        hold.store(title=title, content="x", priority=priority)
        clock.move(seconds=1)
    assert titles(hold.list().memories) == ["new high", "old high", "new low", "old low"]


def test_pages_follow_each_other_without_gap_or_overlap(hold: Any) -> None:
    for number in range(7):
        hold.store(title=f"{number}", content="x", priority=1 + number % 3)
    pages = [titles(hold.list(limit=3, offset=skip).memories) for skip in (0, 3, 6, 9)]
    assert [len(page) for page in pages] == [3, 3, 1, 0]
    assert [title for page in pages for title in page] == titles(hold.list(limit=1000).memories)


@pytest.fixture
def shelf(hold: Any, clock: Any, seen_by: Any) -> Any:
    hold.store(title="ops", content="deploy fast", namespace="team", tags=["a", "b"], priority=9, tier="long")
    clock.move(days=1)
    hold.store(title="sub", content="deploy slowly", namespace="team/sub", tags=["b"], source_uri="doc:x")
    clock.move(days=1)
    other = seen_by("ai:other@here")
    other.store(title="else", content="deploy never", namespace="teams", priority=2, tags=["A"], tier="short")
    return hold


FILTERS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "namespace": ({"namespace": "team"}, ["ops"]),
    "below": ({"namespace": "team/sub"}, ["sub"]),
    "case": ({"namespace": "TEAM"}, []),
    "tier": ({"tier": "short"}, ["else"]),
    "agent": ({"agent_id": "ai:other@here"}, ["else"]),
    "priority": ({"min_priority": 5}, ["ops", "sub"]),
    "tag": ({"tags": ["b"]}, ["ops", "sub"]),
    "tags": ({"tags": ["a", "b"]}, ["ops"]),
    "since": ({"since": "2026-02-01T09:00:00Z"}, ["else", "sub"]),
    "until": ({"until": "2026-02-01T09:00:00Z"}, ["ops", "sub"]),
    "between": ({"since": "2026-02-01", "until": "2026-02-02"}, ["sub"]),
    "offset": ({"since": "2026-02-01T10:00:00+01:00", "until": "2026-02-01T09:00:00"}, ["sub"]),
    "several": ({"tags": ["b"], "min_priority": 9, "tier": "long"}, ["ops"]),
}


def test_a_list_can_be_limited_to_kinds(shelf: Any) -> None:
    shelf.store(title="choice", content="We deploy by hand.", kind="decision")
    assert titles(shelf.list(kinds=["decision", "event"]).memories) == ["choice"]
    assert shelf.list(kinds=["event"]).count == 0


@pytest.mark.parametrize(("filter", "left"), FILTERS.values(), ids=FILTERS.keys())
def test_a_filter_has_the_same_meaning_in_list_and_search(shelf: Any, filter: dict[str, Any], left: list[str]) -> None:
    assert sorted(titles(shelf.list(**filter).memories)) == left
    assert sorted(titles(shelf.search("deploy", **filter).results)) == left


def test_a_filter_is_applied_before_the_limit(hold: Any) -> None:
    for number in range(30):
        hold.store(title=f"{number}", content="deploy " * 5, namespace="big", priority=9)
    hold.store(title="needle", content="one deploy among many words in a small place", namespace="small")
    assert titles(hold.list(namespace="small", limit=1).memories) == ["needle"]
    assert titles(hold.search("deploy", namespace="small", limit=1).results) == ["needle"]
    assert titles(hold.recall("deploy", namespace="small", limit=1).memories) == ["needle"]


def test_a_namespace_is_found_in_any_unicode_normalization(hold: Any) -> None:
    hold.store(title="Plan", content="deploy", namespace="caf\u00e9/menu")
    for answer in (
        hold.list(namespace="cafe\u0301/menu").memories,
        hold.search("deploy", namespace="cafe\u0301/menu").results,
        hold.recall("deploy", namespace="cafe\u0301/menu/today").memories,
    ):
        assert titles(answer) == ["Plan"]


def test_search_requires_all_words_in_any_order_form_and_case(hold: Any) -> None:
    hold.store(title="Release plan", content="We are deploying to Zürich on Tuesdays.", tags=["ops-team"])
    hold.store(title="Lunch", content="Tuesdays at noon.")
    for query in ("deploy tuesday", "TUESDAYS deployed", "zurich plan", "ops tuesdays", 'deploy "tuesdays"', "plan"):
        assert titles(hold.search(query).results) == ["Release plan"], query
    assert hold.search("deploy noon").count == 0


STRANGE = [
    '"',
    "*",
    "AND",
    "a AND",
    "NEAR(",
    "title:",
    "title : x",
    "-a",
    "C++",
    "'",
    "",
    " ",
    "(" * 2000,
    "x" * 65_536,
    "a\x00b",
    "\u202edeploy",
    "OR OR",
    "{a b}",
    "^deploy",
    "50%",
    "deploy) OR (1",
    "日本語",
    "\U0001f600",
    "a" * 300 + " " + "b " * 500,
]


@pytest.mark.parametrize("text", STRANGE, ids=lambda text: ascii(text[:20]))
def test_any_text_is_a_valid_search_and_recall_query(hold: Any, text: str) -> None:
    hold.store(title="Plan", content="deploy near and or not a c")
    if text:
        assert hold.search(text).count in (0, 1)
        assert hold.recall(text).count in (0, 1)
        assert hold.forget(pattern=text[:4096], dry_run=True).archived == 0


def test_an_emoji_is_searchable_as_a_word(hold: Any) -> None:
    hold.store(title="Party", content="We had cake 🎉, and 👩🏽‍💻 came from 🇫🇷.")
    hold.store(title="Break", content="Ten minutes, as always.", tags=["☕"])
    for text, title in (("🎉", "Party"), ("💻", "Party"), ("🇫🇷", "Party"), ("☕️", "Break")):
        assert titles(hold.search(text).results) == [title]
        (hit,) = hold.recall(text, explain=True).memories
        assert (hit.title, len(hit.why.terms)) == (title, 1)
        assert hit.why.terms[0] in text
    for text in ("🤷", "🇩🇪"):
        assert (hold.search(text).count, hold.recall(text).count) == (0, 0)
    assert hold.verify().intact


@pytest.mark.parametrize(
    ("content", "question", "held"),
    [
        (
            "We deployed. Deploying on TUESDAYS, deployed again.",
            "tuesday deploy",
            ["TUESDAYS", "deployed", "Deploying"],
        ),
        ("Les cafés sont fermés.", "cafes", ["cafés"]),
        ("明天去东京开会", "东京", ["东京", "东", "京"]),
        ("Cake 🎉 at noon.", "🎉 cakes", ["Cake", "🎉"]),
    ],
)
def test_explanations_name_the_words_of_the_memory_and_not_their_stems(
    hold: Any, content: str, question: str, held: list[str]
) -> None:
    id = hold.store(title="Note", content=content).id
    (hit,) = hold.recall(question, explain=True).memories
    assert hit.why.terms == hold.why_not(id, question).why.terms == held


@pytest.mark.parametrize("text", ["?!", "\x00", "…", "\u202e", "->"])
def test_a_query_without_words_is_an_error(hold: Any, text: str) -> None:
    hold.store(title="Plan", content="deploy?!")
    found = hold.recall(text)
    assert (found.count, found.meta.degraded) == (0, "The query has no words to search for.")


def test_operators_and_column_names_are_searched_as_words(hold: Any) -> None:
    hold.store(title="Logic", content="cats and dogs near home, not or")
    hold.store(title="x", content="only the title")
    assert titles(hold.search("near AND not").results) == ["Logic"]
    assert hold.search("title:x").count == 1
    assert titles(hold.search("title:x").results) == ["x"]


def test_search_by_source_lists_its_memories_oldest_first(hold: Any, clock: Any) -> None:
    for number in range(3):
        hold.store(title=f"{number}", content="x", source_uri="doc:a" if number != 1 else "doc:b", priority=number + 1)
        clock.move(seconds=1)
    answer = hold.search(source_uri="doc:a")
    assert (titles(answer.results), answer.source_uri) == (["0", "2"], "doc:a")


@pytest.mark.parametrize("nothing", [{}, {"query": None}, {"query": ""}, {"tags": ["a"]}], ids=str)
def test_search_requires_words_or_a_source(hold: Any, nothing: dict[str, Any]) -> None:
    with pytest.raises(FilterRequired):
        hold.search(**nothing)


@pytest.mark.parametrize(
    ("field", "filter"),
    [
        ("limit", {"limit": 0}),
        ("limit", {"limit": -1}),
        ("limit", {"limit": 10**9}),
        ("limit", {"limit": "'"}),
        ("offset", {"offset": -1}),
        ("offset", {"offset": 2**63}),
        ("min_priority", {"min_priority": 11}),
        ("namespace", {"namespace": "../../etc"}),
        ("namespace", {"namespace": "a\x00b"}),
        ("namespace", {"namespace": "a" * 10_000}),
        ("since", {"since": "yesterday"}),
        ("until", {"since": "2026-02-02", "until": "2026-02-01"}),
        ("tier", {"tier": "eternal"}),
        ("x') OR 1=1 --", {"x') OR 1=1 --": 1}),
        ('a.b"]', {'a.b"]': 1}),
        ("$where", {"$where": "1"}),
    ],
    ids=str,
)
def test_an_invalid_filter_is_refused_by_name(hold: Any, field: str, filter: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        hold.list(**filter)
    assert refused.value.details == {"fields": [field]}
    assert field in refused.value.message


@pytest.mark.parametrize(
    ("place", "seen"),
    [
        ("o/u/t/a", ["collective", "org", "private", "team", "unit"]),
        ("o/u/t/b", ["collective", "org", "team", "unit"]),
        ("o/u/s/a", ["collective", "org", "unit"]),
        ("o/v/t/a", ["collective", "org"]),
        ("p/u/t/a", ["collective"]),
        ("o", ["collective"]),
    ],
)
def test_an_agent_sees_what_its_team_unit_and_organisation_share(hold: Any, place: str, seen: list[str]) -> None:
    for scope in ("private", "team", "unit", "org", "collective"):
        hold.store(title=scope, content="deploy", namespace="o/u/t/a", scope=scope)
    assert sorted(titles(hold.search("deploy", as_agent=place).results)) == seen
    assert sorted(titles(hold.recall("deploy", as_agent=place).memories)) == seen
