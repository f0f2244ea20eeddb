"""Full-text queries of a recall."""

import pytest
from plans import plans_of

from holdfast import Holdfast
from holdfast.features.recall import search_index
from holdfast.features.recall.search_index import FtsPlan
from holdfast.kernel.storage.port import Store


@pytest.fixture
def little_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limits, so that four memories count as very many."""
    monkeypatch.setattr(search_index, "ROW_BUDGET", 4)


def fill(hold: Holdfast, *contents: str, namespace: str = "global") -> None:
    for number, content in enumerate(contents):
        hold.store(title=f"{content} {number}", content=content, namespace=namespace)


def build_query(hold: Holdfast, *words: str) -> FtsPlan:
    with hold.ctx.reading() as session:
        return search_index.plan_query(session, words)


def recall_contents(hold: Holdfast, question: str, **more: object) -> list[str]:
    return [memory.content for memory in hold.recall(context=question, **more).memories]


def test_a_small_store_is_searched_for_every_word(hold: Holdfast) -> None:
    fill(hold, "apple pie", "apple cake")
    assert build_query(hold, "apple", "pie", "nowhere") == FtsPlan(("apple", "pie", "nowhere"))


@pytest.mark.usefixtures("little_budget")
def test_the_commonest_words_are_dropped_once_enough_rows_match(hold: Holdfast) -> None:
    fill(hold, *["apple"] * 8, "apple pie", "apple cake")
    held = {"appl": 10, "cake": 1, "pie": 1}
    assert build_query(hold, "apple", "cake", "pie", "nowhere") == FtsPlan(("cake", "pie"), document_counts=held)


@pytest.mark.usefixtures("little_budget")
def test_with_embeddings_fewer_words_suffice(hold: Holdfast) -> None:
    fill(hold, "apple pie", *["apple tart"] * 3, *["cherry"] * 5)
    with hold.ctx.reading() as session:
        assert search_index.plan_query(session, ("pie", "tart")).rare == ("pie", "tart")
        beside = search_index.plan_query(session, ("pie", "tart"), beside_vectors=True)
    assert (beside.rare, beside.common) == (("pie",), ("tart",))


@pytest.mark.usefixtures("little_budget")
def test_a_common_word_is_searched_among_the_newest_without_two_rarer_words(hold: Holdfast) -> None:
    fill(hold, "pie", *["apple"] * 9)
    held = {"appl": 9, "pie": 1}
    assert build_query(hold, "apple", "pie") == FtsPlan(("pie",), ("apple",), since_row=5, document_counts=held)
    assert recall_contents(hold, "apple pie", limit=1) == ["pie"]


@pytest.mark.usefixtures("little_budget")
def test_a_query_of_only_common_words_is_answered(hold: Holdfast) -> None:
    fill(hold, *["apple"] * 10)
    assert recall_contents(hold, "apple", limit=3) == ["apple"] * 3


@pytest.mark.usefixtures("little_budget")
def test_an_old_memory_is_found_although_newer_ones_elsewhere_have_the_same_words(hold: Holdfast) -> None:
    fill(hold, "apple tree", namespace="garden")
    fill(hold, *["apple"] * 99, namespace="kitchen")
    assert recall_contents(hold, "apple", namespace="garden") == ["apple tree"]


def test_word_frequencies_follow_the_growth_of_the_store(hold: Holdfast, store: Store) -> None:
    store._counts.min_count = 2  # type: ignore[attr-defined]
    with hold.ctx.reading() as session:
        assert session.document_frequencies(["appl"], 8) == {}
    fill(hold, *["apple"] * 8)
    with hold.ctx.reading() as session:
        assert session.document_frequencies(["appl"], 8) == {"appl": 8}
    fill(hold, "apple x", "apple y")
    with hold.ctx.reading() as session:
        assert (session.document_frequencies(["appl"], 9), session.document_frequencies(["appl"], 10)) == (
            {"appl": 8},
            {"appl": 10},
        )


@pytest.mark.usefixtures("little_budget")
def test_a_query_runs_no_statement_twice_in_one_snapshot(
    hold: Holdfast, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(hold, "pie", *["apple"] * 9)
    with plans_of(store, monkeypatch).record_statements() as seen:
        hold.recall(context="apple pie", limit=1)
    views: list[list[tuple[str, str]]] = []
    for sql, params in seen:
        if sql.startswith("begin"):
            views.append([])
        elif sql.startswith("select"):
            views[-1].append((sql, repr(params)))
    assert sum(map(bool, views)) == 2
    assert sum(map(len, views)) > 3
    assert [view for view in views if len(view) != len(set(view))] == []


def test_the_count_of_a_broad_filter_is_cached_for_a_while(hold: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_index, "MAX_COUNTED", 2)
    monkeypatch.setattr(search_index, "RECOUNT_AFTER", 2)
    usual, which = search_index.CorpusStats(), search_index.Filter(namespace="kitchen")

    def count_rows() -> int | None:
        with hold.ctx.reading() as session:
            return usual.count_filtered(session, hold.ctx.caller, which, hold.ctx.now())

    fill(hold, "apple", "pear", "plum", namespace="kitchen")
    assert count_rows() is None
    hold.forget(namespace="kitchen", pattern="apple")
    assert [count_rows() for _ in range(4)] == [None, None, 2, 2]
