"""What a question asks of the full-text index."""

import pytest
from plans import plans_of

from holdfast import Holdfast
from holdfast.features.recall import candidates
from holdfast.features.recall import fts_query as asking
from holdfast.features.recall.fts_query import Question
from holdfast.kernel.storage.port import Store


@pytest.fixture
def little_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if four memories were very many."""
    monkeypatch.setattr(asking, "ROW_BUDGET", 4)


def fill(hold: Holdfast, *contents: str, namespace: str = "global") -> None:
    for number, content in enumerate(contents):
        hold.store(title=f"{content} {number}", content=content, namespace=namespace)


def asked(hold: Holdfast, *words: str) -> Question:
    with hold.hold.reading() as session:
        return asking.question(session, words)


def recalled(hold: Holdfast, question: str, **more: object) -> list[str]:
    return [memory.content for memory in hold.recall(context=question, **more).memories]


def test_a_small_memory_is_asked_for_every_word(hold: Holdfast) -> None:
    fill(hold, "apple pie", "apple cake")
    assert asked(hold, "apple", "pie", "nowhere") == Question(("apple", "pie", "nowhere"))


@pytest.mark.usefixtures("little_budget")
def test_the_commonest_words_are_left_out_once_enough_rows_match(hold: Holdfast) -> None:
    fill(hold, *["apple"] * 8, "apple pie", "apple cake")
    held = {"appl": 10, "cake": 1, "pie": 1}
    assert asked(hold, "apple", "cake", "pie", "nowhere") == Question(("cake", "pie"), held=held)


@pytest.mark.usefixtures("little_budget")
def test_beside_vectors_fewer_words_are_enough(hold: Holdfast) -> None:
    fill(hold, "apple pie", *["apple tart"] * 3, *["cherry"] * 5)
    with hold.hold.reading() as session:
        assert asking.question(session, ("pie", "tart")).rare == ("pie", "tart")
        beside = asking.question(session, ("pie", "tart"), beside_vectors=True)
    assert (beside.rare, beside.common) == (("pie",), ("tart",))


@pytest.mark.usefixtures("little_budget")
def test_a_common_word_is_looked_up_among_the_newest_if_there_are_no_two_rarer_ones(hold: Holdfast) -> None:
    fill(hold, "pie", *["apple"] * 9)
    held = {"appl": 9, "pie": 1}
    assert asked(hold, "apple", "pie") == Question(("pie",), ("apple",), since_row=5, held=held)
    assert recalled(hold, "apple pie", limit=1) == ["pie"]


@pytest.mark.usefixtures("little_budget")
def test_a_question_of_common_words_alone_is_answered(hold: Holdfast) -> None:
    fill(hold, *["apple"] * 10)
    assert recalled(hold, "apple", limit=3) == ["apple"] * 3


@pytest.mark.usefixtures("little_budget")
def test_an_old_memory_is_found_though_newer_ones_elsewhere_hold_the_same_words(hold: Holdfast) -> None:
    fill(hold, "apple tree", namespace="garden")
    fill(hold, *["apple"] * 99, namespace="kitchen")
    assert recalled(hold, "apple", namespace="garden") == ["apple tree"]


def test_how_common_a_word_is_follows_the_store_as_it_grows(hold: Holdfast, store: Store) -> None:
    store._counts.common = 2  # type: ignore[attr-defined]
    with hold.hold.reading() as session:
        assert session.holding(["appl"], 8) == {}
    fill(hold, *["apple"] * 8)
    with hold.hold.reading() as session:
        assert session.holding(["appl"], 8) == {"appl": 8}
    fill(hold, "apple x", "apple y")
    with hold.hold.reading() as session:
        assert (session.holding(["appl"], 9), session.holding(["appl"], 10)) == ({"appl": 8}, {"appl": 10})


@pytest.mark.usefixtures("little_budget")
def test_a_question_asks_the_store_nothing_twice_in_one_view_of_it(
    hold: Holdfast, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(hold, "pie", *["apple"] * 9)
    with plans_of(store, monkeypatch).noted() as seen:
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


def test_that_a_filter_leaves_very_many_is_believed_for_a_while(
    hold: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "MOST_COUNTED", 2)
    monkeypatch.setattr(candidates, "BELIEVED", 2)
    usual, which = candidates.Usual(), candidates.Filter(namespace="kitchen")

    def counted() -> int | None:
        with hold.hold.reading() as session:
            return usual.count(session, hold.hold.caller, which, hold.hold.now())

    fill(hold, "apple", "pear", "plum", namespace="kitchen")
    assert counted() is None
    hold.forget(namespace="kitchen", pattern="apple")
    assert [counted() for _ in range(4)] == [None, None, 2, 2]
